//! The command itself, as a user meets it: help, settings, exit codes.

use std::fs;
use std::process::{Command, Output, Stdio};

/// Runs `bintide` with no settings but those given.
fn bintide(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
    command.args(args).env_clear().envs(environment.iter().copied());
    command.output().expect("run bintide")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn fails(args: &[&str], environment: &[(&str, &str)], code: i32, message: &str) {
    let output = bintide(args, environment);
    assert_eq!(text(&output.stderr), message);
    assert_eq!(output.status.code(), Some(code));
}

/// The commands, as help lists them.
fn commands() -> Vec<String> {
    let help = text(&bintide(&["--help"], &[]).stdout);
    let list = help.split("Commands:\n").nth(1).expect("a list of commands");
    let words = list.lines().map_while(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<String> = words.map(str::to_owned).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    commands
}

#[test]
fn help_has_examples_and_exit_codes() {
    let output = bintide(&["--help"], &[]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for wanted in ["Examples:", "Settings:", "Exit codes:"] {
        assert!(help.contains(wanted), "{wanted} in {help}");
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
    let message = format!("bintide: there is no command `x`; there are {}\n", commands().join(", "));
    fails(&["man", "x"], &[], 2, &message);
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = bintide(&["completions", shell], &[]);
        assert!(text(&output.stdout).contains("completions"), "{shell}");
    }
    assert!(text(&bintide(&["man"], &[]).stdout).contains(".TH bintide 1"));
    assert!(text(&bintide(&["man", "man"], &[]).stdout).contains(".TH bintide-man 1"));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("man1");
    let output = bintide(&["man", "--out", path.to_str().expect("a path")], &[]);
    assert_eq!(output.status.code(), Some(0));
    for command in commands() {
        let page = fs::read_to_string(path.join(format!("bintide-{command}.1"))).expect("a page");
        assert!(page.contains("Examples"), "{command}");
    }
    assert!(path.join("bintide.1").exists());
}

#[test]
fn settings_come_from_environment_and_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file_out, environment_out) = (directory.path().join("file"), directory.path().join("environment"));
    let settings = directory.path().join("bintide.toml");
    fs::write(&settings, format!("[man]\nout = {:?}\n", file_out)).expect("settings");
    let settings = settings.to_str().expect("a path");

    bintide(&["--config", settings, "man"], &[]);
    assert!(file_out.join("bintide.1").exists(), "the file counts");

    let wins = [("BINTIDE_CONFIG", settings), ("BINTIDE_MAN_OUT", environment_out.to_str().expect("a path"))];
    bintide(&["man"], &wins);
    assert!(environment_out.join("bintide.1").exists(), "the environment wins over the file");

    let argument_out = directory.path().join("argument");
    bintide(&["man", "--out", argument_out.to_str().expect("a path")], &wins);
    assert!(argument_out.join("bintide.1").exists(), "the command line wins over both");
}

#[test]
fn settings_are_found_in_the_users_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("bintide")).expect("a directory");
    fs::write(directory.path().join("bintide/bintide.toml"), "nonsense = 1").expect("settings");
    let home = directory.path().to_str().expect("a path");
    let output = bintide(&["man"], &[("XDG_CONFIG_HOME", home)]);
    assert_eq!(output.status.code(), Some(2));
    let ending = "there is no setting `nonsense`; settings have the names of long options\n";
    assert!(text(&output.stderr).ends_with(ending), "{output:?}");
}

#[test]
fn wrong_settings_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("b.toml");
    let path = path.to_str().expect("a path");
    let check = |content: &str, message: &str| {
        fs::write(path, content).expect("settings");
        fails(&["man"], &[("BINTIDE_CONFIG", path)], 2, &format!("bintide: {path}{message}\n"));
    };
    check("[man]\nuot = 1", ": [man]: there is no setting `uot`; settings have the names of long options");
    check("[man]\nout = 1979-05-27", ": [man]: `out` must be a text, a number, true or false");
    check(
        "\nout = ",
        " line 2: string values must be quoted, expected literal string; see the end of `bintide --help` for settings",
    );
    let absent = "bintide: read settings from /nonexistent: No such file or directory (os error 2); \
                  see the end of `bintide --help` for settings\n";
    fails(&["man"], &[("BINTIDE_CONFIG", "/nonexistent")], 2, absent);
}

#[test]
fn a_closed_pipe_is_success() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
    command.args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run bintide");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("its end");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}
