//! Data directories, initialised once for each version and each set of options, and copied for each server.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache;
use crate::launch::{ServerFlavour, base_options, last_errors, run_as_root};
use crate::package_home::{PackageHome, run_with_input};

/// Version of the templates. Raise it when their content changes.
const TEMPLATE_REVISION: u32 = 2;

/// Creates accounts for replicas and tests over TCP.
const INIT_MYSQL: &str =
    "create user root@'%' identified by '';\ngrant all on *.* to root@'%' with grant option;\n";
const INIT_MARIADB: &str = "\ninsert into global_priv values ('%', 'root', json_object('access', ~0));\n";
/// The same for servers whose accounts are rows of a table. `root` has all privileges there.
const INIT_OLD_MYSQL: &str = "
delete from user where user = '' or user = 'root' and host <> 'localhost';
create temporary table everywhere as select * from user where user = 'root';
update everywhere set host = '%';
insert into user select * from everywhere;
";

/// Returns a data directory for the servers of a home, initialised with these options.
///
/// # Errors
/// Fails if the server's program cannot initialise one.
pub(crate) fn template_dir(home: &PackageHome, init_options: &[String]) -> Result<PathBuf> {
    let package = home.package();
    let flavour = package.flavour().with_context(|| format!("{} is not a server", package.name()))?;
    let mut hasher = DefaultHasher::new();
    (flavour, init_options, home.version()?, TEMPLATE_REVISION).hash(&mut hasher);
    let name = format!("template-{}-{:016x}", package.name(), hasher.finish());
    cache::cached_dir(&name, |directory| match flavour {
        ServerFlavour::Mysql if package.version() < (5, 7) => bootstrap_mysql(home, init_options, directory),
        ServerFlavour::Mysql => initialise_mysql(home, init_options, directory),
        ServerFlavour::MariaDb => bootstrap_mariadb(home, init_options, directory),
    })
}

fn initialise_mysql(home: &PackageHome, init_options: &[String], directory: &Path) -> Result<()> {
    // mysqld creates the data directory itself, or expects it to be empty.
    let datadir = directory.join("data");
    let script = directory.join("init.sql");
    fs::write(&script, INIT_MYSQL)?;
    let mut command = home.server_command("mysqld")?;
    command.args(["--no-defaults", "--initialize-insecure", "--innodb-use-native-aio=OFF"]);
    command.arg(redo_log_option(home)).args(run_as_root()).args(base_options(home));
    command.arg(format!("--datadir={}", datadir.display())).arg(format!("--init-file={}", script.display()));
    let output = run_with_input(command.args(init_options), b"")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "mysqld --initialize-insecure failed: {}", last_errors(&text));
    fs::remove_file(&script)?;
    for entry in fs::read_dir(&datadir)? {
        let entry = entry?;
        fs::rename(entry.path(), directory.join(entry.file_name()))?;
    }
    fs::remove_dir(&datadir)?;
    remove_spare_files(directory)
}

/// Removes files that are not needed after a stop: the server's UUID, its buffers for torn pages, and unused redo logs.
fn remove_spare_files(directory: &Path) -> Result<()> {
    let is_spare = |name: &str| name == "auto.cnf" || name.ends_with(".dblwr") || name.ends_with("_tmp");
    for directory in [directory.to_owned(), directory.join("#innodb_redo")] {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(is_spare) {
                cache::remove_file(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// Returns the option for the smallest redo log: a template is copied for each server.
fn redo_log_option(home: &PackageHome) -> &'static str {
    let has_capacity = home.package().options().contains("--innodb-redo-log-capacity");
    if has_capacity { "--innodb-redo-log-capacity=16M" } else { "--innodb-log-file-size=4M" }
}

fn bootstrap_mysql(home: &PackageHome, init_options: &[String], directory: &Path) -> Result<()> {
    let mut sql = b"create database mysql;\nuse mysql;\n".to_vec();
    for name in ["mysql_system_tables.sql", "mysql_system_tables_data.sql"] {
        append_script(home, &[name], &mut sql)?;
    }
    sql.extend(INIT_OLD_MYSQL.as_bytes());
    let mut command = home.server_command("mysqld")?;
    command.args(["--no-defaults", "--bootstrap", "--innodb-use-native-aio=OFF"]);
    // MySQL 5.5 does not start on a redo log whose size differs from its setting.
    command.args(["--innodb-log-file-size=16M", "--innodb-fast-shutdown=0", "--log-warnings=0"]);
    bootstrap(command.args(init_options), home, directory, &sql)
}

fn bootstrap_mariadb(home: &PackageHome, init_options: &[String], directory: &Path) -> Result<()> {
    fs::create_dir(directory.join("mysql"))?;
    let mut sql = b"use mysql;\nset @auth_root_socket=null;\nset @skip_auth_anonymous=1;\n".to_vec();
    append_script(home, &["mysql_system_tables.sql", "mariadb_system_tables.sql"], &mut sql)?;
    append_script(home, &["mysql_system_tables_data.sql", "mariadb_system_tables_data.sql"], &mut sql)?;
    append_script(home, &["maria_add_gis_sp_bootstrap.sql"], &mut sql)?;
    sql.extend(INIT_MARIADB.as_bytes());
    let mut command = home.server_command("mariadbd")?;
    command.args(["--no-defaults", "--bootstrap", "--enforce-storage-engine=", "--innodb-log-file-size=16M"]);
    bootstrap(command.args(init_options), home, directory, &sql)
}

/// Appends the first of these scripts that exists, without the account for this host's name.
fn append_script(home: &PackageHome, names: &[&str], sql: &mut Vec<u8>) -> Result<()> {
    let mut paths = names.iter().map(|name| home.share().join(name));
    let path = paths.find(|path| path.is_file()).with_context(|| format!("no {names:?}"))?;
    let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.contains("@current_hostname"));
    lines.for_each(|line| sql.extend([line.as_bytes(), b"\n"].concat()));
    Ok(())
}

fn bootstrap(command: &mut Command, home: &PackageHome, directory: &Path, sql: &[u8]) -> Result<()> {
    let datadir = format!("--datadir={}", directory.display());
    command.args(run_as_root()).args(base_options(home)).arg(datadir);
    let output = run_with_input(command, sql)?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the server's --bootstrap failed: {}", last_errors(&text));
    Ok(())
}
