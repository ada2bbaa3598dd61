//! Manifests as objects of an archive: names, contents, and the order of their logs.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::archive_error::ArchiveError;
use crate::change_tables::TableFile;
use crate::manifest::Manifest;
use crate::segment::hex;

/// Directory of the manifests.
pub(super) const MANIFESTS: &str = "manifests";

/// Directory of the segments.
pub(super) const SEGMENTS: &str = "segments";

/// Start of a manifest's text.
const TEXT_START: &str = "{\n";
/// Start of the line with the SHA-256, before the digits.
const DIGEST_START: &str = "  \"manifest_sha256\": \"";
/// End of this line.
const DIGEST_END: &str = "\",\n";

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

/// Returns the content of a manifest's object: the manifest as JSON. Its first field is the SHA-256 of the text without
/// the line of this field, so that damage is found before anything is selected by the other fields.
pub(super) fn manifest_text(manifest: &Manifest) -> Vec<u8> {
    let text = serde_json::to_string_pretty(manifest).expect("ours: a manifest is plain data") + "\n";
    let fields = text.strip_prefix(TEXT_START).expect("ours: a manifest has fields");
    format!("{TEXT_START}{DIGEST_START}{}{DIGEST_END}{fields}", hex(Sha256::new_with_prefix(&text)))
        .into_bytes()
}

/// Checks the SHA-256 of a manifest. Manifests that were edited by hand can omit it.
fn check_text(bytes: &[u8]) -> Result<(), String> {
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let Some(rest) = text.strip_prefix(TEXT_START).and_then(|rest| rest.strip_prefix(DIGEST_START)) else {
        return Ok(());
    };
    let (expected, fields) = rest.split_once(DIGEST_END).unwrap_or((rest, ""));
    let found = hex(Sha256::new_with_prefix(format!("{TEXT_START}{fields}")));
    match found == expected {
        true => Ok(()),
        false => Err(format!("expected the SHA-256 {expected}, found {found}")),
    }
}

pub(super) fn parse_manifest(name: &str, bytes: &[u8]) -> Result<Manifest, ArchiveError> {
    let parsed: Result<Manifest, _> = serde_json::from_slice(bytes);
    let invalid = |why: String| ArchiveError::Manifest { name: name.to_owned(), why };
    let manifest = parsed.map_err(|cause| invalid(cause.to_string()))?;
    check_text(bytes).map_err(invalid)?;
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

#[cfg(test)]
mod tests {
    use super::{manifest_text, parse_manifest};
    use crate::manifest::{Manifest, ManifestSegment};
    use crate::segment::SegmentSummary;

    #[test]
    fn a_changed_byte_of_a_manifest_is_found() {
        let segment = ManifestSegment {
            name: "segments/binlog.000001.0".to_owned(),
            size: 7,
            sha256: "5e".to_owned(),
            key: None,
        };
        let manifest = Manifest::new("binlog.000001", "f0".to_owned(), segment, &SegmentSummary::default());
        let text = String::from_utf8(manifest_text(&manifest)).unwrap();
        let parse = |text: &str| parse_manifest("manifests/binlog.000001.json", text.as_bytes());
        assert_eq!(parse(&text).unwrap(), manifest);
        let error =
            parse(&text.replace("\"segment_size\": 7", "\"segment_size\": 8")).unwrap_err().to_string();
        assert!(error.contains("is invalid: expected the SHA-256 "), "{error}");
        // Without its SHA-256, the manifest is not checked.
        let without: Vec<&str> = text.lines().filter(|line| !line.contains("manifest_sha256")).collect();
        assert_eq!(parse(&without.join("\n")).unwrap(), manifest);
    }
}
