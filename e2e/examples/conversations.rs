//! Records conversations of replicas with real servers, and of real clients with our server:
//! `cargo run -p bintide-e2e --example conversations`.

use std::fs;
use std::path::Path;

use anyhow::Result;
use e2e::conversation::{CONVERSATIONS, record};
use e2e::login_server::RECORDED_CLIENTS;

fn main() -> Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/wire/tests/conversations");
    fs::create_dir_all(&directory)?;
    for (name, launch) in CONVERSATIONS {
        fs::write(directory.join(name), record(&launch())?)?;
    }
    let directory = directory.join("clients");
    fs::create_dir_all(&directory)?;
    for client in RECORDED_CLIENTS {
        fs::write(directory.join(client.file), client.record()?.transcript)?;
    }
    Ok(())
}
