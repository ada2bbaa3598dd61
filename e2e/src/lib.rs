//! Tests of bintide against real servers and the real `mysqlbinlog`. The references run in each test; no output of
//! them is stored here.
//!
//! | module | contents |
//! |---|---|
//! | [`program`] | a program under comparison: the real `mysqlbinlog`, or `bintide` under that name |
//! | [`as_sql`] | logs applied as SQL statements, and servers of different kinds compared |
//! | [`bomb`] | logs of a few kilobytes that decompress to any size |
//! | [`bounded`] | runs of a command with limits on time and memory |
//! | [`chaos`] | replays that are stopped at random points and resume |
//! | [`compare`] | one run of both programs, and the first difference |
//! | [`fake`] | a server that answers from a script, and sends any events |
//! | [`kafka`] | topics of a broker, compared with the records of a pipe |
//! | [`kafka_soak`] | a stream to Kafka while faults are injected at random |
//! | [`large`] | a log of many megabytes |
//! | [`login_server`] | a server that real clients log in to |
//! | [`logs`] | the input logs: the samples, and logs that a server just wrote |
//! | [`matrix`] | a server of each version, with logs of the same statements |
//! | [`metrics`] | metrics of a running command |
//! | [`options`] | every option that `mysqlbinlog --help` lists, and arguments drawn from them |
//! | [`conversation`] | recorded conversations between a replica and a real server |
//! | [`identity`] | many runs with random arguments |
//! | [`json_schema`] | JSON documents, compared with their schemas |
//! | [`received`] | received logs compared with the server's own |
//! | [`registry`] | topics whose records have their schemas in a registry, decoded by other programs |
//! | [`relay_soak`] | relays that serve every form while faults are injected at random |
//! | [`relayed`] | relays, and replicas that follow them |
//! | [`replays`] | logs applied to another server, and comparisons of the servers |
//! | [`rows`] | rows as a server logs them, decoded by the library |
//! | [`sparse_log`] | a log of more than 4 GiB that takes a few kilobytes of the disk |
//! | [`soak`] | a target that follows a source while faults are injected at random |
//! | [`test_listener`] | a port of a test, with a thread for each connection |
//! | [`warming`] | replicas that lag, and `bintide warm` beside them |
//! | [`words`] | the reviewed snapshot of all text that a user can see |
//! | [`workload`] | random SQL, run on a real server |
#![forbid(unsafe_code)]

pub mod alterations;
pub mod archived;
pub mod as_sql;
pub mod bomb;
pub mod bounded;
pub mod chaos;
pub mod command;
pub mod compare;
pub mod conversation;
pub mod fake;
pub mod identity;
pub mod json_schema;
pub mod kafka;
pub mod kafka_soak;
pub mod large;
pub mod login_server;
pub mod logs;
pub mod matrix;
pub mod metrics;
pub mod options;
pub mod program;
pub mod readers;
pub mod received;
pub mod registry;
pub mod relay_soak;
pub mod relayed;
pub mod replays;
pub mod rows;
pub mod soak;
pub mod sparse_log;
pub mod test_listener;
pub mod warming;
pub mod words;
pub mod workload;
