//! Demonstration of the main commands on the sample logs, for newcomers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::checks;
use crate::samples::rows::{self, TableRowCounts};

/// Command of the demo.
struct DemoStep<'s> {
    /// Title, in one line.
    title: &'static str,
    arguments: &'s [&'s str],
    /// Number of output lines skipped before the shown ones.
    lines_skipped: usize,
    /// Number of output lines shown; the others are only counted.
    lines_shown: usize,
    /// Expected exit code.
    exit_code: i32,
}

/// Maximum width of a shown line, in characters.
const LINE_WIDTH_MAX: usize = 110;

/// Number of tables whose rows are shown.
const TABLES_SHOWN: usize = 6;

/// Directory for the files that the demo writes.
const DEMO_DIRECTORY: &str = "target/demo-files";

/// Names of the logs that are compressed and decompressed.
const SAMPLE_LOGS: [&str; 6] = ["types", "json", "charsets", "partitions", "foreign-keys", "triggers"];

/// Directories of the compressed and the decompressed copies.
const COMPRESSED: &str = "target/demo-files/compressed";
const DECOMPRESSED: &str = "target/demo-files/opened";

/// Chart of the logs' sizes.
const SIZES_CHART: &str = "target/demo-files/sizes.html";

/// Page with the compression advice.
const ADVICE_PAGE: &str = "target/demo-files/advice.html";

/// Path of the damaged copy of a sample, and the offset of the damage.
const DAMAGED: &str = "target/demo-files/damaged.binlog";
const DAMAGED_AT: usize = 5000;

const STEPS: [DemoStep<'static>; 6] = [
    DemoStep {
        title: "Statistics of a log: transactions, rows and bytes by table and kind of change",
        arguments: &["stats", "samples/triggers.binlog"],
        lines_skipped: 8,
        lines_shown: 14,
        exit_code: 0,
    },
    DemoStep {
        title: "The same output as mysqlbinlog, byte for byte, also for compressed transactions",
        arguments: &[
            "dump",
            "-vv",
            "--base64-output=decode-rows",
            "--skip-gtids",
            "samples/triggers-compressed.binlog",
        ],
        lines_skipped: 105,
        lines_shown: 9,
        exit_code: 0,
    },
    DemoStep {
        title: "One line for each transaction",
        arguments: &["dump", "--transactions", "samples/gtids/binlog.000001"],
        lines_skipped: 0,
        lines_shown: 6,
        exit_code: 0,
    },
    DemoStep {
        title: "One line of JSON for each event",
        arguments: &["dump", "--json", "samples/json-partial.binlog"],
        lines_skipped: 14,
        lines_shown: 2,
        exit_code: 0,
    },
    DemoStep {
        title: "Verification of a server's logs: checksums, grammar, positions, GTIDs, rows",
        arguments: &["verify", "samples/rotation"],
        lines_skipped: 0,
        lines_shown: 2,
        exit_code: 0,
    },
    DemoStep {
        title: "Verification of a log with one flipped bit",
        arguments: &["verify", DAMAGED],
        lines_skipped: 0,
        lines_shown: 30,
        exit_code: 1,
    },
];

/// The demonstration, with the directory of the programs that it runs.
struct Demo {
    programs: PathBuf,
}

/// Builds of the command that can be demonstrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DemoBuild {
    /// An optimized build, made first.
    Demo,
    /// The existing build of the tests.
    Tests,
}

/// Demonstrates the command.
pub(crate) fn run_demo(build: DemoBuild) -> Result<()> {
    let profile = match build {
        DemoBuild::Demo => "demo",
        DemoBuild::Tests => "debug",
    };
    if build == DemoBuild::Demo {
        eprintln!("building bintide: about three minutes in a new clone on two cores");
        testkit::run_cargo(&checks::BUILD_DEMO)?;
    }
    let directory = testkit::workspace_root().join(DEMO_DIRECTORY);
    if directory.exists() {
        fs::remove_dir_all(&directory).context("could not remove the files of an earlier demo")?;
    }
    write_damaged_copy().context("could not damage a copy of a sample")?;
    let demo = Demo { programs: testkit::target_dir().join(profile) };
    for step in &STEPS {
        demo.show(step).with_context(|| format!("could not show bintide {}", step.arguments.join(" ")))?;
    }
    demo.compress_and_decompress()?;
    demo.replay_to_sqlite()
}

/// Height of a log's two bars with the space around them, and width of the longest bar, in pixels.
const BAND_HEIGHT: usize = 48;
const BAR_WIDTH_MAX: usize = 480;

impl Demo {
    /// Replays the samples into SQLite databases, and compares the row counts with those of the servers that ran the
    /// same scripts.
    fn replay_to_sqlite(&self) -> Result<()> {
        let counted = rows::read_counts(&testkit::workspace_root().join("samples"))?;
        println!("\n# Replay into SQLite databases, without any server");
        let mut files = Vec::new();
        for name in SAMPLE_LOGS {
            let (log, file) = (format!("samples/{name}.binlog"), format!("{DEMO_DIRECTORY}/{name}.db"));
            let to = format!("sqlite:{file}");
            let arguments = ["replay", "--quiet", &log, "--to", &to];
            println!("$ bintide {}", arguments.join(" "));
            self.run(&DemoStep {
                title: "",
                arguments: &arguments,
                lines_skipped: 0,
                lines_shown: 1,
                exit_code: 0,
            })?;
            files.push((name, file));
        }
        let mut rows = self.sqlite_rows(files.iter().map(|(_, file)| file.as_str()))?;
        let mut lines = Vec::new();
        for (name, file) in files {
            let source =
                counted.get(&format!("{name}.binlog")).with_context(|| format!("no row counts of {name}"))?;
            let own = rows.remove(&file).unwrap_or_default();
            ensure!(own == *source, "{file} has the row counts {own:?}; expected {source:?}");
            lines.extend(own.iter().map(|(table, count)| format!("{count:>8}  {table:24}  {file}")));
        }
        println!("\nAll {} tables have as many rows as at the source:\n", lines.len());
        for line in lines.iter().take(TABLES_SHOWN) {
            println!("{line}");
        }
        println!("… {} more tables", lines.len().saturating_sub(TABLES_SHOWN));
        Ok(())
    }

    /// Counts the rows of SQLite databases, by file and table.
    fn sqlite_rows<'f>(
        &self,
        files: impl Iterator<Item = &'f str>,
    ) -> Result<BTreeMap<String, TableRowCounts>> {
        let mut command = Command::new(self.programs.join("examples/row_counts"));
        let output = command.current_dir(testkit::workspace_root()).args(files).output()?;
        let message = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "could not count the rows of the databases: {}", message.trim());
        let text = String::from_utf8(output.stdout).context("the row counts are not text")?;
        let mut counts: BTreeMap<String, TableRowCounts> = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.split('\t');
            let (Some(file), Some(table), Some(count)) = (fields.next(), fields.next(), fields.next()) else {
                bail!("invalid line {line:?}")
            };
            counts.entry(file.to_owned()).or_default().insert(table.to_owned(), count.parse()?);
        }
        Ok(counts)
    }

    /// Runs advise on the samples, compresses them, verifies the result, decompresses it, and compares.
    fn compress_and_decompress(&self) -> Result<()> {
        let paths = |directory: &str| SAMPLE_LOGS.map(|name| format!("{directory}/{name}.binlog"));
        let (samples, compressed, opened) = (paths("samples"), paths(COMPRESSED), paths(DECOMPRESSED));
        let run = |title, before: &[&str], logs: &[String], lines_shown| {
            let arguments: Vec<&str> =
                before.iter().copied().chain(logs.iter().map(String::as_str)).collect();
            let step = DemoStep { title, arguments: &arguments, lines_skipped: 0, lines_shown, exit_code: 0 };
            self.show(&step).with_context(|| format!("could not show bintide {}", arguments.join(" ")))
        };
        run("Savings and costs of compression", &["advise", "--all"], &samples, 6)?;
        run(
            "The same as an HTML page with charts",
            &["advise", "--all", "--html", ADVICE_PAGE],
            &samples,
            1,
        )?;
        let title = "Compression as a server does it: the result is still binary logs, for mysqlbinlog and for replicas";
        run(title, &["compress", "--verify", "--output", COMPRESSED], &samples, 6)?;
        run("Verification of the compressed logs", &["verify"], &compressed, 2)?;
        run("Decompression", &["decompress", "--output", DECOMPRESSED], &compressed, 4)?;
        let mut sizes = Vec::new();
        for ((name, sample), (compressed, opened)) in
            SAMPLE_LOGS.iter().zip(&samples).zip(compressed.iter().zip(&opened))
        {
            let read = |path: &str| {
                fs::read(testkit::workspace_root().join(path)).with_context(|| format!("no {path}"))
            };
            let before = read(sample)?;
            ensure!(read(opened)? == before, "{opened} differs from {sample}");
            sizes.push((*name, before.len(), read(compressed)?.len()));
        }
        fs::write(testkit::workspace_root().join(SIZES_CHART), draw_sizes(&sizes))?;
        println!("\nAll {} logs are the same byte for byte after decompression.", SAMPLE_LOGS.len());
        println!("Chart of their sizes: {SIZES_CHART}. Advice: {ADVICE_PAGE}.");
        Ok(())
    }

    fn show(&self, step: &DemoStep<'_>) -> Result<()> {
        let command = format!("$ bintide {}", step.arguments.join(" "));
        println!("\n# {}\n{}\n", step.title, truncate(&command));
        self.run(step)
    }

    fn run(&self, step: &DemoStep<'_>) -> Result<()> {
        let program = self.programs.join("bintide");
        let mut command = Command::new(program);
        command
            .args(step.arguments)
            .current_dir(testkit::workspace_root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = child.stdout.take().context("the command has no output")?;
        let mut more = 0;
        for (number, line) in BufReader::new(output).split(b'\n').enumerate() {
            let line = line?;
            match number.checked_sub(step.lines_skipped) {
                Some(shown) if shown < step.lines_shown => {
                    println!("{}", truncate(&String::from_utf8_lossy(&line)))
                }
                _ => more += 1,
            }
        }
        if more > 0 {
            println!("… {more} more lines");
        }
        let status = child.wait()?;
        ensure!(
            status.code() == Some(step.exit_code),
            "it ended with {status}; expected exit code {}",
            step.exit_code
        );
        Ok(())
    }
}

/// Draws two bars for each log: before and after compression.
fn draw_sizes(sizes: &[(&str, usize, usize)]) -> String {
    let largest = sizes.iter().map(|(_, before, after)| *before.max(after)).max().unwrap_or(1).max(1);
    let bars = sizes.iter().enumerate().map(|(index, (name, before, after))| {
        let top = 40 + index * BAND_HEIGHT;
        let bar = |top: usize, bytes: usize, class: &str| {
            let (width, text) = (bytes * BAR_WIDTH_MAX / largest, 160 + bytes * BAR_WIDTH_MAX / largest);
            format!(
                "<rect class=\"{class}\" x=\"150\" y=\"{top}\" width=\"{width}\" height=\"16\"/>\
                 <text x=\"{text}\" y=\"{}\">{:.1} kB</text>\n",
                top + 13,
                bytes as f64 / 1000.0
            )
        };
        let label = format!("<text x=\"140\" y=\"{}\" text-anchor=\"end\">{name}</text>\n", top + 22);
        label + &bar(top, *before, "before") + &bar(top + 18, *after, "after")
    });
    let (width, height) = (BAR_WIDTH_MAX + 240, 50 + sizes.len() * BAND_HEIGHT);
    format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Sizes of the sample logs</title>\n<svg viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<style>rect.before {{ fill: #9aa5b1 }} rect.after {{ fill: #2f7ed8 }} text {{ fill: #222 }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #ddd }} svg {{ background: #1b1b1b }} }}</style>\n\
         <text x=\"150\" y=\"24\">Sample logs, as servers wrote them and compressed at level 3</text>\n{}</svg>\n",
        bars.collect::<String>()
    )
}

/// Writes a copy of a sample with one bit flipped.
fn write_damaged_copy() -> Result<()> {
    let root = testkit::workspace_root();
    let mut bytes = fs::read(root.join("samples/triggers.binlog"))?;
    *bytes.get_mut(DAMAGED_AT).context("the sample is too short")? ^= 1;
    let path = root.join(DAMAGED);
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    Ok(fs::write(path, bytes)?)
}

/// Cuts a line that is too wide for a screen.
fn truncate(line: &str) -> String {
    match line.char_indices().nth(LINE_WIDTH_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
