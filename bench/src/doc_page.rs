//! Pages of the documentation with measurements: the text is written manually, and a bench fills blocks in it and
//! writes charts beside it.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use testkit::{PackageHome, TestPackage};

/// Page of `docs/measured`, by its name, which is also that of the directory with its charts.
pub(super) struct DocPage(pub(super) &'static str);

/// Size and speed of archives.
pub(super) const ARCHIVE: DocPage = DocPage("archive");
/// Savings and costs of compression.
pub(super) const COMPRESSION: DocPage = DocPage("compression");
/// Cost of writing to Kafka.
pub(super) const KAFKA: DocPage = DocPage("kafka");
/// Lag of replay from a running server.
pub(super) const LAG: DocPage = DocPage("lag");
/// Cost of serving logs.
pub(super) const RELAY: DocPage = DocPage("relay");
/// Gain of warming a replica.
pub(super) const WARM: DocPage = DocPage("warm");
/// Speed of replay.
pub(super) const REPLAY_SPEED: DocPage = DocPage("replay-speed");

impl DocPage {
    /// Replaces the block between `<!-- NAME -->` and `<!-- /NAME -->`, and prints it.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        println!("{text}");
        let path = measured().join(self.0).with_extension("md");
        let page = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        let filled =
            fill_block(&page, name, text).with_context(|| format!("the page has no block {name}"))?;
        fs::write(&path, filled).with_context(|| format!("could not write {}", path.display()))
    }

    /// Writes a chart into the page's directory.
    pub(super) fn draw(&self, name: &str, svg: &str) -> Result<()> {
        let directory = measured().join(self.0);
        fs::create_dir_all(&directory)?;
        let path = directory.join(name).with_extension("svg");
        fs::write(&path, svg).with_context(|| format!("could not write {}", path.display()))
    }
}

fn fill_block(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim()))
}

fn measured() -> PathBuf {
    testkit::workspace_root().join("docs/measured")
}

/// Returns a paragraph with date, versions and machine of the measurements.
pub(super) fn conditions() -> Result<String> {
    let day = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400;
    let (year, month, day) = testkit::civil_date(i64::try_from(day)?);
    let version = PackageHome::find(TestPackage::Mysql)?.version()?;
    let version = version.split(' ').next().unwrap_or_default();
    let version = version.split('-').next().unwrap_or_default();
    let cores = thread::available_parallelism()?;
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    Ok(format!(
        "\nMeasured on {year}-{month:02}-{day:02} with MySQL {version}, zstd {}, on {cores} cores, {system}.\n",
        zstd_safe::version_string()
    ))
}

#[cfg(test)]
mod tests {
    use super::fill_block;

    #[test]
    fn filled_blocks_can_be_filled_again() {
        let page = "# A\n<!-- a -->\nold\n<!-- /a -->\nrest\n";
        let filled = fill_block(page, "a", "new\n").unwrap();
        assert_eq!(filled, "# A\n<!-- a -->\n\nnew\n\n<!-- /a -->\nrest\n");
        assert_eq!(fill_block(&filled, "a", "new").unwrap(), filled);
        assert_eq!(fill_block(page, "b", "new"), None);
    }
}
