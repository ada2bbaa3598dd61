//! Pages that figures go to: text written by hand, with blocks that a bench fills, and drawings beside it.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use testkit::{Home, Package};

use crate::workspace;

/// A page of the documents, and the folder of its drawings, by the name that both have.
pub(super) struct Page(pub(super) &'static str);

/// What compression saves and costs.
pub(super) const COMPRESSION: Page = Page("compression");
/// A running server that is followed.
pub(super) const LIVE: Page = Page("live");
/// What warming a replica gains.
pub(super) const WARM: Page = Page("warm");
/// How fast logs are replayed.
pub(super) const REPLAY_SPEED: Page = Page("replay-speed");

impl Page {
    /// Fills the block between `<!-- NAME -->` and `<!-- /NAME -->`, and prints it.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        println!("{text}");
        let path = docs().join(self.0).with_extension("md");
        let page = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        let filled = fill(&page, name, text).with_context(|| format!("the page has no block {name}"))?;
        fs::write(&path, filled).with_context(|| format!("could not write {}", path.display()))
    }

    /// Writes a drawing into the page's folder.
    pub(super) fn draw(&self, name: &str, svg: &str) -> Result<()> {
        let folder = docs().join(self.0);
        fs::create_dir_all(&folder)?;
        let path = folder.join(name).with_extension("svg");
        fs::write(&path, svg).with_context(|| format!("could not write {}", path.display()))
    }
}

fn fill(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim()))
}

fn docs() -> PathBuf {
    workspace::root().join("docs")
}

/// When, with what and on what the figures were measured: a paragraph.
pub(super) fn conditions() -> Result<String> {
    let day = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400;
    let (year, month, day) = testkit::civil_date(i64::try_from(day)?);
    let version = Home::find(Package::Mysql)?.version()?;
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
    use super::fill;

    #[test]
    fn blocks_are_filled_again_and_again() {
        let page = "# A\n<!-- a -->\nold\n<!-- /a -->\nrest\n";
        let filled = fill(page, "a", "new\n").unwrap();
        assert_eq!(filled, "# A\n<!-- a -->\n\nnew\n\n<!-- /a -->\nrest\n");
        assert_eq!(fill(&filled, "a", "new").unwrap(), filled);
        assert_eq!(fill(page, "b", "new"), None);
    }
}
