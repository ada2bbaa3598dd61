//! A running server as the source: its logs are received into a store, from where they are applied as they come.

use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::anyhow;
use binlog::MAGIC;
use clap::Args;
use logs::{AtRest, Keep, Store};
use replay::Look;
use servers::{Address, Link, LinkOptions, PasswordSource};
use wire::{End, SemiSync};

use crate::args::Global;
use crate::commands::receive::{self, Begin, Receiver, Wanted, Watch, WhenFull};
use crate::commands::replay::target::Named;
use crate::commands::replay::{Replay, apply, status};
use crate::connection_args::{ConnectionArgs, ReplaySource, Sharing};
use crate::exit::{Failure, Outcome, Verdict};
use crate::interrupt;

/// Which running server the logs come from.
#[derive(Args, Debug)]
pub(super) struct Live {
    /// Apply a running server's logs as it writes them, until Ctrl-C: mysql://USER@HOST:PORT/, as for --to. The
    /// connection options of this server have the prefix --source-, as --source-ssl-ca. The logs are received into
    /// --relay, and applied from there. Given several times: when one source is lost, the next one that has all the
    /// transactions in --relay takes its place (MySQL with GTIDs). Or a directory of logs, as with --follow.
    #[arg(
        long,
        value_name = "SOURCE",
        conflicts_with_all = ["logs", "follow", "dry_run", "status", "forget"]
    )]
    from: Vec<String>,
    /// The directory that --from receives the server's logs into, as bintide receive does, and goes on with.
    #[arg(long, value_name = "DIR", requires = "from")]
    relay: Option<PathBuf>,
    /// Keep so much in --relay, and remove the oldest logs beyond it, applied or not: a time as 12h or 7d, or a size as
    /// 500M or 100G. More than the target may fall behind.
    #[arg(long, value_name = "TIME|SIZE", value_parser = receive::parse_keep, requires = "relay")]
    relay_keep: Option<Keep>,
    /// The former name of --source-password-file.
    #[arg(long, value_name = "FILE", requires = "from", hide = true)]
    from_password_file: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs<ReplaySource>,
}

/// How often somebody who waits for the first log looks.
const GLANCE: Duration = Duration::from_millis(20);

impl Live {
    /// Returns the source of this address.
    fn source(&self, text: &str, target: &ConnectionArgs, global: &Global) -> Result<Address, Failure> {
        let mut address = self.connection.address_beside(target, Sharing::Method, text, global)?;
        if let Some(path) = &self.from_password_file {
            address.password = PasswordSource::File(path.clone());
            address.password.read(&address.cancel).map_err(|error| Failure::NotBegun(error.into()))?;
        }
        Ok(address)
    }

    pub(super) const fn is_wanted(&self) -> bool {
        !self.from.is_empty()
    }
}

/// Receives and applies, until Ctrl-C, or until one of them fails.
pub(super) fn run(command: &mut Replay, global: &Global) -> Outcome {
    let from = command.live.from.clone();
    command.follow = true;
    if let [folder] = from.as_slice()
        && !folder.contains("://")
    {
        command.inputs.set_store(PathBuf::from(folder));
        return apply(command, global);
    }
    let Some(folder) = command.live.relay.clone() else {
        let why = "--from mysql://… needs --relay DIR: where the server's logs are kept on their way";
        return Err(Failure::NotBegun(anyhow!(why)));
    };
    let addresses: Result<Vec<Address>, Failure> =
        from.iter().map(|from| command.live.source(from, command.to.connection(), global)).collect();
    let addresses = addresses?;
    let cancel = interrupt::cancel();
    let options = LinkOptions { cancel: cancel.clone(), ..LinkOptions::default() };
    refuse_itself(command, &addresses, &options, global)?;
    let wanted = Wanted {
        folder: folder.clone(),
        begin: begin(command, &folder, global)?,
        end: End::Never,
        at_rest: AtRest::Plain { keyring: command.inputs.keyring() },
        keep: command.live.relay_keep,
        compress: None,
        semi_sync: SemiSync::Off,
        when_full: WhenFull::Wait,
    };
    let (mut receiver, store) = Receiver::open(wanted, addresses, options, Watch::silent(), global)?;
    thread::scope(|scope| {
        let receiving = scope.spawn(move || {
            let ended = receiver.run(store);
            if ended.is_err() {
                // Without a source there is nothing to apply.
                interrupt::request();
            }
            ended
        });
        let outcome = match has_begun(&folder, &receiving) {
            true => {
                command.inputs.set_store(folder);
                apply(command, global)
            }
            false => Ok(Verdict::Fine),
        };
        cancel.cancel();
        match receiving.join() {
            Ok(Ok(_)) => outcome,
            Ok(Err(failure)) => Err(failure),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A server that had its own changes applied again would have rows twice. Whoever cannot be asked is told so later.
fn refuse_itself(
    command: &Replay,
    sources: &[Address],
    options: &LinkOptions,
    global: &Global,
) -> Result<(), Failure> {
    let Named::Mysql(target, _) = command.to.named(global)? else { return Ok(()) };
    if command.filters.renames() {
        return Ok(());
    }
    let Some(own) = server_uuid(&target, options) else { return Ok(()) };
    match sources.iter().find(|source| server_uuid(source, options).as_ref() == Some(&own)) {
        Some(source) => Err(Failure::NotBegun(anyhow!(
            "--from {source} and --to {target} are one server, as both have its server_uuid: its own changes would be \
             made a second time; give another target"
        ))),
        None => Ok(()),
    }
}

/// The same where the logs of a server's own directory are followed: what is applied comes back in them.
pub(super) fn refuse_own_directory(followed: &Store, target: &Named) -> Result<(), Failure> {
    let (Named::Mysql(target, _), Some(folder)) =
        (target, followed.logs().first().and_then(|log| log.parent()))
    else {
        return Ok(());
    };
    let Ok(text) = std::fs::read_to_string(folder.join("auto.cnf")) else { return Ok(()) };
    let of_folder = text.lines().find_map(|line| line.strip_prefix("server-uuid=")).map(str::trim);
    let options = LinkOptions { cancel: interrupt::cancel(), ..LinkOptions::default() };
    match of_folder.filter(|uuid| server_uuid(target, &options).as_deref() == Some(uuid.as_bytes())) {
        Some(uuid) => Err(Failure::NotBegun(anyhow!(
            "{} is the directory of --to {target} itself, as auto.cnf there has its server_uuid, {uuid}: its own changes \
             would be made a second time; give another target",
            folder.display()
        ))),
        None => Ok(()),
    }
}

fn server_uuid(server: &Address, options: &LinkOptions) -> Option<Vec<u8>> {
    let rows = Link::open(server, options).and_then(|mut link| link.query("SELECT @@GLOBAL.server_uuid"));
    rows.ok()?.pop()?.into_iter().next().flatten()
}

/// Where an empty relay begins: with what the target lacks.
fn begin(command: &Replay, relay: &Path, global: &Global) -> Result<Begin, Failure> {
    if Store::open(relay).is_ok() {
        return Ok(Begin::Oldest);
    }
    let applied = match command.to.named(global)? {
        Named::Mysql(address, _) => {
            let look = Look::at(&address).map_err(|error| Failure::NotBegun(error.into()))?;
            look.applied()
        }
        Named::Sqlite(path) => status::applied(&path)?.unwrap_or_default(),
    };
    let gtids = applied.executed.union(&applied.progress.gtids);
    Ok(Begin::For { gtids, log: applied.progress.place.map(|place| place.log) })
}

/// Waits for the first log's first event; false if there will be none.
fn has_begun<T>(folder: &Path, receiving: &ScopedJoinHandle<'_, T>) -> bool {
    let is_there = || {
        let store = Store::open(folder).ok()?;
        let size = std::fs::metadata(store.logs().first()?).ok()?.len();
        (size > MAGIC.len() as u64).then_some(())
    };
    while is_there().is_none() {
        if receiving.is_finished() || interrupt::requested() {
            return false;
        }
        thread::sleep(GLANCE);
    }
    true
}
