//! Seeking to the position at which a run resumes.

use binlog::{Outline, RawEvent, Tracker, TransactionId};
use logs::{Chunk, LargePayload, LogReader, Next, Piece, Positions};

use crate::error::Error;
use crate::read::{CHUNK_SIZE, LARGE_SIZE, stand_in};
use crate::token::Token;

/// Seeks to the position at which a run resumes. The reader must be at the log's start. A rewritten log needs the list
/// of its transactions' positions in the source's log.
///
/// To check that the right transaction ends there, it reads a little before the position. If that fails, as on standard
/// input, it reads the log from its start.
///
/// # Errors
///
/// If the log cannot be read up to the position, or no transaction or another one ends there.
pub fn seek(reader: &mut LogReader, token: &Token, positions: Option<&mut Positions>) -> Result<(), Error> {
    if let Next::End(_) = reader.next_event()? {
        return Err(refused(reader, token, Found::Short(reader.position())));
    }
    let (head, wanted) = (reader.position(), token.place.position);
    let (near, place) = match positions {
        Some(positions) => {
            let near = positions.find(wanted)?.map(|transaction| transaction.after);
            (near.filter(|near| *near >= head), positions.after(wanted))
        }
        None => (reader.seek_near(wanted)?, wanted),
    };
    if let Some(near) = near {
        if let Ok(()) = reader.skip_to(near)
            && let Ok(found) = go_on_to(reader, place)
            && found.is(token)
        {
            return Ok(());
        }
        // `near` may not be the start of a transaction. Reading from the log's start is certain.
        reader.go_back_to(head)?;
    }
    match go_on_to(reader, place)? {
        found if found.is(token) => Ok(()),
        found => Err(refused(reader, token, found)),
    }
}

/// Result of reading up to a position.
#[derive(Clone, Debug)]
enum Found {
    /// The log ends before the position, at this offset.
    Short(u64),
    /// The position is inside an event or a transaction.
    Within,
    /// End of the transaction with this GTID, empty if it has none; `None` after the log's head.
    Behind(Option<String>),
}

impl Found {
    fn is(&self, token: &Token) -> bool {
        match (self, &token.gtid) {
            (Self::Behind(_), None) => true,
            (Self::Behind(found), Some(_)) => *found == token.gtid,
            _ => false,
        }
    }
}

fn refused(reader: &LogReader, token: &Token, found: Found) -> Error {
    let wanted = token.gtid.as_deref().unwrap_or_default();
    let reason = match found {
        Found::Short(size) => format!("the log has only {size} bytes"),
        Found::Within => "no transaction ends there".to_owned(),
        Found::Behind(None) => format!("no transaction precedes it, expected {wanted}"),
        Found::Behind(Some(found)) => {
            format!("the transaction before it is {found}, expected {wanted}: this is another log")
        }
    };
    Error::Resume { log: reader.name().to_owned(), position: token.place.position, reason }
}

/// Reads up to a position. The reader must be between two transactions.
fn go_on_to(reader: &mut LogReader, place: u64) -> Result<Found, Error> {
    let (mut tracker, mut last, mut at) = (Tracker::new(), None, reader.position());
    while at < place {
        let ended;
        (at, ended) = match reader.next_piece(CHUNK_SIZE, LARGE_SIZE)? {
            Next::End(_) => return Ok(Found::Short(reader.position())),
            Next::Some(Piece::LargePayload(payload)) => (payload.end(), follow_large(&mut tracker, &payload)),
            Next::Some(Piece::Chunk(chunk)) => {
                let count = chunk.iter().take_while(|event| event.end() <= place).count();
                // The rest starts with an event that reaches beyond the position, if there is one.
                let rest = chunk.part(count..chunk.len());
                let is_within = rest.get(0).is_some_and(|event| event.offset < place);
                let ended = follow(&mut tracker, &chunk.part(0..count));
                let at = if is_within { rest.end() } else { rest.offset() };
                reader.give_back(rest);
                (at, ended)
            }
        };
        last = ended.or(last);
    }
    if at != place || tracker.open().is_some() {
        return Ok(Found::Within);
    }
    reader.skip_to(place)?;
    Ok(Found::Behind(last.map(|outline| match outline.id {
        TransactionId::Gtid(_) | TransactionId::Mariadb(_) => outline.id.to_string(),
        _ => String::new(),
    })))
}

/// Returns the last transaction that ends in the chunk.
fn follow(tracker: &mut Tracker, chunk: &Chunk) -> Option<Outline> {
    // The earlier run, which wrote the records before this position, has reported the errors here.
    let ended =
        |event: logs::LogEvent<'_>| tracker.track(event.offset, &event.raw, chunk.format()).ok()?.ended;
    chunk.iter().filter_map(ended).last()
}

fn follow_large(tracker: &mut Tracker, payload: &LargePayload<'_>) -> Option<Outline> {
    let format = payload.format();
    let bytes = stand_in(payload, format).ok()?;
    let raw = RawEvent::new(&bytes, format.checksum.for_events()).ok()?;
    tracker.track(payload.offset(), &raw, format).ok()?.ended
}
