//! The command line interface: help, settings, exit codes.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `bintide` with only these environment variables.
fn bintide(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
    command.args(args).env_clear().envs(environment.iter().copied());
    command.output().expect("could not run bintide")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("not UTF-8")
}

fn fails(args: &[&str], environment: &[(&str, &str)], code: i32, message: &str) {
    let output = bintide(args, environment);
    assert_eq!(text(&output.stderr), message);
    assert_eq!(output.status.code(), Some(code));
}

/// Returns the commands in the help.
fn commands() -> Vec<String> {
    let help = text(&bintide(&["--help"], &[]).stdout);
    let list = help.split("Commands:\n").nth(1).expect("no list of commands");
    let words = list.lines().map_while(|line| line.strip_prefix("  ")?.split(' ').next());
    // The second line of a description does not start with a command.
    let commands: Vec<String> = words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    commands
}

#[test]
fn help_has_examples_and_exit_codes() {
    let output = bintide(&["--help"], &[]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for expected in ["Examples:", "Settings:", "Exit codes:"] {
        assert!(help.contains(expected), "{expected} in {help}");
    }
}

#[test]
fn every_command_has_examples() {
    for command in commands() {
        let output = bintide(&[&command, "--help"], &[]);
        assert!(text(&output.stdout).contains("Examples:\n"), "{command}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for args in [&["nonsense"][..], &["--nonsense"], &["completions", "tcsh"], &[]] {
        assert_eq!(bintide(args, &[]).status.code(), Some(2), "{args:?}");
    }
    let message = format!("bintide: unknown command `x`: expected one of {}\n", commands().join(", "));
    fails(&["man", "x"], &[], 2, &message);
    fails(
        &["replay", &sample("json.binlog"), "--to", "mysql:x"],
        &[],
        2,
        "bintide: --to: expected a server, as mysql://USER@HOST:PORT/, or a SQLite database, as sqlite:FILE\n",
    );
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = bintide(&["completions", shell], &[]);
        assert!(text(&output.stdout).contains("completions"), "{shell}");
    }
    assert!(text(&bintide(&["man"], &[]).stdout).contains(".TH bintide 1"));
    assert!(text(&bintide(&["man", "man"], &[]).stdout).contains(".TH bintide-man 1"));
    let directory = tempfile::tempdir().expect("could not create a directory");
    let path = directory.path().join("man1");
    let output = bintide(&["man", "--out", path.to_str().expect("a path that is not UTF-8")], &[]);
    assert_eq!(output.status.code(), Some(0));
    for command in commands() {
        let page =
            fs::read_to_string(path.join(format!("bintide-{command}.1"))).expect("could not read the page");
        assert!(page.contains("Examples"), "{command}");
    }
    assert!(path.join("bintide.1").exists());
}

#[test]
fn pages_and_completions_have_the_options_of_dump() {
    let page = bintide(&["man", "dump"], &[]);
    let page = text(&page.stdout).replace('\\', "");
    let help = bintide(&["dump", "--help"], &[]);
    let long =
        |line: &str| line.split([' ', '=', '[']).find(|word| word.starts_with("--")).map(str::to_owned);
    let help = text(&help.stdout);
    let lines = help.lines().take_while(|line| !line.starts_with("Default options"));
    let is_refused = |name: &str| ["--debug", "--debug-check", "--debug-info"].contains(&name);
    let options: Vec<String> = lines.filter(|line| line.starts_with("  -")).filter_map(long).collect();
    assert!(options.len() > 70, "{options:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = bintide(&["completions", shell], &[]);
        for name in options.iter().filter(|name| !is_refused(name)) {
            let word = if shell == "fish" { format!("-l {}", &name[2..]) } else { name.clone() };
            assert!(text(&script.stdout).contains(&word), "{shell}: {name}");
            assert!(page.contains(name.as_str()), "{name}");
        }
    }
}

#[test]
fn settings_come_from_environment_and_file() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let (file_out, environment_out) = (directory.path().join("file"), directory.path().join("environment"));
    let settings = directory.path().join("bintide.toml");
    fs::write(&settings, format!("[man]\nout = {:?}\n", file_out)).expect("could not write the settings");
    let settings = settings.to_str().expect("a path that is not UTF-8");

    bintide(&["--config", settings, "man"], &[]);
    assert!(file_out.join("bintide.1").exists(), "the file was ignored");

    let wins = [
        ("BINTIDE_CONFIG", settings),
        ("BINTIDE_MAN_OUT", environment_out.to_str().expect("a path that is not UTF-8")),
    ];
    bintide(&["man"], &wins);
    assert!(environment_out.join("bintide.1").exists(), "the environment must take precedence over the file");

    let argument_out = directory.path().join("argument");
    bintide(&["man", "--out", argument_out.to_str().expect("a path that is not UTF-8")], &wins);
    assert!(argument_out.join("bintide.1").exists(), "the command line must take precedence over both");
}

#[test]
fn settings_give_options_that_a_command_requires() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let target = directory.path().join("target.db");
    let settings = directory.path().join("service.toml");
    let content = format!(
        "[replay]\nto = \"sqlite:{}\"\n[stream]\nfrom = [\"mysql://u@127.0.0.1:1/\"]\nformat = \"maxwell\"\n",
        target.display()
    );
    fs::write(&settings, content).expect("could not write the settings");
    let settings = settings.to_str().expect("a path that is not UTF-8");
    let log = sample("anonymous.binlog");
    let output = bintide(&["replay", "--config", settings, &log], &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(target.exists());
    let out = directory.path().join("changes").display().to_string();
    let output =
        bintide(&["stream", "--config", settings, "--out", &out, "--password-command", "echo x"], &[]);
    assert!(
        text(&output.stderr).contains("the connection to the server at 127.0.0.1:1 failed: "),
        "{output:?}"
    );
}

#[test]
fn settings_are_found_in_the_users_directory() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    fs::create_dir(directory.path().join("bintide")).expect("could not create a directory");
    fs::write(directory.path().join("bintide/bintide.toml"), "nonsense = 1")
        .expect("could not write the settings");
    let home = directory.path().to_str().expect("a path that is not UTF-8");
    let output = bintide(&["man"], &[("XDG_CONFIG_HOME", home)]);
    assert_eq!(output.status.code(), Some(2));
    let ending = "unknown setting `nonsense`: expected the name of a long option, or a table with the name of a command\n";
    assert!(text(&output.stderr).ends_with(ending), "{output:?}");
}

#[test]
fn settings_that_all_users_may_write_are_refused() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    fs::create_dir(directory.path().join("bintide")).expect("could not create a directory");
    let settings = directory.path().join("bintide/bintide.toml");
    fs::write(&settings, "quiet = true").expect("could not write the settings");
    let check = |mode: u32, expected: Option<&str>| {
        fs::set_permissions(&settings, fs::Permissions::from_mode(mode)).expect("could not set the mode");
        let path = settings.to_str().expect("a path that is not UTF-8");
        let home = directory.path().to_str().expect("a path that is not UTF-8");
        for environment in [("XDG_CONFIG_HOME", home), ("BINTIDE_CONFIG", path)] {
            let output = bintide(&["man"], &[environment]);
            let error = text(&output.stderr);
            let line = expected.map(|why| format!("bintide: {path} cannot be used: {why}"));
            assert_eq!(
                output.status.code(),
                Some(if expected.is_some() { 2 } else { 0 }),
                "{mode:o}: {error}"
            );
            assert!(error.starts_with(&line.unwrap_or_default()), "{mode:o}: {error}");
        }
    };
    check(0o644, None);
    check(0o602, Some("all users may write to it; run chmod o-w"));
    check(0o666, Some("all users may write to it; run chmod o-w"));
}

/// Returns the path of a sample.
fn sample(name: &str) -> String {
    format!("{}/../../samples/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn settings_apply_to_dump() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let settings = directory.path().join("bintide.toml");
    let path = settings.to_str().expect("a path that is not UTF-8");
    let log = sample("rotation/binlog.000001");
    let dump = |args: &[&str], environment: &[(&str, &str)]| {
        let output = bintide(&[&["dump", "--no-defaults"], args, &[log.as_str()]].concat(), environment);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{args:?}");
        text(&output.stdout)
    };
    let (plain, shown) = (dump(&[], &[]), dump(&["-vv", "--base64-output=decode-rows"], &[]));
    fs::write(&settings, "[dump]\nverbose = 2\nbase64-output = \"decode-rows\"\n")
        .expect("could not write the settings");
    assert_eq!(dump(&[], &[("BINTIDE_CONFIG", path)]), shown);
    assert_eq!(dump(&["--config", path], &[]), shown);
    let front = bintide(&["-q", "--config", path, "dump", "--no-defaults", &log], &[]);
    assert_eq!(text(&front.stdout), shown);
    let environment =
        [("BINTIDE_CONFIG", path), ("BINTIDE_DUMP_BASE64_OUTPUT", "auto"), ("BINTIDE_DUMP_VERBOSE", "0")];
    assert_eq!(dump(&[], &environment), plain, "the environment must take precedence over the file");
    let environment = [("BINTIDE_DUMP_JSON", "true"), ("BINTIDE_COLOR", "always")];
    assert!(dump(&[], &environment).contains("\u{1b}["));
    assert_eq!(
        dump(&["--skip-json", "--color=never"], &environment),
        plain,
        "the command line must take precedence over both"
    );

    // Settings win over MySQL's option files.
    let defaults = directory.path().join("my.cnf");
    fs::write(&defaults, "[mysqlbinlog]\nverbose\nbase64-output=never\n")
        .expect("could not write the option file");
    let defaults = format!("--defaults-file={}", defaults.display());
    let both = bintide(&["dump", &defaults, &log], &[("BINTIDE_DUMP_BASE64_OUTPUT", "decode-rows")]);
    assert_eq!(text(&both.stdout), dump(&["-v", "--base64-output=decode-rows"], &[]));

    // Under the name mysqlbinlog, bintide behaves as that program.
    let link = directory.path().join("mysqlbinlog");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bintide"), &link).expect("could not create the link");
    let mut command = Command::new(link);
    command.args(["--no-defaults", &log]).env_clear().envs(environment).env("BINTIDE_CONFIG", "/nonexistent");
    assert_eq!(text(&command.output().expect("could not run bintide").stdout), plain);
}

#[test]
fn the_keyring_setting_applies_to_all_commands() {
    let (logs, keyring) = (sample("encrypted"), sample("encrypted/keyring"));
    let directory = tempfile::tempdir().expect("could not create a directory");
    let settings = directory.path().join("bintide.toml");
    fs::write(&settings, format!("keyring = {keyring:?}\n")).expect("could not write the settings");
    let settings = settings.to_str().expect("a path that is not UTF-8");
    let (log, output) = (format!("{logs}/binlog.000001"), directory.path().join("out"));
    let output = output.to_str().expect("a path that is not UTF-8");
    for args in [
        &["stats", "--rows", &logs][..],
        &["verify", &logs],
        &["dump", "--events", &log],
        &["dump", &log],
        &["decompress", "--dry-run", "--output", output, &log],
    ] {
        assert_ne!(bintide(args, &[]).status.code(), Some(0), "{args:?}");
        for setting in [("BINTIDE_KEYRING", keyring.as_str()), ("BINTIDE_CONFIG", settings)] {
            let done = bintide(args, &[setting]);
            assert_eq!(done.status.code(), Some(0), "{args:?} {done:?}");
        }
        let wins = [
            ("BINTIDE_KEYRING", "/nonexistent"),
            (&*format!("BINTIDE_{}_KEYRING", args[0].to_uppercase()), &keyring),
        ];
        assert_eq!(
            bintide(args, &wins).status.code(),
            Some(0),
            "the command's own setting must take precedence: {args:?}"
        );
    }
}

#[test]
fn options_of_all_commands_have_one_variable() {
    let log = sample("rotation/binlog.000006");
    let output = bintide(&["stats", "--rows", &log], &[("BINTIDE_STATS_LOG_LEVEL", "debug")]);
    let expected = "bintide: ignored BINTIDE_STATS_LOG_LEVEL: unknown setting (BINTIDE_LOG_LEVEL sets \
                    --log-level for all commands); see Settings in `bintide --help`\n";
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), (expected, Some(0)));
}

#[test]
fn unknown_variables_are_reported() {
    let log = sample("rotation/binlog.000006");
    for args in [&["stats", "--rows", &log][..], &["dump", "--json", &log]] {
        let environment = [("BINTIDE_STATS_TPO", "1"), ("BINTIDE_QUITE", "1"), ("BINTIDE_DUMP_TABLE", "*")];
        let named = |name, meant| {
            let why = format!("unknown setting (did you mean {meant}?)");
            format!("bintide: ignored {name}: {why}; see Settings in `bintide --help`\n")
        };
        let output = bintide(args, &environment);
        let expected = [("BINTIDE_QUITE", "BINTIDE_QUIET"), ("BINTIDE_STATS_TPO", "BINTIDE_STATS_TOP")];
        assert_eq!(text(&output.stderr), expected.map(|(name, meant)| named(name, meant)).concat());
        assert_eq!(output.status.code(), Some(0));
        for option in ["--quiet", "-q"] {
            let quiet = bintide(&[args, &[option]].concat(), &environment);
            assert_eq!((text(&quiet.stderr).as_str(), quiet.stdout == output.stdout), ("", true), "{option}");
        }
    }
}

#[test]
fn unreadable_logs_give_exit_code_2_in_all_commands() {
    let (absent, encrypted, no_log) =
        ("/nonexistent/binlog.000001".to_owned(), sample("encrypted/binlog.000001"), sample("xa.sql"));
    let directory = tempfile::tempdir().expect("could not create a directory");
    let output = directory.path().to_str().expect("a path that is not UTF-8");
    for args in [
        &["stats"][..],
        &["verify"],
        &["dump", "--json"],
        &["dump", "--events"],
        &["dump", "--transactions"],
        &["decompress", "--output", output],
    ] {
        for (log, code) in [(&absent, 2), (&encrypted, 2), (&no_log, 1)] {
            let output = bintide(&[args, &[log.as_str()]].concat(), &[]);
            assert_eq!(output.status.code(), Some(code), "{args:?} {output:?}");
            if code == 2 {
                assert!(text(&output.stderr).contains(log.as_str()), "{args:?} {output:?}");
                // At most a verdict or a heading.
                assert!(text(&output.stdout).lines().count() <= 1, "{args:?} {output:?}");
            }
        }
    }
}

#[test]
fn wrong_settings_are_reported() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let path = directory.path().join("b.toml");
    let path = path.to_str().expect("a path that is not UTF-8");
    let check = |content: &str, message: &str| {
        fs::write(path, content).expect("could not write the settings");
        fails(&["man"], &[("BINTIDE_CONFIG", path)], 2, &format!("bintide: {path}{message}\n"));
    };
    check(
        "[man]\nuot = 1",
        ": [man]: unknown setting `uot` (did you mean out?): expected the name of a long option, or a table with the name of a command",
    );
    check(
        "verify = 3\n[dump]\ntabel = 1",
        ": [dump]: unknown setting `tabel` (did you mean table?): expected the name of a long option, or a table with the name of a command",
    );
    check(
        "[stat]\ntop = 1",
        ": unknown table [stat] (did you mean [stats]?): expected a table with the name of a command",
    );
    check("stats = 3", ": `stats` is a command: write its settings below [stats]");
    check(
        "[man]\nout = 1979-05-27",
        ": [man]: `out` must be a string, a number, true or false, or a list of these",
    );
    check(
        "\nout = ",
        " line 2: string values must be quoted, expected literal string; see Settings in `bintide --help`",
    );
    let absent = "bintide: could not read settings from /nonexistent: No such file or directory (os error 2); \
                  see Settings in `bintide --help`\n";
    fails(&["man"], &[("BINTIDE_CONFIG", "/nonexistent")], 2, absent);
}

#[test]
fn wrong_settings_do_not_prevent_help() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    fs::create_dir(directory.path().join("bintide")).expect("could not create a directory");
    fs::write(directory.path().join("bintide/bintide.toml"), "nonsense")
        .expect("could not write the settings");
    let home = [("XDG_CONFIG_HOME", directory.path().to_str().expect("a path that is not UTF-8"))];
    let asked = [
        &["--help"][..],
        &["--version"],
        &["stats", "--help"],
        &["receive", "-?"],
        &["dump", "--help"],
        &["dump", "--version"],
        &["completions", "bash"],
    ];
    for args in asked {
        let (output, expected) = (bintide(args, &home), bintide(args, &[]));
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stdout == expected.stdout, "{args:?}");
    }
    assert_eq!(bintide(&["man"], &home).status.code(), Some(2));
    // A link to a missing file is not the same as no file.
    let link = directory.path().join("bintide/bintide.toml");
    fs::remove_file(&link).expect("could not remove the settings");
    std::os::unix::fs::symlink("/nonexistent", &link).expect("could not create a link");
    let missing = format!(
        "bintide: could not read settings from {}: No such file or directory (os error 2); to use no settings, give \
         --config '' or set BINTIDE_CONFIG to an empty text\n",
        link.display()
    );
    fails(&["man"], &home, 2, &missing);
    // An empty name means no file.
    let none = [home[0], ("BINTIDE_CONFIG", "")];
    assert_eq!(bintide(&["man"], &none).status.code(), Some(0));
}

/// Returns a log with one statement of 16 MB in 16 events, none of which ends the statement.
fn large_statement() -> Vec<u8> {
    let event = |event_type: u8, body: &[u8]| {
        let size = (19 + body.len() + 4) as u32;
        [&[0; 4][..], &[event_type, 1, 0, 0, 0], &size.to_le_bytes(), &[0; 6], body, &[0; 4]].concat()
    };
    let types = fs::read(sample("types.binlog")).expect("could not read or write the log");
    let format_size = u32::from_le_bytes(*types[13..].first_chunk().expect("no size")) as usize;
    let mut log = types[..4 + format_size].to_vec();
    log.extend(event(19, &[71, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0, 1, 1, 0, 1]));
    let rows = [&[71, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 1][..], &[0; 1 << 20]].concat();
    (0..16).for_each(|_| log.extend(event(30, &rows)));
    log
}

#[test]
fn a_full_temporary_file_is_an_error() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let path = directory.path().join("large.binlog");
    fs::write(&path, large_statement()).expect("could not read or write the log");
    let path = path.to_str().expect("a path that is not UTF-8");
    let message = "ERROR: Error writing event to a temporary file in '/nonexistent'. (OS errno 2 - No such file or directory)\n";
    let output = bintide(&["dump", path], &[("TMPDIR", "/nonexistent")]);
    assert!(text(&output.stderr).starts_with(message), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    let output =
        bintide(&["dump", path], &[("TMPDIR", directory.path().to_str().expect("a path that is not UTF-8"))]);
    assert!(!text(&output.stderr).contains("ERROR"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_closed_pipe_is_success() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
    command.args(["completions", "bash"]).env_clear().stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("could not run bintide");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("could not wait for the end");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
#[cfg(target_os = "linux")]
fn write_errors_of_the_output_are_reported() {
    let log = sample("json.binlog");
    for args in [&["stats", &log][..], &["verify", &log], &["advise", "--json", &log], &["man"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("could not open /dev/full");
        let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
        let output = command.args(args).env_clear().stdout(full).output().expect("could not run bintide");
        let expected = "bintide: could not write to standard output: No space left on device (os error 28)\n";
        assert_eq!(text(&output.stderr), expected, "{args:?}");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
    }
}

/// An option on the command line may require one that only the settings give.
#[test]
fn settings_give_required_options() {
    let from = [("BINTIDE_REPLAY_FROM", "mysql://u@127.0.0.1:1/"), ("BINTIDE_CONFIG", "")];
    let to = ["replay", "--to", "sqlite:/nonexistent/x.db", "--source-ssl-mode=REQUIRED"];
    let required = bintide(&to, &from);
    assert!(!text(&required.stderr).contains("required arguments"), "{}", text(&required.stderr));
    let missing = bintide(&to, &from[1..]);
    assert!(text(&missing.stderr).contains("--from <SOURCE>"), "{}", text(&missing.stderr));
    let undecided = ["replay", "--to", "sqlite:/nonexistent/x.db", "--offline", "absent"];
    for (value, expected) in [("1", "could not open absent"), ("0", "--dry-run")] {
        let setting = [("BINTIDE_REPLAY_DRY_RUN", value), ("BINTIDE_CONFIG", "")];
        let printed = text(&bintide(&undecided, &setting).stderr);
        assert!(printed.contains(expected), "{printed}");
    }
}

#[test]
fn settings_have_one_password_option_and_their_strictest_tls_mode() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let settings = directory.path().join("bintide.toml");
    let path = settings.to_str().expect("a path that is not UTF-8");
    let check = |file: &str, variables: &[(&str, &str)], args: &[&str], expected: &str| {
        fs::write(&settings, file).expect("could not write the settings");
        let store = directory.path().join("store");
        let args = [
            &["receive", store.to_str().expect("a path that is not UTF-8")],
            &["--from", "mysql://u@127.0.0.1:1/"],
            args,
        ]
        .concat();
        let variables = [variables, &[("BINTIDE_CONFIG", path)]].concat();
        let output = bintide(&args, &variables);
        assert_eq!(output.status.code(), Some(2), "{file} {variables:?}");
        assert!(text(&output.stderr).contains(expected), "{file} {variables:?}: {}", text(&output.stderr));
    };
    let both = format!("`password-command` in {path} exclude each other: give only one of them");
    check("password-file = 'f'\npassword-command = 'c'", &[], &[], &both);
    check("[receive]\npassword-file = 'f'\npassword-command = 'c'", &[], &[], &both);
    let both = [("BINTIDE_PASSWORD_FILE", "f"), ("BINTIDE_PASSWORD", "p")];
    check("", &both, &[], "BINTIDE_PASSWORD_FILE exclude each other: give only one of them");
    // The option of higher precedence wins: only its file is read.
    let absent = "could not read the password file /absent";
    let (file, command) = ("password-file = '/absent'", "password-command = 'exit 3'");
    check(&format!("{command}\n[receive]\n{file}"), &[], &[], absent);
    check(command, &[("BINTIDE_PASSWORD_FILE", "/absent")], &[], absent);
    check(command, &[("BINTIDE_RECEIVE_PASSWORD_FILE", "/absent"), ("BINTIDE_PASSWORD", "p")], &[], absent);
    check(command, &[("BINTIDE_PASSWORD", "p")], &["--password-file=/absent"], absent);
    check(file, &[("BINTIDE_PASSWORD_COMMAND", "exit 3")], &[], "exit status: 3");
    // The strictest TLS mode of all layers applies, and needs a certificate authority.
    let (identity, required) = ("ssl-mode = 'VERIFY_IDENTITY'", [("BINTIDE_SSL_MODE", "REQUIRED")]);
    let no_authority = "a CA certificate is required";
    check(identity, &[], &["--ssl-mode=REQUIRED"], no_authority);
    check(identity, &required, &[], no_authority);
    check(&format!("[receive]\n{identity}"), &required, &["--ssl-mode=VERIFY_CA"], no_authority);
    check(
        identity,
        &required,
        &["--ssl-mode=DISABLED"],
        "the connection to the server at 127.0.0.1:1 failed: ",
    );
    check("", &required, &["--ssl-mode=DISABLED"], "the connection to the server at 127.0.0.1:1 failed: ");
    check("ssl-mode = 'CERTAIN'", &[], &["--ssl-mode=REQUIRED"], "invalid value 'CERTAIN'");
}

#[test]
fn settings_exclude_each_other_as_options_do() {
    let log = sample("rotation/binlog.000006");
    let run = |variables: &[(&str, &str)]| bintide(&["stats", &log], variables);
    let both = run(&[("BINTIDE_STATS_JSON", "1"), ("BINTIDE_STATS_ROWS", "yes")]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    let expected = "BINTIDE_STATS_ROWS exclude each other: give only one of them";
    let reversed = "BINTIDE_STATS_JSON exclude each other: give only one of them";
    let error = text(&both.stderr);
    assert!(error.contains(expected) || error.contains(reversed), "{error}");
    // A switch that is off excludes nothing, and the setting of the command wins over that of all commands.
    for variables in [
        [("BINTIDE_STATS_JSON", "1"), ("BINTIDE_STATS_ROWS", "off")],
        [("BINTIDE_STATS_JSON", "1"), ("BINTIDE_ROWS", "1")],
    ] {
        let json = run(&variables);
        assert!(json.status.success() && text(&json.stdout).starts_with('{'), "{variables:?}: {json:?}");
    }
}

#[test]
fn settings_apply_to_the_commands_of_a_command() {
    let accounts = tempfile::NamedTempFile::new().expect("could not create a file");
    let accounts = accounts.path().to_str().expect("a path that is not UTF-8");
    let list = |variables: &[(&str, &str)]| {
        let ran = bintide(&["relay", "user", "list", "--accounts", accounts], variables);
        text(&ran.stdout).starts_with('{')
    };
    assert!(!list(&[]));
    assert!(list(&[("BINTIDE_JSON", "1")]) && list(&[("BINTIDE_RELAY_JSON", "1")]));
}

#[test]
fn values_of_other_commands_are_not_checked() {
    let log = sample("rotation/binlog.000006");
    // `history` requires DB.TABLE.
    for arguments in [["verify", &log], ["stats", &log]] {
        let ran = bintide(&arguments, &[("BINTIDE_TABLE", "t")]);
        assert!(!text(&ran.stderr).contains("BINTIDE_TABLE"), "{ran:?}");
    }
    let refused = bintide(&["history", "--where", "id=1", &log], &[("BINTIDE_TABLE", "t")]);
    assert!(text(&refused.stderr).contains("BINTIDE_TABLE"), "{refused:?}");
}

#[test]
fn logs_are_no_result_files() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let log = directory.path().join("binlog.000001");
    fs::copy(sample("rotation/binlog.000006"), &log).expect("could not copy a log");
    let path = log.to_str().expect("a path that is not UTF-8");
    let size = fs::metadata(&log).expect("no log").len();
    let ran = bintide(&["dump", "--json", &format!("--result-file={path}"), path], &[]);
    assert!(!ran.status.success() && text(&ran.stderr).contains("is a log to read"), "{ran:?}");
    assert_eq!(fs::metadata(&log).expect("no log").len(), size);
}

#[test]
fn settings_that_exclude_an_option_of_the_command_line_are_left_out() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let settings = directory.path().join("bintide.toml");
    fs::write(&settings, "[stats]\nrows = true\nby = 'hour'\n").expect("could not write the settings");
    let settings = settings.to_str().expect("a path that is not UTF-8");
    let log = sample("rotation/binlog.000006");
    let check = |variables: &[(&str, &str)], option: &str, expected: char| {
        let ran = bintide(&["stats", option, &log], variables);
        assert!(ran.status.success(), "{variables:?} {option}: {ran:?}");
        assert!(text(&ran.stdout).starts_with(expected), "{variables:?} {option}: {ran:?}");
    };
    check(&[("BINTIDE_STATS_ROWS", "1")], "--json", '{');
    check(&[("BINTIDE_STATS_ROWS", "1"), ("BINTIDE_STATS_JSON", "1")], "--json", '{');
    check(&[("BINTIDE_STATS_ROWS", "1")], "--html=-", '<');
    check(&[("BINTIDE_CONFIG", settings)], "--json", '{');
    // The server would not answer: the logs of the command line count.
    check(&[("BINTIDE_STATS_FROM", "mysql://u@127.0.0.1:1/")], "--json", '{');
}

/// Replays the sample `gtids` to a new SQLite file. Returns the number of applied transactions, or the error.
fn replayed_transactions(variables: &[(&str, &str)], option: &[&str]) -> Result<u64, String> {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let target = format!("sqlite:{}", directory.path().join("copy.db").display());
    let log = sample("gtids");
    let ran = bintide(&[&["replay", "--json", "--to", &target, &log], option].concat(), variables);
    if !ran.status.success() {
        return Err(text(&ran.stderr));
    }
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("a report that is not JSON");
    Ok(report["transactions"].as_u64().expect("no number"))
}

#[test]
fn starts_and_stops_of_settings_lose_to_the_command_line() {
    const SOURCE: &str = "5ea5ca5e-0001-4000-8000-000000000001";
    let [third, fifth] = [3, 5].map(|number| format!("{SOURCE}:{number}"));
    let directory = tempfile::tempdir().expect("could not create a directory");
    let file = |key: &str| {
        let path = directory.path().join(key);
        fs::write(&path, format!("[replay]\n{key} = '{third}'\n")).expect("could not write the settings");
        path.to_str().expect("a path that is not UTF-8").to_owned()
    };
    let [stop_file, start_file] = ["stop-gtid", "start-gtid"].map(file);
    let check = |variables: &[(&str, &str)], options: &[(&str, &str, u64)]| {
        for variable in variables {
            for (option, value, expected) in options {
                let found = replayed_transactions(&[*variable], &[option, value]);
                assert_eq!(found, Ok(*expected), "{variable:?} {option}");
            }
        }
    };
    let stops = [
        ("BINTIDE_REPLAY_STOP_POSITION", "binlog.000001:1155"),
        ("BINTIDE_REPLAY_STOP_DATETIME", "2030-01-01"),
        ("BINTIDE_STOP_DATETIME_INCLUSIVE", "2030-01-01"),
        ("BINTIDE_REPLAY_STOP_GTID", &third),
        ("BINTIDE_STOP_AFTER_GTID", &third),
        ("BINTIDE_CONFIG", &stop_file),
    ];
    let options = [
        ("--stop-position", "binlog.000001:3549", 13),
        ("--stop-datetime", "2030-01-01", 16),
        ("--stop-datetime-inclusive", "2030-01-01", 16),
        ("--stop-gtid", &fifth, 13),
        ("--stop-after-gtid", &fifth, 14),
    ];
    check(&stops, &options);
    let starts = [
        ("BINTIDE_REPLAY_START_POSITION", "binlog.000001:578"),
        ("BINTIDE_START_DATETIME", "2020-01-01"),
        ("BINTIDE_REPLAY_START_GTID", &third),
        ("BINTIDE_REPLAY_START_AFTER_GTID", &third),
        ("BINTIDE_CONFIG", &start_file),
    ];
    let options = [
        ("--start-position", "binlog.000001:3549", 3),
        ("--start-datetime", "2020-01-01", 16),
        ("--start-gtid", &fifth, 3),
        ("--start-after-gtid", &fifth, 2),
    ];
    check(&starts, &options);
    // Two of one place are an error, as on the command line.
    for variables in [
        [("BINTIDE_STOP_GTID", &*third), ("BINTIDE_STOP_AFTER_GTID", &fifth)],
        [("BINTIDE_REPLAY_STOP_GTID", &third), ("BINTIDE_REPLAY_STOP_DATETIME", "2030-01-01")],
        [("BINTIDE_START_GTID", &third), ("BINTIDE_START_DATETIME", "2020-01-01")],
    ] {
        let error = replayed_transactions(&variables, &[]).expect_err("two settings were accepted");
        assert!(error.contains("exclude each other: give only one of them"), "{variables:?}: {error}");
    }
    let both = [("BINTIDE_REPLAY_STOP_GTID", &*fifth), ("BINTIDE_STOP_AFTER_GTID", &third)];
    assert_eq!(replayed_transactions(&both, &[]), Ok(13), "the command's own setting counts");
}

#[test]
fn the_command_line_overrides_conflicting_settings() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let output = directory.path().to_str().expect("a path that is not UTF-8");
    let log = sample("types.binlog");
    let settings =
        [("BINTIDE_COMPRESS_MIN_GAIN", "99"), ("BINTIDE_QUIET", "on"), ("BINTIDE_COMPRESS_JSON", "1")];
    let compress = |switch: &[&str]| {
        let args = [&["compress", "--dry-run", "--output", output, &log], switch].concat();
        let done = bintide(&args, &settings);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    assert!(
        compress(&["--like-server"]).contains("\"compressed\": 43"),
        "not all transactions are compressed"
    );
    assert!(
        compress(&[]).contains("\"compressed\": 0"),
        "a transaction was compressed without the required gain"
    );
    let levels =
        [("BINTIDE_ADVISE_LEVELS", "1,3"), ("BINTIDE_ADVISE_TIME", "5"), ("BINTIDE_ADVISE_JSON", "yes")];
    let advice = bintide(&["advise", "--all", &log], &levels);
    assert_eq!(
        text(&advice.stdout).matches("\"level\": 3,").count() > 1,
        advice.status.success(),
        "{advice:?}"
    );
    let maybe = "bintide: the setting BINTIDE_QUIET: invalid value 'maybe': expected 1, on, yes or true, or 0, off, \
                 no or false\n";
    fails(&["man"], &[("BINTIDE_QUIET", "maybe")], 2, maybe);
    let many = "bintide: the setting BINTIDE_ADVISE_LEVELS: invalid value '99' for '--levels <value>': \
                expected a level from 1 to 22\n";
    fails(&["advise", &log], &[("BINTIDE_ADVISE_LEVELS", "1,99")], 2, many);
}

/// Every command that reads logs gives the same reason and position for a file with two logs.
#[test]
fn two_logs_in_one_file_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("two.binlog").display().to_string();
    let logs = ["anonymous.binlog", "triggers.binlog"].map(|name| fs::read(sample(name)).unwrap());
    fs::write(&path, logs.concat()).unwrap();
    let to = format!("sqlite:{}", directory.path().join("copy.db").display());
    let inverse = directory.path().join("inverse").display().to_string();
    let position = format!("{path} at {}: ", logs[0].len());
    for (command, code) in [
        (&["verify", &path][..], 1),
        (&["stats", &path], 1),
        (&["compress", &path], 1),
        (&["decompress", &path], 1),
        (&["advise", &path], 1),
        (&["diff", &path, &path], 2),
        (&["history", "--table", "trig.a", "--where", "@1=1", &path], 1),
        (&["undo", "--database", "trig", "-r", &inverse, &path], 1),
        (&["replay", &path, "--to", &to], 1),
        (&["stream", "--format", "maxwell", "--columns", "numbered", &path], 1),
        (&["dump", "--transactions", &path], 1),
    ] {
        let output = bintide(command, &[]);
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(said.contains(&position) && said.contains("a second log starts here"), "{command:?}: {said}");
        assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
    }
}

/// Runs `bintide` with a time limit, after which its exit code is 124.
fn bounded(args: &[&str], home: &Path, input: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["20", env!("CARGO_BIN_EXE_bintide")]).args(args);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run timeout");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("input");
    child.wait_with_output().expect("an end")
}

#[test]
fn named_pipes_in_place_of_files_are_refused() {
    let home = tempfile::tempdir().expect("a directory");
    for name in ["pipe", ".my.cnf", ".mylogin.cnf"] {
        let made = Command::new("mkfifo").arg(home.path().join(name)).status().expect("run mkfifo");
        assert!(made.success());
    }
    let pipe = home.path().join("pipe");
    let pipe = pipe.to_str().expect("a path");
    let server = ["receive", "store", "--from", "mysql://root@127.0.0.1:1/"];
    let refused = |args: &[&str], expected: &str| {
        let output = bounded(args, home.path(), "");
        let said = text(&output.stderr);
        assert!(said.contains(expected), "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    };
    let encrypted = sample("encrypted/binlog.000001");
    refused(&["stats", "--keyring", pipe, &encrypted], &format!("{pipe}: it is not a regular file"));
    refused(&server, "/.my.cnf is ignored: it is a named pipe; expected a file");
    refused(&server, "/.mylogin.cnf cannot be used: it is a named pipe; expected a file");
    let named = [&server[..], &["--defaults-file", pipe]].concat();
    refused(&named, &format!("{pipe} cannot be used: it is a named pipe; expected a file"));
    refused(
        &["--config", pipe, "man"],
        &format!("{pipe} cannot be used: it is a named pipe; expected a file"),
    );
    // A pipe without a name, as a shell makes one of `<(command)`.
    let args = [&server[..], &["--defaults-file", "/dev/stdin"]].concat();
    fs::remove_file(home.path().join(".mylogin.cnf")).expect("removed");
    let output = bounded(&args, home.path(), "[client]\nport=x\n");
    let said = text(&output.stderr);
    assert!(said.contains("port is x; expected a number up to 65535"), "{said}");
}

/// Runs the command, and returns its exit code, standard output and standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    let output = bintide(args, &[]);
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn compress_to_the_logs_own_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    fs::copy(sample("triggers.binlog"), &log).unwrap();
    let (before, log) = (fs::read(&log).unwrap(), log.display().to_string());
    let link = tempfile::tempdir().unwrap();
    let other_path = link.path().join("same");
    std::os::unix::fs::symlink(directory.path(), &other_path).unwrap();
    for command in ["compress", "decompress"] {
        for output in [directory.path(), &other_path] {
            let output = output.display().to_string();
            let (code, _, said) = run(&[command, "-o", &output, &log]);
            assert!(code == 2 && said.contains("does not overwrite files"), "{command} {output}: {said}");
        }
        // A new log in the other direction would differ.
        assert_eq!(fs::read(&log).unwrap(), before);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    let (code, ..) = run(&["compress", &log]);
    assert!(code == 0 && fs::read(&log).unwrap() != before);
}

#[test]
fn a_log_that_is_given_twice_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (link, inverse, copy) = (path("link"), path("inverse"), format!("sqlite:{}", path("copy.db")));
    let log = sample("rotation/binlog.000006");
    std::os::unix::fs::symlink(&log, &link).unwrap();
    let undo = ["undo", "--table", "rotation.t", "-r", &inverse];
    let history = ["history", "--table", "rotation.t", "--where", "@1=3", "--json"];
    for command in [
        &undo[..],
        &history,
        &["stats", "--json"],
        &["verify", "--json"],
        &["advise", "--json", "--all", "--levels", "3"],
        &["replay", "--dry-run", "--json", "--to", &copy],
        &["stream", "--format", "maxwell", "--columns", "numbered"],
        &["compress", "--dry-run", "--json"],
    ] {
        let once = run(&[command, &[&log]].concat());
        let _ = fs::remove_file(&inverse);
        let (code, out, said) = run(&[command, &[&log, &link]].concat());
        let _ = fs::remove_file(&inverse);
        let warning = format!("bintide: {link} is given more than once: it is read once\n");
        assert_eq!((code, said), (once.0, warning + &once.2), "{command:?}");
        // Times that were measured differ.
        if !["advise", "replay", "compress"].contains(&command[0]) {
            assert_eq!(out, once.1, "{command:?}");
        }
        let count =
            |text: &str| text.lines().find(|line| line.contains("\"transactions\"")).map(str::to_owned);
        assert_eq!(count(&out), count(&once.1), "{command:?}");
    }
    let rotation = sample("rotation");
    let (code, out, said) = run(&["verify", &rotation, &log]);
    assert!(code == 0 && out.matches("sound").count() == 6 && said.contains("it is read once"), "{said}");
}

#[test]
fn stats_verify_checksums_if_asked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad");
    let mut bytes = fs::read(sample("triggers.binlog")).unwrap();
    bytes[4588] ^= 1; // In the transaction ID of a commit.
    fs::write(&path, &bytes).unwrap();
    let path = path.display().to_string();
    let (code, _, said) = run(&["stats", &path]);
    assert_eq!((code, said.as_str()), (0, ""));
    let (code, out, said) = run(&["stats", "--verify-binlog-checksum", &path]);
    let expected = format!("{path} at 4575: byte 27: checksum is");
    assert!(code == 1 && out.is_empty() && said.contains(&expected), "{said}");
    assert!(said.ends_with("; run bintide verify for details\n"), "{said}");
}

#[test]
fn a_file_without_events_is_no_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("magic").display().to_string();
    let to = format!("sqlite:{}", directory.path().join("copy.db").display());
    let inverse = directory.path().join("inverse").display().to_string();
    fs::write(&path, b"\xfebin").unwrap();
    for command in [
        &["verify", &path][..],
        &["stats", &path],
        &["compress", &path],
        &["decompress", &path],
        &["advise", &path],
        &["history", "--table", "t.t", "--where", "@1=1", &path],
        &["undo", "--table", "t", "-r", &inverse, &path],
        &["replay", "--to", &to, &path],
        &["stream", "--format", "debezium", &path],
        &["dump", "--transactions", &path],
    ] {
        let (code, out, said) = run(command);
        let has_reason = ["no event", "has no events", "contains only the magic number"];
        let said = format!("{out}{said}");
        assert!(code == 1 && has_reason.iter().any(|reason| said.contains(reason)), "{command:?}: {said}");
    }
}

#[test]
fn incomplete_transactions_are_not_counted_as_sound() {
    let (code, out, _) = run(&["verify", &sample("torn.binlog")]);
    assert!(code == 0 && out.contains("the transaction at 844 is incomplete"), "{out}");
    assert!(out.contains("sound: 3 transactions, 15 events"), "{out}");
}

#[test]
fn diff_does_not_call_absent_transactions_equal() {
    let (a, b) = (sample("rotation"), sample("gtids"));
    let present = "5ea5ca5e-0001-4000-8000-000000000001:1";
    let absent = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3";
    let (code, out, said) = run(&["diff", "--gtid", absent, &a, &b]);
    assert!(code == 1 && out.ends_with("not comparable\n"), "{out}");
    assert!(said.contains(&format!("neither store has {absent}, which --gtid names")), "{said}");
    let both = format!("{absent},{present}");
    let (code, out, said) = run(&["diff", "--gtid", &both, &a, &a]);
    assert!(code == 0 && out.ends_with("equal\n") && said.contains(absent), "{out}{said}");
    let (code, out, said) = run(&["diff", "--gtid", present, &a, &a]);
    assert!(code == 0 && out.ends_with("equal\n") && said.is_empty(), "{out}{said}");
    let (code, out, _) = run(&["diff", "--json", "--gtid", "5ea5ca5e-0001-4000-8000-000000000001:9", &a, &b]);
    assert!(code == 1 && out.contains("\"log_name\": \"binlog.000006\""), "{out}");
}

#[test]
fn selections_of_nothing_are_errors() {
    let log = sample("rotation/binlog.000006");
    for command in [&["stats"][..], &["undo", "-r", "none"], &["replay", "--to", "sqlite:none.db"]] {
        let period = ["--start-datetime", "2026-11-22 02:00:00", "--stop-datetime", "2026-11-22 01:00:00"];
        let (code, _, said) = run(&[command, &period, &[&log]].concat());
        assert!(code == 2 && said.contains("no transaction is selected"), "{command:?}: {said}");
    }
    for command in [
        &["stats", "--gtid", ""][..],
        &["undo", "-r", "none", "--gtid", ""],
        &["diff", &log, "--gtid", ""],
        &["replay", "--to", "sqlite:none.db", "--stop-gtid", ""],
    ] {
        let (code, _, said) = run(&[command, &[&log]].concat());
        assert!(code == 2 && said.contains("the GTID set is empty"), "{command:?}: {said}");
    }
    for command in [&["stats"][..], &["undo", "-r", "none"]] {
        let (code, _, said) = run(&[command, &["--database", "rot*", &log]].concat());
        assert!(code == 2 && said.contains("use --table 'rot*.*'"), "{command:?}: {said}");
    }
    let (code, _, said) = run(&["stats", "--table", "rot*.*", &log]);
    assert_eq!((code, said.as_str()), (0, ""));
    let (code, _, said) = run(&["stats", "--database", "other", &log]);
    assert!(code == 0 && said.contains("nothing in the logs matches the selection"), "{said}");
    let (code, _, said) = run(&["stats", "--exclude-gtids", "", &log]);
    assert_eq!((code, said.as_str()), (0, ""));
}

#[test]
fn directories_without_logs_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(sample("triggers.binlog"), directory.path().join("triggers.binlog")).unwrap();
    let path = directory.path().display().to_string();
    let (code, _, said) = run(&["verify", &path]);
    assert!(code == 2 && said.contains("no file with a name such as binlog.000001"), "{said}");
    fs::write(directory.path().join("binlog.index"), "").unwrap();
    let (code, _, said) = run(&["verify", &path]);
    assert!(code == 2 && said.contains("binlog.index lists no logs"), "{said}");
}

#[test]
fn help_is_a_command_too() {
    for (short, long) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "stats"], &["stats", "--help"]),
        (&["help", "dump"], &["dump", "--help"]),
        (&["help", "relay", "user", "add"], &["relay", "user", "add", "--help"]),
    ] {
        let expected = run(long);
        assert_eq!(run(short), expected);
        assert!(expected.0 == 0 && !expected.1.is_empty());
    }
    let (code, _, said) = run(&["help", "nothing"]);
    assert!(code == 2 && said.contains("unrecognized subcommand 'nothing'"), "{said}");
}

#[test]
fn every_command_has_a_page_in_ascii() {
    let directory = tempfile::tempdir().unwrap();
    let (code, ..) = run(&["man", "--out", &directory.path().display().to_string()]);
    assert_eq!(code, 0);
    for name in ["bintide", "bintide-dump", "bintide-relay", "bintide-relay-user", "bintide-relay-user-add"] {
        let page = fs::read(directory.path().join(format!("{name}.1"))).unwrap();
        let words: Vec<&str> = name.split('-').skip(1).collect();
        assert_eq!(run(&[&["man"][..], &words].concat()).1.as_bytes(), page, "{name}");
    }
    for page in fs::read_dir(directory.path()).unwrap() {
        let path = page.unwrap().path();
        let page = text(&fs::read(&path).unwrap());
        assert!(page.is_ascii() && !page.contains(".SH EXTRA"), "{}", path.display());
    }
    let page = run(&["man", "undo"]).1;
    let (_, notes) = page.split_once(".SH NOTES\n.nf\nExamples:\n").unwrap();
    assert!(notes.ends_with("\n.fi\n"), "{notes}");
    let (code, _, said) = run(&["man", "stats", "more"]);
    assert!(code == 2 && said.contains("`stats` has no subcommands"), "{said}");
}
