//! Manifests as objects of an archive: names, contents, and the order of their logs.

use std::collections::HashMap;

use crate::archive_error::ArchiveError;
use crate::change_tables::TableFile;
use crate::manifest::Manifest;

/// Directory of the manifests.
pub(super) const MANIFESTS: &str = "manifests";

/// Directory of the segments.
pub(super) const SEGMENTS: &str = "segments";

pub(super) fn tables_of(manifest: &Manifest) -> impl Iterator<Item = &TableFile> {
    manifest.change_tables.iter().flat_map(|tables| &tables.files)
}

pub(super) fn manifest_name(log: &str) -> String {
    format!("{MANIFESTS}/{log}.json")
}

/// Returns the log of the manifest of this name.
pub(super) fn log_of_manifest(name: &str) -> String {
    let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
    file.strip_suffix(".json").unwrap_or(file).to_owned()
}

pub(super) fn manifest_text(manifest: &Manifest) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(manifest).expect("ours: a manifest is plain data");
    text.push(b'\n');
    text
}

pub(super) fn parse_manifest(name: &str, bytes: &[u8]) -> Result<Manifest, ArchiveError> {
    let parsed: Result<Manifest, _> = serde_json::from_slice(bytes);
    let invalid = |why: String| ArchiveError::Manifest { name: name.to_owned(), why };
    let manifest = parsed.map_err(|cause| invalid(cause.to_string()))?;
    // The name of a restored file comes from here.
    if !logs::is_file_name(manifest.log.as_bytes()) || manifest_name(&manifest.log) != name {
        return Err(invalid(format!("it describes {}", manifest.log)));
    }
    // `prune` deletes these objects.
    if let Some(file) = tables_of(&manifest).find(|file| !file.has_valid_name()) {
        return Err(invalid(format!("one of its change tables is {}", file.name)));
    }
    if !manifest.segment.starts_with(&format!("{SEGMENTS}/{}.", manifest.log)) {
        return Err(invalid(format!("its segment is {}", manifest.segment)));
    }
    Ok(manifest)
}

/// Sorts manifests by the age of their logs: by series and number. If a server's logs got another base name, as between
/// MySQL 5.7 and 8.0, the base name whose logs begin earlier comes first.
pub(super) fn sort_by_age(manifests: &mut [Manifest]) {
    let mut beginnings: HashMap<(u32, String), i64> = HashMap::new();
    for manifest in manifests.iter() {
        let (series, base, _) = logs::log_order(&manifest.log);
        let begin = manifest.times.map_or(manifest.archived_at, |(first, _)| i64::from(first));
        let known = beginnings.entry((series, base.to_owned())).or_insert(begin);
        *known = begin.min(*known);
    }
    manifests.sort_by_cached_key(|manifest| {
        let (series, base, number) = logs::log_order(&manifest.log);
        let begin = beginnings.get(&(series, base.to_owned())).copied();
        (series, begin, base.to_owned(), number, manifest.log.clone())
    });
}
