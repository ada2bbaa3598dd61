//! Headless Chromium, for pictures of pages.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Time for a page to load and to show its first data, in milliseconds.
const LOAD_TIME_MS: u32 = 5000;

/// Writes a picture of a page to a PNG file, with the Chromium of `BINTIDE_CHROMIUM`, else with Debian's, which is
/// fetched into the cache: 120 MB. Debian's runs on Debian 12 only, because it uses the machine's C library.
///
/// # Errors
/// Returns an error if Chromium cannot be fetched or run, or it writes no picture.
pub fn take_screenshot(address: &str, screenshot: Screenshot, path: &Path) -> Result<()> {
    let mut command = headless()?;
    let Screenshot { width, height, colors } = screenshot;
    let scheme = if colors == ColorScheme::Dark { 0 } else { 1 };
    command.args(["--hide-scrollbars", &format!("--timeout={LOAD_TIME_MS}")]);
    command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    command.arg(format!("--window-size={width},{height}"));
    command.arg(format!("--screenshot={}", path.display())).arg(address);
    let output = command.output().context("could not run Chromium")?;
    let text = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success() && path.exists(), "Chromium took no picture: {text}");
    Ok(())
}

/// Returns the HTML of a page after its scripts have run, with the same Chromium as [`take_screenshot`].
///
/// # Errors
/// Returns an error if Chromium cannot be fetched or run.
pub fn dump_page(address: &str) -> Result<String> {
    let mut command = headless()?;
    command.arg(format!("--timeout={LOAD_TIME_MS}")).arg("--dump-dom").arg(address);
    let output = command.output().context("could not run Chromium")?;
    let text = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "Chromium failed: {text}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns a command that runs Chromium without a window.
fn headless() -> Result<Command> {
    let mut command = chromium()?;
    // A separate directory for settings and caches, apart from the user's.
    let profile = cache::target_dir().join("chromium");
    std::fs::create_dir_all(&profile)?;
    command.env("HOME", profile).args(["--headless=new", "--no-sandbox", "--disable-gpu"]);
    command.arg("--disable-dev-shm-usage");
    Ok(command)
}

fn chromium() -> Result<Command> {
    if let Some(program) = env::var_os(PROGRAM_VARIABLE) {
        return Ok(Command::new(program));
    }
    let root = cache::cached_folder("chromium-1", |folder| {
        apt::unpack("bookworm", &["chromium", "fonts-dejavu-core"], &[], folder)
    });
    let root = root.with_context(|| {
        format!("could not fetch Chromium from Debian; install it, and set {PROGRAM_VARIABLE} to its path")
    })?;
    let mut command = Command::new(root.join("usr/lib/chromium/chromium"));
    let libraries =
        ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/pulseaudio"];
    let libraries: Vec<PathBuf> = libraries.iter().map(|folder| root.join(folder)).collect();
    command.env("LD_LIBRARY_PATH", env::join_paths(libraries)?);
    command.env("FONTCONFIG_PATH", root.join("etc/fonts"));
    Ok(command)
}
