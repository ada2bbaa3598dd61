//! Goes to where a run is to be resumed.

use binlog::{Outline, RawEvent, Tracker, TransactionId};
use logs::{Chunk, LargePayload, LogReader, Next, Piece, Positions};

use crate::error::Error;
use crate::read::{CHUNK_SIZE, LARGE_SIZE, stand_in};
use crate::token::Token;

/// Goes to where a run is to be resumed, in a log that has not been read yet: one of a source, or one that was made of
/// it, with the list of where its transactions stood.
///
/// A little in front of the place is read, to see that the right transaction ends there. Where that cannot be found so,
/// as in standard input, the log is read from its start.
///
/// # Errors
///
/// When the log cannot be read so far, or no transaction ends there, or another one than was said.
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
        // It may have been no transaction's start: only what is read from the log's start is sure.
        reader.go_back_to(head)?;
    }
    match go_on_to(reader, place)? {
        found if found.is(token) => Ok(()),
        found => Err(refused(reader, token, found)),
    }
}

/// What is at a place.
#[derive(Clone, Debug)]
enum Found {
    /// The log ends before, there.
    Short(u64),
    /// An event or a transaction that goes on.
    Within,
    /// The end of the transaction with this GTID, which is empty if it has none; or the log's head.
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
        Found::Short(size) => format!("the log has {size} bytes"),
        Found::Within => "no transaction ends there".to_owned(),
        Found::Behind(None) => format!("no transaction is in front of that, and {wanted} should"),
        Found::Behind(Some(found)) => {
            format!("the transaction in front of that is {found}, not {wanted}: it is another log")
        }
    };
    Error::Resume { log: reader.name().to_owned(), position: token.place.position, reason }
}

/// Reads up to a place, from between two transactions.
fn go_on_to(reader: &mut LogReader, place: u64) -> Result<Found, Error> {
    let (mut tracker, mut last, mut at) = (Tracker::new(), None, reader.position());
    while at < place {
        let ended;
        (at, ended) = match reader.next_piece(CHUNK_SIZE, LARGE_SIZE)? {
            Next::End(_) => return Ok(Found::Short(reader.position())),
            Next::Some(Piece::LargePayload(payload)) => (payload.end(), follow_large(&mut tracker, &payload)),
            Next::Some(Piece::Chunk(chunk)) => {
                let count = chunk.iter().take_while(|event| event.end() <= place).count();
                // An event that goes on behind the place has been looked at, too.
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

/// The last transaction that ends in the chunk.
fn follow(tracker: &mut Tracker, chunk: &Chunk) -> Option<Outline> {
    // What is wrong here was said when the records in front of this place were made.
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
