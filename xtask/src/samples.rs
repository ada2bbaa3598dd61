//! Records the sample logs. The head of each `samples/NAME.sql` lists the logs to record, and its text runs on a real
//! server.
//!
//! ```sql
//! -- Content of the logs, in one line.
//! ```
//!
//! Each line of the head's second part describes one sample: its kind ([`sample_script::SampleKind`]), its name, and
//! options of the server. In the text, `-- new session` closes the session and opens another, and `-- fails` precedes a
//! statement that must fail.

mod record_sample;
pub(crate) mod rows;
mod sample_script;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::samples::sample_script::SampleScript;

/// Largest total size of the samples, which are part of every clone.
const SAMPLES_SIZE_MAX: u64 = 4 << 20;

/// Lines of the samples' README around the table that this module writes.
const TABLE_BEGIN: &str = "<!-- table: cargo xtask samples -->";
const TABLE_END: &str = "<!-- end of table -->";

/// Records the samples of the named scripts, or of all, and writes the README's table.
pub(crate) fn record_samples(names: &[String]) -> Result<()> {
    let directory = testkit::workspace_root().join("samples");
    let scripts = SampleScript::read_all(&directory)?;
    for name in names {
        ensure!(scripts.iter().any(|script| script.name == *name), "there is no samples/{name}.sql");
    }
    for script in scripts.iter().filter(|script| names.is_empty() || names.contains(&script.name)) {
        for recipe in &script.recipes {
            let counts = record_sample::record_sample(script, recipe, &directory)
                .with_context(|| format!("could not record {}", recipe.name))?;
            println!("{:8} {}", size(&directory.join(&recipe.name))?, recipe.name);
            rows::write_counts(&recipe.name, &counts, &directory)?;
        }
    }
    write_table(&directory, &scripts)?;
    let bytes = fs::read_dir(&directory)?.map(|entry| size(&entry?.path())).sum::<Result<u64>>()?;
    ensure!(bytes < SAMPLES_SIZE_MAX, "the samples take {bytes} bytes; {SAMPLES_SIZE_MAX} are allowed");
    Ok(())
}

/// Runs the named scripts, or all, and writes the final row counts of their servers to `samples/rows.tsv`.
pub(crate) fn count_rows(names: &[String]) -> Result<()> {
    let directory = testkit::workspace_root().join("samples");
    let scripts = SampleScript::read_all(&directory)?;
    for script in scripts.iter().filter(|script| names.is_empty() || names.contains(&script.name)) {
        for recipe in script.recipes.iter().filter(|recipe| recipe.kind.is_one_log()) {
            let counts = record_sample::count_sample_rows(script, recipe, &directory)
                .with_context(|| format!("could not count the rows of {}", recipe.name))?;
            rows::write_counts(&recipe.name, &counts, &directory)?;
        }
    }
    Ok(())
}

fn write_table(directory: &Path, scripts: &[SampleScript]) -> Result<()> {
    let path = directory.join("README.md");
    let readme = fs::read_to_string(&path).context("could not read samples/README.md")?;
    let marks =
        readme.split_once(TABLE_BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(TABLE_END)?.1)));
    let (head, tail) = marks.context("samples/README.md has no marks for its table")?;
    let mut table = String::from("| sample | made by | bytes | recorded with |\n|---|---|---|---|\n");
    for script in scripts {
        for recipe in script.recipes.iter().filter(|recipe| directory.join(&recipe.name).exists()) {
            let (name, made_by, bytes) = (&recipe.name, &script.name, size(&directory.join(&recipe.name))?);
            let options = recipe.options.iter().map(|option| format!(" `{option}`")).collect::<String>();
            let recording = format!("{}{options}", recipe.kind.description());
            writeln!(table, "| [{name}]({name}) | [{made_by}.sql]({made_by}.sql) | {bytes} | {recording} |")?;
        }
    }
    let mut contents = String::from("| script | content of its logs |\n|---|---|\n");
    for script in scripts {
        writeln!(contents, "| [{0}.sql]({0}.sql) | {1} |", script.name, script.title)?;
    }
    fs::write(&path, format!("{head}{TABLE_BEGIN}\n\n{contents}\n{table}\n{TABLE_END}{tail}"))?;
    Ok(())
}

/// Returns the size of a file, or of all files of a directory.
fn size(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).with_context(|| format!("no {}", path.display()))?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let mut sum = 0;
    for entry in fs::read_dir(path)? {
        sum += entry?.metadata()?.len();
    }
    Ok(sum)
}
