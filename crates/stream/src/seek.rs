//! Seeking to the position at which a run resumes.

use binlog::{MAGIC, TransactionId, TransactionOutline, TransactionTracker};
use logs::{EventChunk, LargePayload, LogPiece, LogReader, ReadOutcome, RewritePositions};

use crate::error::StreamError;
use crate::resume_token::ResumeToken;
use crate::stream_log::{CHUNK_SIZE, LARGE_PAYLOAD_SIZE};

/// Seeks to the position at which a run resumes. The reader must be at the log's start. A rewritten log needs the list
/// of its transactions' positions in the source's log.
///
/// To check that the right transaction ends there, it reads a little before the position. If that fails, as on standard
/// input, it reads the log from its start. At the start of a log, there is nothing to check.
///
/// # Errors
///
/// Fails if the log cannot be read up to the position, or no transaction or another one ends there.
pub fn seek(
    reader: &mut LogReader,
    token: &ResumeToken,
    positions: Option<&mut RewritePositions>,
) -> Result<(), StreamError> {
    if token.at.position == MAGIC.len() as u64 && token.gtid.is_none() {
        return Ok(());
    }
    if let ReadOutcome::End(_) = reader.next_event()? {
        return Err(resume_error(reader, token, SeekOutcome::EndsBefore(reader.position())));
    }
    let (head, original) = (reader.position(), token.at.position);
    let (near, position) = match positions {
        Some(positions) => {
            let near = positions.seek_original(original)?.map(|transaction| transaction.rewritten);
            (near.filter(|near| *near >= head), positions.to_rewritten(original))
        }
        None => (reader.seek_near(original)?, original),
    };
    if let Some(near) = near {
        if let Ok(()) = reader.skip_to(near)
            && let Ok(found) = read_to(reader, position)
            && found.matches(token)
        {
            return Ok(());
        }
        // `near` may not be the start of a transaction. Reading from the log's start is certain.
        reader.go_back_to(head)?;
    }
    match read_to(reader, position)? {
        found if found.matches(token) => Ok(()),
        found => Err(resume_error(reader, token, found)),
    }
}

/// Result of reading up to a position.
#[derive(Clone, Debug)]
enum SeekOutcome {
    /// The log ends before the position, at this offset.
    EndsBefore(u64),
    /// The position is inside an event or a transaction.
    InsideTransaction,
    /// End of the transaction with this GTID, empty if it has none; `None` after the log's head.
    AfterTransaction(Option<String>),
}

impl SeekOutcome {
    fn matches(&self, token: &ResumeToken) -> bool {
        match (self, &token.gtid) {
            (Self::AfterTransaction(_), None) => true,
            (Self::AfterTransaction(found), Some(_)) => *found == token.gtid,
            _ => false,
        }
    }
}

fn resume_error(reader: &LogReader, token: &ResumeToken, found: SeekOutcome) -> StreamError {
    let expected = token.gtid.as_deref().unwrap_or_default();
    let reason = match found {
        SeekOutcome::EndsBefore(size) => format!("the log has only {size} bytes"),
        SeekOutcome::InsideTransaction => {
            "no transaction ends there: this is a different log, or the position is wrong".to_owned()
        }
        SeekOutcome::AfterTransaction(None) => format!("no transaction precedes it, expected {expected}"),
        SeekOutcome::AfterTransaction(Some(found)) => {
            format!("the transaction before it is {found}, expected {expected}: this is a different log")
        }
    };
    StreamError::Resume { log: reader.name().to_owned(), position: token.at.position, reason }
}

/// Reads up to a position. The reader must be between two transactions.
fn read_to(reader: &mut LogReader, position: u64) -> Result<SeekOutcome, StreamError> {
    let (mut tracker, mut last, mut at) = (TransactionTracker::new(), None, reader.position());
    while at < position {
        let ended;
        (at, ended) = match reader.next_piece(CHUNK_SIZE, LARGE_PAYLOAD_SIZE)? {
            ReadOutcome::End(_) => return Ok(SeekOutcome::EndsBefore(reader.position())),
            ReadOutcome::Some(LogPiece::LargePayload(payload)) => {
                (payload.head().end(), last_ended_large(&mut tracker, &payload))
            }
            ReadOutcome::Some(LogPiece::Chunk(chunk)) => {
                let count = chunk.iter().take_while(|event| event.end() <= position).count();
                // The rest starts with an event that reaches beyond the position, if there is one.
                let rest = chunk.part(count..chunk.len());
                let is_within = rest.get(0).is_some_and(|event| event.offset < position);
                let ended = last_ended(&mut tracker, &chunk.part(0..count));
                let at = if is_within { rest.end() } else { rest.offset() };
                reader.put_back(rest);
                (at, ended)
            }
        };
        last = ended.or(last);
    }
    if at != position || tracker.open().is_some() {
        return Ok(SeekOutcome::InsideTransaction);
    }
    reader.skip_to(position)?;
    Ok(SeekOutcome::AfterTransaction(last.map(|outline| match outline.id {
        TransactionId::Gtid(_) | TransactionId::Mariadb(_) => outline.id.to_string(),
        _ => String::new(),
    })))
}

/// Returns the last transaction that ends in the chunk.
fn last_ended(tracker: &mut TransactionTracker, chunk: &EventChunk) -> Option<TransactionOutline> {
    // The earlier run, which wrote the records before this position, has reported the errors here.
    let ended =
        |event: logs::LogEvent<'_>| tracker.track(event.offset, &event.raw, chunk.format()).ok()?.ended;
    chunk.iter().filter_map(ended).last()
}

fn last_ended_large(
    tracker: &mut TransactionTracker,
    payload: &LargePayload<'_>,
) -> Option<TransactionOutline> {
    let head = payload.head();
    tracker.track(head.offset, &head.stand_in().ok()?.as_raw(), &head.format).ok()?.ended
}
