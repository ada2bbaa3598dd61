//! `bintide top`: a live view of a growing store and of bintide processes.

mod metrics_client;
mod process_view;
mod running_processes;
mod store_activity;
mod store_watch;
mod terminal_view;
mod top_view;
mod transaction_counter;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::Args;

use self::process_view::WatchedProcess;
use self::store_watch::StoreObserver;
use self::terminal_view::{KeyAction, TerminalView};
use self::top_view::TopView;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::log_args::LogArgs;
use crate::screen::{self, ReportStyle};
use crate::value_parsers::{number_within, parse_host_and_port};

pub(crate) const EXAMPLES: &str = "\
Examples:
  All bintide processes of this machine that serve metrics:
      bintide top
  The binary logs of a running server:
      bintide top /var/lib/mysql
  A directory of logs, and the process that receives them:
      bintide top --process 127.0.0.1:9104 /backup/binlogs
  The activity of the last five minutes, once, as JSON:
      bintide top --once --json --window 300 /var/lib/mysql

Press q to quit.";

/// Arguments of `bintide top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Directory to watch, to which a server or bintide receive writes logs; or its index file.
    #[arg(value_name = "DIR")]
    store: Option<PathBuf>,
    /// Process to watch, by the address of its --metrics. Repeatable [default without DIR: all processes of this
    /// machine that have --metrics on their command line or in their environment]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_host_and_port)]
    process: Vec<String>,
    /// Time span of the rates and of the largest transactions of DIR, in seconds: 1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = number_within::<u32>(1..=3600))]
    window: u32,
    /// Seconds between two updates: 1 to 60.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = number_within::<u32>(1..=60))]
    interval: u32,
    /// Print the current state once, and exit. Rates of processes need two readings, so this takes one interval.
    #[arg(long)]
    once: bool,
    /// Print the state as one JSON document. Requires --once.
    #[arg(long, requires = "once")]
    json: bool,
    /// Keyring file for encrypted logs, of component_keyring_file or the older keyring_file plugin.
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
}

/// Interval at which the waiting view polls for keys and signals.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Shows the view until it is closed, or prints it once.
pub(crate) fn run(command: &TopArgs, global: &GlobalArgs) -> CommandResult {
    if !command.once && !io::stdout().is_terminal() {
        return Err(CommandFailure::NotStarted(anyhow!(
            "standard output is not a terminal: use --once, and --json for programs"
        )));
    }
    let mut watch = TopWatch::new(command)?;
    match command.once {
        true => print_once(&mut watch, command, global),
        false => show(&mut watch, command),
    }
}

/// The watched store and processes.
struct TopWatch {
    store: Option<StoreObserver>,
    processes: Vec<WatchedProcess>,
}

impl TopWatch {
    fn new(command: &TopArgs) -> Result<Self, CommandFailure> {
        let store = command.store.as_ref().map(|path| {
            let store = LogArgs::of_one(path.clone(), command.keyring.clone()).store("DIR")?;
            StoreObserver::new(store, command.keyring.clone(), command.window.into())
        });
        let store = store.transpose()?;
        let addresses = match command.process.is_empty() && store.is_none() {
            true => running_processes::metrics_addresses(),
            false => command.process.clone(),
        };
        if addresses.is_empty() && store.is_none() {
            return Err(CommandFailure::NotStarted(anyhow!(
                "no bintide process of this machine has --metrics: start one with this option, or give DIR or \
                 --process"
            )));
        }
        Ok(Self { store, processes: addresses.into_iter().map(WatchedProcess::new).collect() })
    }

    /// Reads the processes, and the new events of the store, until `until` at the latest.
    fn advance(&mut self, until: Instant) -> Result<(), CommandFailure> {
        for process in &mut self.processes {
            process.advance();
        }
        match &mut self.store {
            Some(store) => store.advance(until),
            None => Ok(()),
        }
    }

    fn view(&self) -> TopView {
        let now_us = logs::now_us();
        TopView {
            store: self.store.as_ref().map(|store| store.view(now_us)),
            processes: self.processes.iter().flat_map(WatchedProcess::views).collect(),
        }
    }

    fn is_reading(&self) -> bool {
        self.store.as_ref().is_some_and(StoreObserver::is_reading)
    }
}

fn print_once(watch: &mut TopWatch, command: &TopArgs, global: &GlobalArgs) -> CommandResult {
    let interval = Duration::from_secs(command.interval.into());
    watch.advance(Instant::now() + interval)?;
    if !watch.processes.is_empty() {
        wait(interval);
    }
    while !interrupt::is_stop_requested() {
        watch.advance(Instant::now() + interval)?;
        if !watch.is_reading() {
            break;
        }
    }
    let mut out = io::stdout().lock();
    match command.json {
        true => write_document(&mut out, &watch.view())?,
        false => {
            let style = ReportStyle::new(global.color.on_stdout());
            screen::print(&watch.view().text(style), &mut out)?;
        }
    }
    out.flush()?;
    Ok(CommandVerdict::Success)
}

/// Waits, unless the work is to stop.
fn wait(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end && !interrupt::is_stop_requested() {
        thread::sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now())));
    }
}

/// Shows the view in the terminal until it is closed.
fn show(watch: &mut TopWatch, command: &TopArgs) -> CommandResult {
    let interval = Duration::from_secs(command.interval.into());
    interrupt::set_runs_until_stopped();
    let mut terminal = TerminalView::open()?;
    let mut is_shown = false;
    loop {
        let next = Instant::now() + interval;
        match watch.advance(next) {
            // A log that cannot be read any more, such as after `RESET BINARY LOGS AND GTIDS`, ends work that had begun.
            Err(CommandFailure::Failed(error)) if is_shown => return Err(CommandFailure::Aborted(error)),
            advanced => advanced?,
        }
        is_shown = true;
        terminal.draw(&watch.view())?;
        loop {
            match terminal.next_key(POLL_INTERVAL.min(next.saturating_duration_since(Instant::now())))? {
                KeyAction::Quit => return Ok(CommandVerdict::Success),
                KeyAction::Redraw => terminal.draw(&watch.view())?,
                KeyAction::Nothing => {}
            }
            if interrupt::is_stop_requested() {
                return Ok(CommandVerdict::Success);
            }
            if Instant::now() >= next {
                break;
            }
        }
    }
}
