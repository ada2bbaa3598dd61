//! Tests on files.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

mod encrypted;
mod large;
mod log_builder;
mod reader;
mod resume;
mod samples;
mod store;
mod store_writer;
mod walk;
