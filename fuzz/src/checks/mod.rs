//! The targets: one line each.

mod encryption;
mod events;
mod framer;
mod gtid_sets;
mod json;
mod payload;
mod rows;

use crate::seeds::Sample;

/// One thing to throw bytes at.
pub struct Target {
    /// As `cargo xtask fuzz` calls it; also the folder of its findings.
    pub name: &'static str,
    /// Panics if what must hold does not.
    pub check: fn(&[u8]),
    /// Inputs to start from, cut out of a real log.
    pub seeds: fn(&Sample) -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "framer", check: framer::check, seeds: framer::seeds },
    Target { name: "events", check: events::check, seeds: events::seeds },
    Target { name: "rows", check: rows::check, seeds: rows::seeds },
    Target { name: "json", check: json::check, seeds: json::seeds },
    Target { name: "payload", check: payload::check, seeds: payload::seeds },
    Target { name: "gtid_sets", check: gtid_sets::check, seeds: gtid_sets::seeds },
    Target { name: "encryption", check: encryption::check, seeds: encryption::seeds },
];

impl Target {
    /// The target of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
