//! Finds where events start and end.

use crate::cursor::Cursor;
use crate::error::{DecodeError, Reason};
use crate::event::EventType;
use crate::events::FormatDescription;
use crate::format::Format;
use crate::header::{HEADER_SIZE, Header};
use crate::raw::{Checksum, RawEvent};

/// The first four bytes of a log.
pub const MAGIC: [u8; 4] = [0xfe, b'b', b'i', b'n'];

/// The first four bytes of an encrypted log.
pub const MAGIC_ENCRYPTED: [u8; 4] = [0xfd, b'b', b'i', b'n'];

/// No server writes or reads a larger event: `max_log_event_size`, 1 GiB.
pub const EVENT_SIZE_MAX: u32 = 1 << 30;

/// Finds where events start and end, and remembers what the last format description promised.
///
/// It does not guess whether more bytes are coming: [`Framed::NeedMore`] at the end of a growing log means
/// *not yet*, at the end of a closed one *torn*, and only the caller knows which it is.
#[derive(Clone, Debug, Default)]
pub struct Framer {
    format: Option<Format>,
}

/// What stands at the front of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framed<'a> {
    /// A whole event; the next one starts behind its bytes.
    Event(RawEvent<'a>),
    /// Less than a whole event.
    NeedMore {
        /// How many bytes it takes in all, as far as can be told yet.
        wanted: usize,
    },
}

impl Framer {
    /// For a log from its first event on (behind the magic), whose format is not yet known.
    pub const fn new() -> Self {
        Self { format: None }
    }

    /// For events that follow a known format description, or that come out of a payload
    /// ([`Format::inside_payload`]).
    pub const fn with_format(format: Format) -> Self {
        Self { format: Some(format) }
    }

    /// What the last format description promised.
    pub const fn format(&self) -> Option<&Format> {
        self.format.as_ref()
    }

    /// The event at the front of `bytes`. Its checksum is not verified, but the sizes are sane and a format
    /// description has been understood.
    ///
    /// # Errors
    ///
    /// When the size in the header cannot be one, when the first event is no format description, or when a format
    /// description cannot be decoded.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Framed<'a>, DecodeError> {
        let Some(head) = bytes.first_chunk::<HEADER_SIZE>() else {
            return Ok(Framed::NeedMore { wanted: HEADER_SIZE });
        };
        let header = Header::decode(&mut Cursor::new(head))?;
        let size = size_checked(&header)?;
        let Some(bytes) = bytes.get(..size) else {
            return Ok(Framed::NeedMore { wanted: size });
        };
        match header.event_type {
            EventType::FormatDescription => self.take_format(bytes).map(Framed::Event),
            _ => RawEvent::new(bytes, self.checksum(&header)?).map(Framed::Event),
        }
    }

    fn take_format<'a>(&mut self, bytes: &'a [u8]) -> Result<RawEvent<'a>, DecodeError> {
        let raw = RawEvent::new(bytes, FormatDescription::checksum_in(bytes))?;
        let description = FormatDescription::decode_body(raw.body())?;
        self.format = Some(description.format()?);
        Ok(raw)
    }

    fn checksum(&self, header: &Header) -> Result<Checksum, DecodeError> {
        match &self.format {
            Some(format) => Ok(format.checksum.for_events()),
            // In front of the first format description only a made-up rotation stands, in relay logs.
            None => Err(DecodeError::new(
                4,
                Reason::Unexpected {
                    field: "event type",
                    found: u64::from(header.event_type.code()),
                    wanted: "15, a format description, as the first event",
                },
            )),
        }
    }
}

fn size_checked(header: &Header) -> Result<usize, DecodeError> {
    let size = header.size;
    if size < HEADER_SIZE as u32 {
        let reason =
            Reason::Unexpected { field: "event size", found: u64::from(size), wanted: "19 bytes or more" };
        return Err(DecodeError::new(9, reason));
    }
    if size > EVENT_SIZE_MAX {
        let reason = Reason::OutOfRange {
            field: "event size",
            found: u64::from(size),
            max: u64::from(EVENT_SIZE_MAX),
        };
        return Err(DecodeError::new(9, reason));
    }
    Ok(size as usize)
}
