//! Headless Chromium, for pictures of pages.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

use crate::apt;
use crate::cache;

/// Environment variable with the path of an installed Chromium.
const PROGRAM_VARIABLE: &str = "BINTIDE_CHROMIUM";

/// Setting of the reader for light or dark pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorScheme {
    /// Light.
    Light,
    /// Dark.
    Dark,
}

/// Size and colours of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screenshot {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Colours.
    pub colors: ColorScheme,
}

/// Maximum time for a page to load, in milliseconds.
const LOAD_TIME_MS: u32 = 5000;
/// The same at the last attempt, for a busy machine.
const LOAD_TIME_MAX_MS: u32 = 40_000;

/// Writes a picture of a page to a PNG file, with the Chromium of `BINTIDE_CHROMIUM`, else with Debian's, which is
/// fetched into the cache: 120 MB. Debian's runs on Debian 12 only, because it uses the machine's C library.
///
/// # Errors
/// Fails if Chromium cannot be fetched or run, or it writes no picture.
pub fn take_screenshot(address: &str, screenshot: Screenshot, path: &Path) -> Result<()> {
    let mut chromium = Chromium::new()?;
    let Screenshot { width, height, colors } = screenshot;
    let scheme = if colors == ColorScheme::Dark { 0 } else { 1 };
    chromium.command.args(["--hide-scrollbars", &format!("--timeout={LOAD_TIME_MS}")]);
    chromium.command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    chromium.command.arg(format!("--window-size={width},{height}"));
    chromium.command.arg(format!("--screenshot={}", path.display())).arg(address);
    let output = chromium.run()?;
    let text = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(path.exists(), "Chromium took no picture: {text}");
    Ok(())
}

/// Returns the HTML of a page at the time when it and its images have loaded, with the same Chromium as
/// [`take_screenshot`]. If `is_complete` returns false for it, loads the page again, with more time: what scripts
/// fetch may come later than that. Returns the last HTML if none is complete.
///
/// # Errors
/// Fails if Chromium cannot be fetched or run.
pub fn dump_page(address: &str, is_complete: impl Fn(&str) -> bool) -> Result<String> {
    let mut load_time_ms = LOAD_TIME_MS;
    loop {
        let mut chromium = Chromium::new()?;
        chromium.command.arg(format!("--timeout={load_time_ms}")).arg("--dump-dom").arg(address);
        let html = String::from_utf8_lossy(&chromium.run()?.stdout).into_owned();
        load_time_ms *= 2;
        if is_complete(&html) || load_time_ms > LOAD_TIME_MAX_MS {
            return Ok(html);
        }
    }
}

/// Chromium without a window, with a profile of its own: two instances with the same profile disturb each other.
struct Chromium {
    command: Command,
    profile: PathBuf,
}

impl Chromium {
    fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let profile = cache::target_dir().join("chromium").join(name);
        let mut command = chromium()?;
        std::fs::create_dir_all(&profile)?;
        command.env("HOME", &profile).args(["--headless=new", "--no-sandbox", "--disable-gpu"]);
        command.arg("--disable-dev-shm-usage");
        Ok(Self { command, profile })
    }

    fn run(&mut self) -> Result<Output> {
        let output = self.command.output().context("could not run Chromium")?;
        let text = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "Chromium failed: {text}");
        Ok(output)
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Leftover files are in the target directory.
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

fn chromium() -> Result<Command> {
    if let Some(program) = env::var_os(PROGRAM_VARIABLE) {
        return Ok(Command::new(program));
    }
    let root = cache::cached_dir("chromium-1", |directory| {
        apt::unpack("bookworm", &["chromium", "fonts-dejavu-core"], &[], directory)
    });
    let root = root.with_context(|| {
        format!("could not fetch Chromium from Debian; install it, and set {PROGRAM_VARIABLE} to its path")
    })?;
    let mut command = Command::new(root.join("usr/lib/chromium/chromium"));
    let libraries =
        ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/pulseaudio"];
    let libraries: Vec<PathBuf> = libraries.iter().map(|directory| root.join(directory)).collect();
    command.env("LD_LIBRARY_PATH", env::join_paths(libraries)?);
    command.env("FONTCONFIG_PATH", root.join("etc/fonts"));
    Ok(command)
}
