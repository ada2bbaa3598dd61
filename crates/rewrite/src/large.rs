//! Compresses transactions that are not held in memory: reads them again and writes their payloads piece by piece.

use binlog::{CompressError, EventType, Format, Header, PayloadWriter, RawEventBuf, events, put_inner};
use logs::ordered::Outlet;
use logs::{LogEvent, LogKind, LogReader, each_event_within};

use crate::error::{At, Error};
use crate::feed::LargeTransaction;
use crate::spool::Spool;
use crate::work::{PART_SIZE, Part, Shop, relay_position};

/// A payload that is compressed piece by piece.
pub(crate) struct PayloadFile {
    writer: PayloadWriter,
    spool: Spool,
}

impl PayloadFile {
    /// Starts a payload for `inner_size` bytes of events.
    pub(crate) fn begin(shop: &Shop<'_>, inner_size: u64) -> Result<Self, Error> {
        let mut writer = shop.writers.make()?;
        writer.set_threads(shop.sizes.large_threads)?;
        writer.begin(inner_size)?;
        Ok(Self { writer, spool: Spool::new_in(&shop.sizes.folder)? })
    }

    /// Adds events. Returns false if the payload becomes too large.
    pub(crate) fn push(&mut self, inner: &[u8]) -> Result<bool, Error> {
        match self.writer.push(inner) {
            Ok(()) => {}
            Err(CompressError::TooLarge { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.writer.drain(|bytes| self.spool.push(bytes))?;
        Ok(true)
    }

    pub(crate) fn end(mut self) -> Result<Spool, Error> {
        self.writer.finish()?;
        Ok(self.spool)
    }
}

/// A large transaction, compressed to a spool.
pub(crate) struct Spooled {
    pub(crate) gtid: RawEventBuf,
    /// Position of the payload at the source. Relay logs only.
    pub(crate) next: Option<u32>,
    pub(crate) format: Format,
    pub(crate) payload: Spool,
    pub(crate) inner_size: u64,
}

impl Spooled {
    /// Pushes the payload event, of `size` bytes, in pieces.
    pub(crate) fn hand_on(
        &mut self,
        fields: &[u8],
        size: u32,
        outlet: &Outlet<'_, Part>,
    ) -> Result<(), Error> {
        let gtid = self.gtid.as_raw();
        let origin = events::TransactionPayload::origin(&gtid);
        let header = Header {
            timestamp: origin.timestamp,
            event_type: EventType::TransactionPayload,
            server_id: origin.server_id,
            size,
            next_position: 0,
            flags: origin.flags,
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(fields);
        let cost = bytes.len();
        outlet.push(Part::Head { bytes, size, next: self.next, checksum: gtid.checksum() }, cost)?;
        loop {
            match self.payload.next(PART_SIZE)? {
                piece if piece.is_empty() => return Ok(outlet.push(Part::Tail, 0)?),
                piece => {
                    let cost = piece.len();
                    outlet.push(Part::Body(piece), cost)?;
                }
            }
        }
    }
}

/// Compresses a large transaction to a spool. Returns `None` if its payload becomes too large.
pub(crate) fn spool(
    shop: &Shop<'_>,
    large: &LargeTransaction,
    kind: LogKind,
    inner: &mut Vec<u8>,
) -> Result<Option<Spooled>, Error> {
    let mut file = PayloadFile::begin(shop, large.inner_size)?;
    let (mut first, mut next, mut fits) = (None, None, true);
    inner.clear();
    each_event(shop, large, |event, format| {
        if first.is_none() {
            first = Some((event.raw.to_buf(), format.clone()));
            return Ok(());
        }
        next = relay_position(kind, &event.raw);
        put_inner(&event.raw, inner);
        if fits && (inner.len() >= PART_SIZE || event.end() == large.end) {
            fits = file.push(inner)?;
            inner.clear();
        }
        Ok(())
    })?;
    let Some((gtid, format)) = first.filter(|_| fits) else { return Ok(None) };
    let (payload, inner_size) = (file.end()?, large.inner_size);
    Ok(Some(Spooled { gtid, next, format, payload, inner_size }))
}

/// Reads the transaction again, verifies its events and passes them to `take`.
pub(crate) fn each_event(
    shop: &Shop<'_>,
    large: &LargeTransaction,
    mut take: impl FnMut(LogEvent<'_>, &Format) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = open_at(shop, large)?;
    let range = large.start..large.end;
    let is_whole = each_event_within(&mut reader, range, shop.sizes.unit, &mut |event, format| {
        let at = At { name: shop.name, offset: event.offset };
        event.raw.verify().map_err(|error| at.decode(error))?;
        take(event, format)
    })?;
    match is_whole {
        true => Ok(()),
        false => Err(Error::Changed { name: shop.name.to_owned() }),
    }
}

/// Opens the log again and moves to the start of the transaction.
fn open_at(shop: &Shop<'_>, large: &LargeTransaction) -> Result<LogReader, Error> {
    let mut reader = (shop.open)()?;
    reader.next_event()?;
    // A relay log also contains the format description of its source. The reader has to read it.
    if large.format_at > reader.position() {
        reader.skip_to(large.format_at)?;
        reader.next_event()?;
    }
    if large.start > reader.position() {
        reader.skip_to(large.start)?;
    }
    Ok(reader)
}
