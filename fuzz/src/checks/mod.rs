//! The targets: one line each.

mod answers;
mod conversation;
mod encryption;
mod events;
mod framer;
mod gtid_sets;
mod handshake;
mod json;
mod lists;
mod packets;
mod payload;
mod rows;
mod server;
mod sql;
mod statement;
mod text;

use crate::seeds::Sample;

/// One thing to throw bytes at.
pub struct Target {
    /// As `cargo xtask fuzz` calls it; also the folder of its findings.
    pub name: &'static str,
    /// Panics if what must hold does not.
    pub check: fn(&[u8]),
    /// Inputs to start from, cut out of a real log.
    pub seeds: fn(&Sample) -> Vec<Vec<u8>>,
    /// Damaged seeds in the slice that ordinary tests run: as many as take a few seconds.
    pub rounds: u64,
}

/// For checks of one part.
const MANY: u64 = 20_000;

/// For checks that take whole logs.
const FEW: u64 = 1_500;

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "framer", check: framer::check, seeds: framer::seeds, rounds: MANY },
    Target { name: "events", check: events::check, seeds: events::seeds, rounds: MANY },
    Target { name: "rows", check: rows::check, seeds: rows::seeds, rounds: MANY },
    Target { name: "json", check: json::check, seeds: json::seeds, rounds: MANY },
    Target { name: "payload", check: payload::check, seeds: payload::seeds, rounds: MANY },
    Target { name: "gtid_sets", check: gtid_sets::check, seeds: gtid_sets::seeds, rounds: MANY },
    Target { name: "encryption", check: encryption::check, seeds: encryption::seeds, rounds: MANY },
    Target { name: "packets", check: packets::check, seeds: packets::seeds, rounds: FEW },
    Target { name: "handshake", check: handshake::check, seeds: handshake::seeds, rounds: MANY },
    Target { name: "server", check: server::check, seeds: server::seeds, rounds: MANY },
    Target { name: "conversation", check: conversation::check, seeds: conversation::seeds, rounds: MANY },
    Target { name: "answers", check: answers::check, seeds: answers::seeds, rounds: MANY },
    Target { name: "lists", check: lists::check, seeds: lists::seeds, rounds: FEW },
    Target { name: "sql", check: sql::check, seeds: sql::seeds, rounds: MANY },
    Target { name: "statement", check: statement::check, seeds: statement::seeds, rounds: MANY },
    Target { name: "text", check: text::check, seeds: text::seeds, rounds: FEW },
];

impl Target {
    /// The target of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
