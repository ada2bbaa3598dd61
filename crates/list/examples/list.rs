//! Lists logs: `cargo run --example list -- events FILE…`.

use std::io::{self, Write};

use list::{ListFormat, ListSettings, ListSource, list};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let form = match args.next().as_deref() {
        Some("events") => ListFormat::Events,
        Some("json") => ListFormat::Json,
        Some("transactions") => ListFormat::Transactions,
        Some("transactions-json") => ListFormat::TransactionsJson,
        _ => return Err("expected events, json, transactions or transactions-json".into()),
    };
    let sources = args.map(|path| ListSource::File(path.into())).collect();
    for warning in list(&ListSettings::new(form, sources), &mut io::stdout().lock())? {
        writeln!(io::stderr(), "{warning}")?;
    }
    Ok(())
}
