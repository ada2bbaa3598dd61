//! Which transactions the target has already.

use binlog::gtid::GtidSet;

use crate::error::Error;
use crate::progress::Applied;
use crate::unit::Head;

/// Which transactions the target has already.
#[derive(Debug)]
pub(crate) struct Skip {
    applied: Applied,
    /// The number of the log that progress without GTIDs is in: `Err` with its name when it is not among the logs.
    saved_log: Option<Result<usize, String>>,
}

impl Skip {
    pub(crate) fn new(applied: Applied, log_names: &[String]) -> Self {
        let saved_log = applied.progress.place.as_ref().map(|place| {
            let number = log_names.iter().position(|name| *name == place.log);
            number.ok_or_else(|| place.log.clone())
        });
        Self { applied, saved_log }
    }

    /// Does the target have all that is in front of the logs?
    pub(crate) fn check_gap(&self, previous: &GtidSet) -> Result<(), Error> {
        let missing = previous.difference(&self.applied.executed).difference(&self.applied.progress.gtids);
        match missing.is_empty() {
            true => Ok(()),
            false => Err(Error::Gap(missing)),
        }
    }

    /// Does the target have it?
    pub(crate) fn has(&self, unit: &Head) -> Result<bool, Error> {
        let progress = &self.applied.progress;
        if let Some(gtid) = unit.gtid() {
            return Ok(progress.gtids.contains(gtid) || self.applied.executed.contains(gtid));
        }
        if progress.beyond.contains(&unit.origin.start_place()) {
            return Ok(true);
        }
        let (Some(saved), Some(place)) = (&self.saved_log, &progress.place) else { return Ok(false) };
        match saved {
            Ok(number) if unit.origin.log_number == *number => Ok(unit.origin.end <= place.position),
            Ok(number) => Ok(unit.origin.log_number < *number),
            Err(log) => Err(Error::Refused(format!(
                "{unit} has no GTID, and the target's progress is at {place}: give {log} too, or drop the table \
                 bintide.progress on the target to apply all"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Skip;
    use crate::progress::{Applied, Place, Progress};

    #[test]
    fn a_log_that_is_missing_is_named() {
        let place = Some(Place { log: "b.000001".into(), position: 4 });
        let applied = Applied { progress: Progress { place, ..Progress::default() }, ..Applied::default() };
        let skip = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Skip::new(applied.clone(), &names).saved_log
        };
        assert_eq!(skip(&["b.000000", "b.000001"]), Some(Ok(1)));
        assert_eq!(skip(&["b.000002"]), Some(Err("b.000001".into())));
    }
}
