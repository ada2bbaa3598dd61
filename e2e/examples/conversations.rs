//! Records conversations of replicas with real servers, and of real clients with our server:
//! `cargo run -p bintide-e2e --example conversations`.

use std::fs;
use std::path::Path;

use anyhow::Result;
use e2e::conversation::{KEPT, record};
use e2e::login_server::KEPT_CLIENTS;

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/wire/tests/conversations");
    fs::create_dir_all(&folder)?;
    for (name, launch) in KEPT {
        fs::write(folder.join(name), record(&launch())?)?;
    }
    let folder = folder.join("clients");
    fs::create_dir_all(&folder)?;
    for client in KEPT_CLIENTS {
        fs::write(folder.join(client.file), client.record()?.transcript)?;
    }
    Ok(())
}
