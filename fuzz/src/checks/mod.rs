//! List of the fuzz targets.

mod answers;
mod archive;
mod columns;
mod conversation;
mod encrypted_object;
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
mod undo;

use crate::seeds::Sample;

/// A target: a check, and its seeds.
pub struct Target {
    /// Name in `cargo xtask fuzz`, and name of the directory of the findings.
    pub name: &'static str,
    /// Check that panics if its property does not hold.
    pub check: fn(&[u8]),
    /// Returns seeds, cut out of a real log.
    pub seeds: fn(&Sample) -> Vec<Vec<u8>>,
    /// Number of mutated seeds in ordinary tests: a few seconds for each target.
    pub rounds: u64,
}

/// Rounds of fast checks, such as those of one event.
const FAST_CHECK_ROUNDS: u64 = 20_000;

/// Rounds of slow checks, such as those of whole logs.
const SLOW_CHECK_ROUNDS: u64 = 1_500;

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "framer", check: framer::check, seeds: framer::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "events", check: events::check, seeds: events::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "rows", check: rows::check, seeds: rows::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "json", check: json::check, seeds: json::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "payload", check: payload::check, seeds: payload::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "gtid_sets", check: gtid_sets::check, seeds: gtid_sets::seeds, rounds: FAST_CHECK_ROUNDS },
    Target {
        name: "encryption",
        check: encryption::check,
        seeds: encryption::seeds,
        rounds: FAST_CHECK_ROUNDS,
    },
    Target { name: "packets", check: packets::check, seeds: packets::seeds, rounds: SLOW_CHECK_ROUNDS },
    Target { name: "handshake", check: handshake::check, seeds: handshake::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "server", check: server::check, seeds: server::seeds, rounds: FAST_CHECK_ROUNDS },
    Target {
        name: "conversation",
        check: conversation::check,
        seeds: conversation::seeds,
        rounds: FAST_CHECK_ROUNDS,
    },
    Target { name: "answers", check: answers::check, seeds: answers::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "archive", check: archive::check, seeds: archive::seeds, rounds: SLOW_CHECK_ROUNDS },
    Target {
        name: "encrypted_object",
        check: encrypted_object::check,
        seeds: encrypted_object::seeds,
        rounds: SLOW_CHECK_ROUNDS,
    },
    Target { name: "lists", check: lists::check, seeds: lists::seeds, rounds: SLOW_CHECK_ROUNDS },
    Target { name: "sql", check: sql::check, seeds: sql::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "statement", check: statement::check, seeds: statement::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "undo", check: undo::check, seeds: rows::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "columns", check: columns::check, seeds: rows::seeds, rounds: FAST_CHECK_ROUNDS },
    Target { name: "text", check: text::check, seeds: text::seeds, rounds: SLOW_CHECK_ROUNDS },
];

impl Target {
    /// Returns the target of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
