//! Finds the bintide processes of this machine that serve metrics.

use std::fs;
use std::path::Path;

/// Returns the `--metrics` addresses of all bintide processes on this machine that this user may inspect, from their
/// command lines and environments.
pub(super) fn metrics_addresses() -> Vec<String> {
    let mut addresses = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let directory = entry.path();
        if let Ok(name) = fs::read_to_string(directory.join("comm"))
            && name.trim() == "bintide"
        {
            addresses.extend(address_of(&directory));
        }
    }
    addresses.sort();
    addresses.dedup();
    addresses
}

fn address_of(directory: &Path) -> Option<String> {
    let words = |name: &str| {
        let bytes = fs::read(directory.join(name)).unwrap_or_default();
        let words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        words.collect::<Vec<_>>()
    };
    let (arguments, variables) = (words("cmdline"), words("environ"));
    in_arguments(&arguments).or_else(|| in_variables(&variables, arguments.get(1)?))
}

/// Returns the value of `--metrics`.
fn in_arguments(arguments: &[String]) -> Option<String> {
    arguments.iter().enumerate().find_map(|(index, argument)| match argument.strip_prefix("--metrics")? {
        "" => arguments.get(index + 1).cloned(),
        value => value.strip_prefix('=').map(str::to_owned),
    })
}

/// Returns the value of the variable for `--metrics` of a command, such as `BINTIDE_RELAY_METRICS`, or of all commands.
fn in_variables(variables: &[String], command: &str) -> Option<String> {
    let value = |name: &str| {
        let found = variables.iter().find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='));
        found.filter(|value| !value.is_empty()).map(str::to_owned)
    };
    value(&format!("BINTIDE_{}_METRICS", command.to_uppercase())).or_else(|| value("BINTIDE_METRICS"))
}

#[cfg(test)]
mod tests {
    use super::{in_arguments, in_variables};

    #[test]
    fn addresses_are_found() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let expected = Some("127.0.0.1:9104".to_owned());
        assert_eq!(in_arguments(&words("bintide receive --metrics 127.0.0.1:9104 /d")), expected);
        assert_eq!(in_arguments(&words("bintide receive --metrics=127.0.0.1:9104")), expected);
        assert_eq!(in_arguments(&words("bintide receive --metrics-file f --keep 3d")), None);
        let variables = words("PATH=/bin BINTIDE_RELAY_METRICS=127.0.0.1:9104");
        assert_eq!(in_variables(&variables, "relay"), expected);
        assert_eq!(in_variables(&variables, "receive"), None);
        assert_eq!(in_variables(&words("BINTIDE_METRICS=127.0.0.1:9104"), "warm"), expected);
    }
}
