//! Starts child processes that the kernel kills when this process ends, for any reason.
//!
//! The kernel can send a signal to a child when its parent ends. It takes the *thread* that started the child for the
//! parent. So one thread, which runs as long as the process, starts all children.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex};
use std::thread;

/// The program that requests a signal for its parent's death (from the package util-linux).
const SETPRIV: &str = "/usr/bin/setpriv";

type SpawnRequest = (Command, Sender<io::Result<Child>>);

static SPAWNER: LazyLock<Mutex<Sender<SpawnRequest>>> = LazyLock::new(|| {
    let (sender, receiver) = mpsc::channel::<SpawnRequest>();
    thread::spawn(move || {
        for (mut command, answer) in receiver {
            // If the caller has ended, the child's handle is dropped.
            let _ = answer.send(command.spawn());
        }
    });
    Mutex::new(sender)
});

/// Starts a command without input and output, which is killed when this process ends.
pub(crate) fn spawn_bound(command: &Command) -> io::Result<Child> {
    let (answer, child) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts servers has ended");
    let sender = SPAWNER.lock().map_err(|_| gone())?.clone();
    sender.send((bound(command), answer)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

fn bound(command: &Command) -> Command {
    let mut bound = if Path::new(SETPRIV).exists() {
        let mut bound = Command::new(SETPRIV);
        bound.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program());
        bound
    } else {
        Command::new(command.get_program())
    };
    if let Some(directory) = command.get_current_dir() {
        bound.current_dir(directory);
    }
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    bound
        .envs(variables)
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    bound
}
