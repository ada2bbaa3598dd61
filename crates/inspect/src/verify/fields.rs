//! Checks the values in the fields of single events, where decoding accepts any bytes.

use binlog::events::{GtidEvent, Query, StatusVar, UserVar, UserVarValue};
use binlog::{
    Collation, Decimal, DecodeError, DecodeReason, Event, EventFlags, EventFormat, EventType, Flavour,
    HEADER_SIZE, RawEvent,
};

/// Checks the fields of a decoded event.
pub(crate) fn check(raw: &RawEvent<'_>, event: &Event<'_>, format: &EventFormat) -> Result<(), DecodeError> {
    match event {
        Event::Unknown(event) if !raw.header().flags.contains(EventFlags::IGNORABLE) => {
            let expected = "a known type, because the event is not flagged ignorable";
            Err(unexpected(TYPE_OFFSET, "event type", u64::from(event.code), expected))
        }
        _ if is_extinct(raw.event_type(), format) => {
            let expected = "one that servers since MySQL 5.6 write to logs";
            Err(unexpected(TYPE_OFFSET, "event type", u64::from(raw.event_type().code()), expected))
        }
        Event::Query(query) => status_vars(query, QUERY_HEAD_SIZE, format),
        Event::ExecuteLoadQuery(load) => status_vars(&load.query, LOAD_HEAD_SIZE, format),
        Event::UserVar(variable) => user_var(variable, format),
        Event::Gtid(event) => gtid(event, format),
        Event::AnonymousGtid(event) => anonymous(event).and_then(|()| gtid(event, format)),
        _ => Ok(()),
    }
}

/// Returns true if current servers do not write this event type to logs: only older servers write it, or it is only
/// part of the protocol.
fn is_extinct(event_type: EventType, format: &EventFormat) -> bool {
    /// Number of event types in MySQL 5.6.
    const TYPES_MIN: usize = 35;
    format.post_header_sizes.len() >= TYPES_MIN
        && matches!(
            event_type,
            EventType::StartV3
                | EventType::Load
                | EventType::Slave
                | EventType::CreateFile
                | EventType::ExecLoad
                | EventType::NewLoad
                | EventType::PreGaWriteRows
                | EventType::PreGaUpdateRows
                | EventType::PreGaDeleteRows
                | EventType::Heartbeat
                | EventType::HeartbeatV2
        )
}

/// Offset of the event type in an event's header.
const TYPE_OFFSET: usize = 4;

/// Bytes between header and session variables.
const QUERY_HEAD_SIZE: usize = 13;
const LOAD_HEAD_SIZE: usize = 26;

/// Latest known server version. Later servers may write values that are unknown here.
const KNOWN_VERSION_MAX: (u32, u32) = (9, 7);

/// Returns true if all values that this server version writes are known.
fn is_known_version(format: &EventFormat) -> bool {
    let mut numbers = format.server_version.split(|byte| *byte == b'.').map(|part| {
        let digits = part.iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0_u32, |number, digit| number.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
    });
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    format.flavour == Flavour::MySql && version <= KNOWN_VERSION_MAX
}

fn status_vars(query: &Query<'_>, head_size: usize, format: &EventFormat) -> Result<(), DecodeError> {
    let start = HEADER_SIZE + head_size;
    let wrong = |field, found, expected| Err(unexpected(start, field, found, expected));
    let mut seen = Vec::new();
    for variable in query.status.iter() {
        let variable = variable.map_err(|error| error.within(start))?;
        match &variable {
            StatusVar::Unknown { code, .. } if is_known_version(format) => {
                return wrong("session variable", u64::from(*code), "a known one of this server's version");
            }
            StatusVar::Catalog(name) | StatusVar::CatalogNz(name) if *name != b"std" => {
                return wrong("size of the catalog's name", name.len() as u64, "the name std");
            }
            StatusVar::Microseconds(count) | StatusVar::MariadbMicroseconds(count) if *count >= 1_000_000 => {
                return wrong("microseconds", u64::from(*count), "less than a million");
            }
            StatusVar::Charset { client, connection, server } => {
                for id in [client, connection, server] {
                    collation(*id, start, format)?;
                }
            }
            StatusVar::CharsetDatabase(id) | StatusVar::DefaultCollationForUtf8mb4(id) => {
                collation(*id, start, format)?;
            }
            StatusVar::ExplicitDefaultsForTimestamp(value) | StatusVar::EnableCascadeTriggers(value)
                if *value > 1 =>
            {
                return wrong("boolean session variable", u64::from(*value), "0 or 1");
            }
            _ => {}
        }
        let which = std::mem::discriminant(&variable);
        if seen.contains(&which) {
            return wrong("number of session variables of one kind", 2, "1");
        }
        seen.push(which);
    }
    Ok(())
}

fn collation(id: u16, offset: usize, format: &EventFormat) -> Result<(), DecodeError> {
    match is_known_version(format) && Collation::new(id, format.flavour).is_none() {
        true => Err(unexpected(offset, "collation", u64::from(id), "the number of a collation")),
        false => Ok(()),
    }
}

fn user_var(variable: &UserVar<'_>, format: &EventFormat) -> Result<(), DecodeError> {
    let Some(value) = &variable.value else { return Ok(()) };
    // The value follows the size of the name, the name, and the NULL flag.
    let start = HEADER_SIZE + 4 + variable.name.len() + 1;
    let size = value.bytes.len() as u64;
    let expected = match value.kind {
        UserVarValue::STRING => {
            let id = u16::try_from(value.collation).unwrap_or(u16::MAX);
            return collation(id, start + 1, format).and_then(|()| flags(value, start));
        }
        UserVarValue::REAL | UserVarValue::INT if size == 8 => return flags(value, start),
        UserVarValue::REAL | UserVarValue::INT => "8",
        UserVarValue::DECIMAL => match value.bytes {
            [precision, scale, bytes @ ..] => {
                Decimal::new(bytes, *precision, *scale).map_err(|error| error.within(start + 11))?;
                return flags(value, start);
            }
            _ => "2 or more",
        },
        kind => {
            let expected = "0, 1, 2 or 4: string, real, integer or decimal";
            return Err(unexpected(start, "kind of the variable's value", u64::from(kind), expected));
        }
    };
    Err(unexpected(start + 5, "size of the variable's value", size, expected))
}

/// Checks the flags after a value: at most one byte.
fn flags(value: &UserVarValue<'_>, start: usize) -> Result<(), DecodeError> {
    match value.flags.len() {
        0 | 1 => Ok(()),
        count => {
            Err(DecodeError::new(start + 9 + value.bytes.len(), DecodeReason::Trailing { count: count - 1 }))
        }
    }
}

fn anonymous(event: &GtidEvent<'_>) -> Result<(), DecodeError> {
    match event.uuid.as_bytes().iter().any(|byte| *byte != 0) || event.gno != 0 {
        true => {
            let found = event.gno.unsigned_abs();
            Err(unexpected(HEADER_SIZE + 1, "GTID of an anonymous transaction", found, "zeros"))
        }
        false => Ok(()),
    }
}

fn gtid(event: &GtidEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
    match event.rest.len() {
        count @ 1.. if is_known_version(format) => {
            Err(DecodeError::new(HEADER_SIZE, DecodeReason::Trailing { count }))
        }
        _ => Ok(()),
    }
}

fn unexpected(offset: usize, field: &'static str, found: u64, expected: &'static str) -> DecodeError {
    DecodeError::new(offset, DecodeReason::Unexpected { field, found, expected })
}

/// Checks the header flags of a format description: only in use, artificial, relay log.
pub(crate) fn flags_of_format(flags: EventFlags) -> Result<(), DecodeError> {
    let known = EventFlags::IN_USE.0 | EventFlags::ARTIFICIAL.0 | EventFlags::RELAY_LOG.0;
    match flags.0 & !known {
        0 => Ok(()),
        unknown => {
            let expected = "flags of a format description";
            Err(unexpected(FLAGS_OFFSET, "header flags", u64::from(unknown), expected))
        }
    }
}

/// Offset of the flags in an event's header.
const FLAGS_OFFSET: usize = 17;

/// Returns the name of an event type, or its code.
pub(crate) fn name_of(event_type: EventType) -> String {
    match event_type {
        EventType::Unknown(code) => format!("event of type {code}"),
        known => known.name().to_owned(),
    }
}
