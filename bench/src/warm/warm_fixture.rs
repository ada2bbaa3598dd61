//! Creates the data, the relay logs that change it, and the slow disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testkit::{Launch, SeededRandom, TestServer, wait_until};

use crate::workloads::{REPLICA_UUID, SOURCE_UUID, SYNCED_FILES};

/// Revision of the created files. Increase it when they change.
const REVISION: u32 = 3;

/// Number of rows of the table, each with about 210 bytes, and 85 in its secondary index.
pub(super) const ROWS: usize = 1_200_000;
/// Number of rows that each log changes, one in each transaction.
pub(super) const CHANGES: u32 = 40_000;
/// Buffer pool size of a replica whose data does not fit in memory, in MiB.
pub(super) const POOL_MIB: u32 = 32;
/// Number of pages that the page cleaner of this replica keeps free. The default is 1024 for any pool size, which would
/// be half of this pool.
pub(super) const PAGES_FREE: u32 = 128;
/// Number of reads that the disk serves at once.
pub(super) const DISK_QUEUE_DEPTH: u32 = 32;

/// Kind of the changes in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WarmChangeKind {
    /// Changes of a column outside the secondary index; rows are found by primary key.
    Primary,
    /// Changes of the first column of the secondary index, which need two more pages.
    Secondary,
}

impl WarmChangeKind {
    pub(super) const ALL: [Self; 2] = [Self::Primary, Self::Secondary];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Primary => "by primary key",
            Self::Secondary => "of a secondary index",
        }
    }

    fn directory(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
        }
    }

    fn change_sql(self, random: &mut SeededRandom) -> String {
        let (id, new) = (1 + random.below(ROWS), random.below(1 << 30));
        match self {
            Self::Primary => format!("update d.t set n = {new} where id = {id};\n"),
            Self::Secondary => format!("update d.t set k = {new} where id = {id};\n"),
        }
    }
}

/// Data directories and slow disk of all runs, created once and kept.
pub(super) struct WarmFixture {
    directory: PathBuf,
    disk: PathBuf,
}

impl WarmFixture {
    pub(super) fn prepare() -> Result<Self> {
        let directory = testkit::target_dir().join(format!("bench/warm-{REVISION}"));
        fs::create_dir_all(&directory)?;
        let fixture = Self { disk: build_slow_disk(&directory)?, directory };
        if !fixture.base_directory().exists() {
            eprintln!("creating the table");
            fixture.make_base()?;
        }
        for kind in WarmChangeKind::ALL {
            if !fixture.lagging_directory(kind).exists() {
                eprintln!("creating the relay log: changes {}", kind.name());
                fixture.make_lagging(kind)?;
            }
        }
        Ok(fixture)
    }

    /// Returns the data directory of a server with the table and an empty binary log.
    pub(super) fn base_directory(&self) -> PathBuf {
        self.directory.join("base")
    }

    /// Returns the data directory of a replica that has received a log and applied nothing of it.
    pub(super) fn lagging_directory(&self, kind: WarmChangeKind) -> PathBuf {
        self.directory.join(kind.directory())
    }

    /// Adds this latency to the server's disk.
    pub(super) fn add_slow_disk(&self, launch: Launch, latency_us: u32) -> Launch {
        launch
            .variable("LD_PRELOAD", self.disk.display().to_string())
            .variable("SLOW_DISK_US", latency_us.to_string())
            .variable("SLOW_DISK_DEPTH", DISK_QUEUE_DEPTH.to_string())
    }

    /// Returns the launch of a source with the table.
    pub(super) fn launch_source(&self) -> Launch {
        Launch::mysql()
            .options([SYNCED_FILES, "--innodb-buffer-pool-size=1G"])
            .uuid(SOURCE_UUID)
            .data(self.base_directory())
    }

    fn make_base(&self) -> Result<()> {
        let options = ["--skip-log-bin", "--innodb-buffer-pool-size=1G", "--innodb-redo-log-capacity=1G"];
        let mut server = Launch::mysql().options(options).start()?;
        server.sql(&format!(
            "create database d; set cte_max_recursion_depth = {ROWS};
             create table d.t (id int primary key, n int, k int, c char(60), s char(120), key by_k (k, c)) charset latin1;
             insert into d.t with recursive r (n) as (select 1 union all select n + 1 from r where n < {ROWS})
               select n, 0, rand(7) * (1 << 30), sha2(n, 224), repeat(sha2(n, 224), 2) from r"
        ))?;
        stop_and_keep(&mut server, &self.base_directory())
    }

    fn make_lagging(&self, kind: WarmChangeKind) -> Result<()> {
        let source = self.launch_source().start()?;
        let mut replica = launch_replica(&self.base_directory(), 1024).start()?;
        replica.set_source(&source)?;
        replica.sql("start replica io_thread")?;
        let mut random = SeededRandom::new(7);
        let changes: String = (0..CHANGES).map(|_| kind.change_sql(&mut random)).collect();
        source.sql(&changes)?;
        wait_until_received(&source, &replica)?;
        replica.sql("stop replica")?;
        stop_and_keep(&mut replica, &self.lagging_directory(kind))
    }
}

/// Returns the launch of a replica on a copy of this data directory. Its applier does not start by itself, and its
/// buffer pool is empty.
pub(super) fn launch_replica(data: &Path, pool_mib: u32) -> Launch {
    let options = [
        "--server-id=2",
        "--skip-log-bin",
        "--skip-replica-start",
        "--relay-log=relay",
        "--replica-preserve-commit-order=ON",
        SYNCED_FILES,
        "--innodb-change-buffering=none",
        "--innodb-buffer-pool-load-at-startup=OFF",
        "--innodb-buffer-pool-dump-at-shutdown=OFF",
        "--innodb-redo-log-capacity=1G",
    ];
    let pool =
        [format!("--innodb-buffer-pool-size={pool_mib}M"), format!("--innodb-lru-scan-depth={PAGES_FREE}")];
    Launch::mysql().options(options).options(pool).uuid(REPLICA_UUID).data(data)
}

fn wait_until_received(source: &TestServer, replica: &TestServer) -> Result<()> {
    let all = source.sql("select @@global.gtid_executed")?.replace(char::is_whitespace, "");
    let received = format!(
        "select gtid_subset('{all}', received_transaction_set) from performance_schema.replication_connection_status"
    );
    wait_until("the log", || Ok(replica.sql(&received)?.trim() == "1"))
}

/// Stops a server, and keeps its data.
fn stop_and_keep(server: &mut TestServer, directory: &Path) -> Result<()> {
    server.sql("set global innodb_fast_shutdown = 0")?;
    server.stop()?;
    fs::remove_file(server.datadir().join("auto.cnf")).context("the data has no auto.cnf")?;
    fs::rename(server.datadir(), directory).context("could not keep the data directory")
}

fn build_slow_disk(directory: &Path) -> Result<PathBuf> {
    let (from, to) =
        (testkit::workspace_root().join("bench/warm/slow_disk.c"), directory.join("slow_disk.so"));
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).args([&to, &from]).status();
    ensure!(
        compiled.context("could not run cc, a C compiler")?.success(),
        "{} does not compile",
        from.display()
    );
    Ok(to)
}
