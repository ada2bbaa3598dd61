//! Choice of archived logs: by name, GTID and time.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::anyhow;
use archive::{Archive, DamagedManifest, Manifest, ManifestList};
use binlog::encryption::Keyring;
use binlog::gtid::GtidSet;
use clap::Args;
use logs::GtidSelection;
use tracing::warn;

use super::{archived_logs, open_archive};
use crate::exit::CommandFailure;
use crate::value_parsers::{parse_gtids, parse_time};

/// Options that choose archived logs.
#[derive(Args, Debug)]
pub(super) struct ChoiceArgs {
    /// Archive: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, or a directory.
    #[arg(value_name = "ARCHIVE")]
    location: String,
    /// Names of the logs [default: all]
    #[arg(value_name = "LOG")]
    logs: Vec<String>,
    /// Only logs with transactions in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = parse_gtids)]
    gtid: Option<GtidSet>,
    /// Only logs with events of this local time or later, such as 2026-11-23 14:00:00.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    start_datetime: Option<u64>,
    /// Only logs with events before this local time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    stop_datetime: Option<u64>,
}

/// Archived logs that were chosen.
pub(super) struct ChosenLogs {
    pub(super) archive: Archive,
    pub(super) manifests: Vec<Manifest>,
    /// Manifests that cannot be read. Their logs may be among the chosen ones.
    pub(super) damaged: Vec<DamagedManifest>,
}

impl ChoiceArgs {
    /// Opens the archive, and finds the chosen logs.
    pub(super) fn find(&self, keyring: Option<Arc<Keyring>>) -> Result<ChosenLogs, CommandFailure> {
        let archive = open_archive(&self.location, keyring)?;
        let ManifestList { mut manifests, damaged } = match self.logs.is_empty() {
            true => archived_logs(&archive)?,
            false => ManifestList { manifests: self.named(&archive)?, damaged: Vec::new() },
        };
        manifests.retain(|manifest| self.is_chosen(manifest));
        if manifests.is_empty() && damaged.is_empty() {
            warn!("the archive has no log with these transactions or times");
        }
        Ok(ChosenLogs { archive, manifests, damaged })
    }

    /// Reads only the manifests of the named logs, because another manifest may be damaged.
    fn named(&self, archive: &Archive) -> Result<Vec<Manifest>, CommandFailure> {
        let mut manifests: Vec<Manifest> = Vec::new();
        for log in self.logs.iter().collect::<BTreeSet<_>>() {
            let found = archive.manifest(log).map_err(|error| CommandFailure::NotStarted(anyhow!(error)))?;
            let location = &self.location;
            let missing = || {
                anyhow!(
                    "the archive {location} has no log {log}; run bintide archive ls {location} to list its logs"
                )
            };
            manifests.push(found.ok_or_else(missing).map_err(CommandFailure::NotStarted)?);
        }
        Ok(manifests)
    }

    fn is_chosen(&self, manifest: &Manifest) -> bool {
        let gtids = GtidSelection { included: self.gtid.clone(), excluded: None };
        let contents = manifest.contents();
        contents.may_have_gtids(&gtids) && contents.may_have_commits(self.start_datetime, self.stop_datetime)
    }
}
