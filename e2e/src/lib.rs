//! bintide beside the real thing. The real server and the real `mysqlbinlog` are asked each time; nothing that
//! they once said is kept here.
//!
//! | module | what it holds |
//! |---|---|
//! | [`program`] | a program under comparison: the real `mysqlbinlog`, or `bintide` under that name |
//! | [`as_sql`] | logs applied as SQL statements, and servers of different kinds compared |
//! | [`bomb`] | logs of a few kilobytes that open to any size |
//! | [`bounded`] | a command that must end within a time, in memory of a bounded size |
//! | [`chaos`] | replays that are stopped again and again, and go on |
//! | [`compare`] | one run of both, and the first difference |
//! | [`fake`] | a server that answers as a script says, and sends any events |
//! | [`large`] | a log of many megabytes |
//! | [`login_server`] | a server that real clients log in to |
//! | [`logs`] | the logs to run on: the samples, and what a server just wrote |
//! | [`matrix`] | a server of each version, with logs of the same work |
//! | [`metrics`] | what a monitor is told |
//! | [`options`] | every option that `mysqlbinlog --help` lists, and arguments drawn from them |
//! | [`conversation`] | what a replica and a real server say to each other, recorded |
//! | [`identity`] | many runs with arguments drawn at random |
//! | [`received`] | a server's logs as they were received, beside its own |
//! | [`relay_soak`] | relays that serve every form while everything is stopped at random |
//! | [`relayed`] | relays, and replicas that follow them |
//! | [`replays`] | logs applied to another server, and what must be equal then |
//! | [`rows`] | rows as a server logs them, decoded by the library |
//! | [`soak`] | a target that follows a source while everything is stopped at random |
//! | [`test_listener`] | a port of a test, with a thread for each connection |
//! | [`warming`] | replicas that lag, and `bintide warm` beside them |
//! | [`words`] | the reviewed snapshot of all text that a user can see |
//! | [`workload`] | SQL drawn at random, run on a real server |
#![forbid(unsafe_code)]

pub mod as_sql;
pub mod bomb;
pub mod bounded;
pub mod chaos;
pub mod command;
pub mod compare;
pub mod conversation;
pub mod fake;
pub mod identity;
pub mod large;
pub mod login_server;
pub mod logs;
pub mod matrix;
pub mod metrics;
pub mod options;
pub mod program;
pub mod received;
pub mod relay_soak;
pub mod relayed;
pub mod replays;
pub mod rows;
pub mod soak;
pub mod test_listener;
pub mod warming;
pub mod words;
pub mod workload;
