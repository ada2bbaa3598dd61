//! Checks the values in a format description.

use binlog::events::FormatDescription;
use binlog::{EventHeader, EventType, ServerVersion};

use super::fields;
use super::findings::PreviousGtidsRule;

/// Valid sizes of the fixed parts of event bodies, by event type from 1 on. Readers rely on them, and no server has
/// written others. The entry of the format description is empty: its size depends on the number of types.
const POST_HEADER_SIZES: [&[u8]; 42] = [
    &[0, 56],
    &[13],
    &[0],
    &[8],
    &[0],
    &[0, 18],
    &[0],
    &[0, 4],
    &[4],
    &[0, 4],
    &[0, 4],
    &[0, 18],
    &[0],
    &[0],
    &[],
    &[0],
    &[4],
    &[26],
    &[6, 8],
    &[0],
    &[0],
    &[0],
    &[0, 6, 8],
    &[0, 6, 8],
    &[0, 6, 8],
    &[2],
    &[0],
    &[0],
    &[0],
    &[10],
    &[10],
    &[10],
    &[0, 25, 42],
    &[0, 25, 42],
    &[0],
    &[0, 18],
    &[0, 52],
    &[0],
    &[0, 10],
    &[0, 10, 40],
    &[0, 10],
    &[0],
];

/// Size of the format description's own fixed part, without the list of sizes.
const OWN_SIZE: usize = 57;

/// Returns the faults of a format description that could be decoded.
pub(crate) fn faults(header: &EventHeader, description: &FormatDescription<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    let version = description.version();
    if !is_version(version) {
        let found = String::from_utf8_lossy(version);
        faults.push(format!("the server's version is {found:?}, expected one like 8.0.43"));
    }
    let created = description.created;
    if created != 0 && created != header.timestamp {
        let expected = header.timestamp;
        faults.push(format!(
            "the server's start time is {created}, expected 0 or the event's timestamp {expected}"
        ));
    }
    if let Err(error) = fields::flags_of_format(header.flags) {
        faults.push(error.to_string());
    }
    let sizes = description.post_header_sizes;
    for ((code, expected), found) in (1..).zip(POST_HEADER_SIZES).zip(sizes) {
        if !expected.is_empty() && !expected.contains(found) {
            let name = fields::name_of(EventType::from_code(code));
            faults.push(format!(
                "the fixed part of {name} events has {found} bytes, expected one of {expected:?}"
            ));
        }
    }
    let own = EventType::FormatDescription.code();
    if let Some(found) = sizes.get(usize::from(own) - 1)
        && *found != (OWN_SIZE + sizes.len()) as u8
    {
        let expected = OWN_SIZE + sizes.len();
        faults.push(format!("its own fixed part has {found} bytes, expected {expected}"));
    }
    faults
}

/// First MySQL version that writes a Previous_gtids event into every log.
const PREVIOUS_SINCE: [u32; 3] = [5, 7, 0];

/// Returns the rule for previous GTIDs in this server's logs.
pub(crate) fn previous_gtids_rule(description: &FormatDescription<'_>) -> PreviousGtidsRule {
    let version = ServerVersion::parse(&String::from_utf8_lossy(description.version()));
    match version.is_mysql_since(PREVIOUS_SINCE) {
        true => PreviousGtidsRule::Always,
        false => PreviousGtidsRule::Optional,
    }
}

/// Returns true if the version is three numbers separated by dots, possibly followed by more. Words may follow:
/// Debian's MariaDB has `11.8.6-MariaDB-0+deb13u1 from Debian-log`.
fn is_version(version: &[u8]) -> bool {
    let mut parts = version.splitn(3, |byte| *byte == b'.');
    let mut is_number = |all: bool| {
        parts.next().is_some_and(|part| {
            let digits = part.iter().take_while(|byte| byte.is_ascii_digit()).count();
            digits > 0 && (!all || digits == part.len())
        })
    };
    is_number(true)
        && is_number(true)
        && is_number(false)
        && version.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}
