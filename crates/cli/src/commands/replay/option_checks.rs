//! Refuses options that would have no effect. clap does not report a missing required option that conflicts with a
//! given argument: `--from` conflicts with LOG.

use anyhow::anyhow;
use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::exit::CommandFailure;

/// Options, or their prefix, and the option that they require.
const REQUIRED: [(&str, &str); 6] = [
    ("relay", "from"),
    ("relay-keep", "relay"),
    ("from-password-file", "from"),
    ("source-*", "from"),
    ("verify-*", "verify"),
    ("offline", "dry-run"),
];

/// Checks the options of `replay` on the command line. A setting without effect is no error: it is for other runs.
pub(crate) fn check_options(matches: &ArgMatches) -> Result<(), CommandFailure> {
    let typed: Vec<String> = matches
        .ids()
        .filter(|id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine))
        .map(|id| id.as_str().replace('_', "-"))
        .filter(|name| !name.ends_with("-options"))
        .collect();
    for (pattern, required) in REQUIRED {
        // A setting also counts: it is the default of its option.
        let is_given = match required {
            "dry-run" => matches.get_flag("dry_run"),
            _ => matches.ids().any(|id| id.as_str() == required),
        };
        let fits = |name: &&String| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => *name == pattern,
        };
        if let Some(option) = typed.iter().find(fits).filter(|_| !is_given) {
            return Err(CommandFailure::NotStarted(anyhow!("--{option} requires --{required}")));
        }
    }
    let is_typed = |name: &str| typed.iter().any(|typed| typed == name);
    let order = matches.get_raw("commit_order").and_then(|mut values| values.next()?.to_str());
    match order {
        Some(order) if order != "grouped" && is_typed("group-max") && is_typed("commit-order") => {
            Err(CommandFailure::NotStarted(anyhow!(
                "--group-max with --commit-order {order}: only --commit-order grouped puts several transactions into \
                 one commit; omit --group-max"
            )))
        }
        _ => Ok(()),
    }
}
