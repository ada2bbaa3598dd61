//! Pictures of bintide's pages by a headless Chromium: reports of samples, and the page of a relay with a real source
//! and real clients.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{
    ColorScheme, Launch, PackageHome, Screenshot, TestPackage, TestServer, free_port, take_screenshot,
    wait_until,
};

/// Time during which the source writes, so that the chart has content.
const LOAD_TIME: Duration = Duration::from_secs(40);
/// Times after the start of the load at which one client is stopped and continued.
const PAUSE_START: Duration = Duration::from_secs(12);
const PAUSE_END: Duration = Duration::from_secs(24);
/// Picture in the documentation.
const DOCUMENTED: &str = "docs/reference/relay/page.png";

/// Page of which pictures are taken.
struct PicturedPage {
    /// Name, which begins the names of the pictures.
    name: &'static str,
    /// Height of the wide and of the narrow pictures, in pixels.
    heights: [u32; 2],
}

/// Page of a relay.
const RELAY_PAGE: PicturedPage = PicturedPage { name: "relay", heights: [1060, 1750] };

/// Pages that commands write, with their arguments.
const REPORT_PAGES: [(PicturedPage, &[&str]); 2] = [
    (
        PicturedPage { name: "stats", heights: [2800, 3300] },
        &["stats", "samples/large.binlog", "samples/types.binlog"],
    ),
    (
        PicturedPage { name: "advise", heights: [3200, 3900] },
        &["advise", "--levels=1,3,10", "samples/large.binlog", "samples/types.binlog"],
    ),
];

/// Widths and colours, by the end of the picture's name.
const FORMATS: [(&str, usize, u32, ColorScheme); 4] = [
    ("wide-light", 0, 1200, ColorScheme::Light),
    ("wide-dark", 0, 1200, ColorScheme::Dark),
    ("phone-light", 1, 400, ColorScheme::Light),
    ("phone-dark", 1, 400, ColorScheme::Dark),
];

/// Running program, which is killed on drop.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn().with_context(|| format!("could not start {command:?}"))?))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.0.id())?), signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killing fails if the program has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes all pictures into target/screenshots.
pub(crate) fn take_screenshots() -> Result<()> {
    testkit::run_cargo(&["build", "--package", "bintide"])?;
    let bintide = testkit::target_dir().join("debug/bintide");
    let pictures = testkit::target_dir().join("screenshots");
    fs::create_dir_all(&pictures)?;
    for (page, arguments) in REPORT_PAGES {
        let html = pictures.join(page.name).with_extension("html");
        let mut command = Command::new(&bintide);
        command.env_clear().current_dir(testkit::workspace_root());
        let status = command.args(arguments).arg("--html").arg(&html).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "bintide {} failed", arguments[0]);
        take_pictures(&format!("file://{}", html.display()), &page, &pictures)?;
    }
    take_relay_pictures(&bintide, &pictures)
}

/// Takes pictures of a page in all formats.
fn take_pictures(address: &str, page: &PicturedPage, pictures: &Path) -> Result<()> {
    for (format, height, width, colors) in FORMATS {
        let path = pictures.join(format!("{}-{format}.png", page.name));
        let screenshot = Screenshot { width, height: page.heights[height], colors };
        take_screenshot(address, screenshot, &path)?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Takes pictures of a relay's page, and copies one into the documentation.
fn take_relay_pictures(bintide: &Path, pictures: &Path) -> Result<()> {
    let source = Launch::mysql()
        .options(["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin=binlog"])
        .option("--binlog-transaction-compression=ON")
        .start()?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, s text)")?;
    write_rows(&source, 300)?;
    source.sql("flush binary logs")?;
    let directory = TempDir::new()?;
    let [port, http] = [free_port()?, free_port()?];
    let mut relay = Command::new(bintide);
    relay.env_clear().arg("relay").arg(directory.path().join("logs"));
    relay.arg(format!("--from=mysql://root@127.0.0.1:{}/", source.port()));
    relay.arg(format!("--listen=127.0.0.1:{port}")).arg(format!("--metrics=127.0.0.1:{http}"));
    let _relay = Process::start(&mut relay)?;
    wait_for_port(port)?;
    let clients = start_clients(bintide, directory.path(), port)?;
    write_load(&source, &clients[1])?;
    take_pictures(&format!("http://127.0.0.1:{http}/"), &RELAY_PAGE, pictures)?;
    let documented = testkit::workspace_root().join(DOCUMENTED);
    fs::create_dir_all(documented.parent().context("a file has a directory")?)?;
    fs::copy(pictures.join("relay-wide-light.png"), &documented)?;
    println!("{}", documented.display());
    Ok(())
}

fn wait_for_port(port: u16) -> Result<()> {
    wait_until("the relay's port", || Ok(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()))
}

/// Starts clients: mysqlbinlog, which reads as-is, and two that receive plain logs.
fn start_clients(bintide: &Path, directory: &Path, port: u16) -> Result<Vec<Process>> {
    let home = PackageHome::find(TestPackage::Mysql)?;
    let mut reader = home.command("mysqlbinlog")?;
    reader.args(["--no-defaults", "-R", "--raw", "--stop-never", "--host=127.0.0.1", "--user=repl"]);
    reader.args([&format!("--port={port}"), "--connection-server-id=101", "binlog.000001"]);
    let raw = directory.join("raw");
    fs::create_dir(&raw)?;
    let mut clients = vec![Process::start(reader.current_dir(raw))?];
    for name in ["site-a", "site-b"] {
        let mut receive = Command::new(bintide);
        receive.env_clear().arg("receive").arg(directory.join(name));
        receive.arg(format!("--from=mysql://{name}@127.0.0.1:{port}/"));
        clients.push(Process::start(&mut receive)?);
    }
    Ok(clients)
}

/// Writes for some time. One client is stopped meanwhile.
fn write_load(source: &TestServer, paused: &Process) -> Result<()> {
    let began = Instant::now();
    let mut is_paused = false;
    while began.elapsed() < LOAD_TIME {
        let pauses = (PAUSE_START..PAUSE_END).contains(&began.elapsed());
        if pauses != is_paused {
            paused.signal(if pauses { Signal::SIGSTOP } else { Signal::SIGCONT })?;
            is_paused = pauses;
        }
        write_rows(source, 20)?;
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn write_rows(source: &TestServer, transactions: usize) -> Result<()> {
    let insert = "insert into d.t (s) with recursive n (i) as (select 1 union all select i + 1 from n where i < 500) \
                  select concat(sha2(rand(), 256), repeat('some text ', 12)) from n;";
    source.sql(&format!("use d; {}", insert.repeat(transactions))).map(drop)
}
