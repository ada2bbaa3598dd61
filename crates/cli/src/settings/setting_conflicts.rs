//! Settings that exclude each other.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use anyhow::anyhow;
use clap::{Arg, ArgAction, ArgGroup, Command, Id};

use super::setting_value::{GivenSetting, is_on};

/// Returns whether two options of a command exclude each other: one conflicts with the other, or both are in a group of
/// which only one may be given.
pub(super) fn are_exclusive(command: &Command, one: &Id, other: &Id) -> bool {
    let is_in_conflict = |one: &Id, other: &Id| {
        let arg = command.get_arguments().find(|arg| arg.get_id() == one && !arg.is_global_set());
        arg.is_some_and(|arg| {
            command.get_arg_conflicts_with(arg).into_iter().any(|arg| arg.get_id() == other)
        })
    };
    let mut groups = exclusive_groups(command);
    one != other
        && (is_in_conflict(one, other)
            || is_in_conflict(other, one)
            || groups.any(|group| [one, other].iter().all(|id| group.get_args().any(|arg| arg == *id))))
}

/// Leaves out a setting if a layer of higher priority sets another option of the same group, such as another password
/// option. Two options of a group in one layer are an error, as on the command line.
pub(super) fn without_overridden(
    command: &Command,
    given: Vec<GivenSetting>,
) -> anyhow::Result<Vec<GivenSetting>> {
    let groups = exclusive_groups(command);
    let mut overridden = BTreeSet::new();
    for group in groups {
        let members: Vec<&GivenSetting> =
            given.iter().filter(|setting| group.get_args().any(|id| *id == setting.id)).collect();
        let Some(strongest) = members.iter().map(|setting| setting.value.layer).min() else { continue };
        let (kept, weaker): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|setting| setting.value.layer == strongest);
        if let [one, other, ..] = kept.as_slice() {
            return Err(conflict(one, other));
        }
        overridden.extend(weaker.into_iter().map(|setting| setting.id.clone()));
    }
    let effective: Vec<GivenSetting> =
        given.into_iter().filter(|setting| !overridden.contains(&setting.id)).collect();
    without_conflicting(command, effective)
}

/// Leaves out a setting if a layer of higher priority sets an option that excludes it. Two such options in one layer
/// are an error, as on the command line. A switch that is off excludes nothing.
fn without_conflicting(command: &Command, given: Vec<GivenSetting>) -> anyhow::Result<Vec<GivenSetting>> {
    let argument = |setting: &GivenSetting| command.get_arguments().find(|arg| *arg.get_id() == setting.id);
    let is_off = |setting: &GivenSetting| {
        argument(setting).is_some_and(|arg| matches!(arg.get_action(), ArgAction::SetTrue))
            && setting.value.values.iter().all(|value| is_on(value) == Some(false))
    };
    let mut excluded = BTreeSet::new();
    for one in given.iter().filter(|setting| !is_off(setting)) {
        let Some(arg) = argument(one).filter(|arg| !arg.is_global_set()) else { continue };
        let conflicts: Vec<&Id> = command.get_arg_conflicts_with(arg).into_iter().map(Arg::get_id).collect();
        let others = given.iter().filter(|other| conflicts.contains(&&other.id) && !is_off(other));
        for other in others {
            match one.value.layer.cmp(&other.value.layer) {
                Ordering::Less => excluded.insert(other.id.clone()),
                Ordering::Greater => excluded.insert(one.id.clone()),
                Ordering::Equal => return Err(conflict(one, other)),
            };
        }
    }
    Ok(given.into_iter().filter(|setting| !excluded.contains(&setting.id)).collect())
}

/// Returns the groups of options of which only one may be given.
fn exclusive_groups(command: &Command) -> impl Iterator<Item = &ArgGroup> {
    command.get_groups().filter(|group| !(*group).clone().is_multiple())
}

/// Returns the error of two settings of one layer that exclude each other.
fn conflict(one: &GivenSetting, other: &GivenSetting) -> anyhow::Error {
    let (one, other) = (&one.value.origin, &other.value.origin);
    anyhow!("the settings {one} and {other} exclude each other: give only one of them")
}
