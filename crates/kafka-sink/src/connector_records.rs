//! Records that a Debezium connector wrote after its saved offset. A stream that continues at the offset does not write them
//! again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use serde::{Deserialize, Serialize};
use stream::{BrokerProgress, ResumePosition};

use crate::debezium_offset::DebeziumOffset;
use crate::record_identity::{IdentifiedRecord, IdentityReader, ReadRecord, RecordIdentity, RecordPlace};
use crate::topic_reader::{PartitionRange, TopicReader, parts};

/// Number of records of a partition that are read first, from its end.
const FIRST_WINDOW: i64 = 16;
/// Factor to the next window.
const WINDOW_FACTOR: i64 = 16;

/// Ranges of partitions, by topic, with all records that a connector wrote after its offset. They also have some before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectorRanges(BTreeMap<String, Vec<PartitionRange>>);

/// Records that a connector wrote after its offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectorRecords {
    /// Their number.
    pub count: u64,
    /// Topics with records that do not state their positions, such as those in Avro. A stream may write some again.
    pub unknown_topics: Vec<String>,
    pub(crate) ranges: ConnectorRanges,
}

impl ConnectorRecords {
    /// Finds the records after an offset in the topics of a stream.
    pub(crate) fn find(
        reader: &TopicReader,
        stream: &str,
        topics: &[String],
        offset: &DebeziumOffset,
    ) -> Result<Self, KafkaError> {
        let mut found = Self::default();
        for topic in topics {
            let mut ranges = Vec::new();
            for partition in reader.partitions(topic)? {
                let whole = reader.range(topic, partition)?;
                let PartitionEnd { range, count, is_unknown } =
                    find_end(reader, [stream, topic], whole, offset)?;
                found.count += count;
                if count > 0 {
                    ranges.push(range);
                }
                if is_unknown && found.unknown_topics.last() != Some(topic) {
                    found.unknown_topics.push(topic.clone());
                }
            }
            if !ranges.is_empty() {
                found.ranges.0.insert(topic.clone(), ranges);
            }
        }
        Ok(found)
    }
}

/// Records of a partition after an offset.
struct PartitionEnd {
    range: PartitionRange,
    count: u64,
    /// True if there are records, but none states its position.
    is_unknown: bool,
}

/// Reads a partition from its end on, in ever larger windows, until there is a record before the offset.
fn find_end(
    reader: &TopicReader,
    [stream, topic]: [&str; 2],
    whole: PartitionRange,
    offset: &DebeziumOffset,
) -> Result<PartitionEnd, KafkaError> {
    let mut size = FIRST_WINDOW;
    loop {
        let start = whole.end.saturating_sub(size).max(whole.start);
        let range = PartitionRange { start, ..whole };
        let (mut earlier, mut count, mut unknown) = (0, 0, 0);
        let mut identities = IdentityReader::new(stream);
        reader.read(topic, &[range], |record| {
            let (key, value) = parts(record);
            match identities.read(topic, key, value) {
                ReadRecord::Logged(record) if offset.is_before(&record.place) => count += 1,
                ReadRecord::Logged(_) | ReadRecord::Other => earlier += 1,
                ReadRecord::Unknown => unknown += 1,
            }
        })?;
        if earlier > 0 || start == whole.start {
            let is_unknown = unknown > 0 && earlier == 0 && count == 0;
            return Ok(PartitionEnd { range, count, is_unknown });
        }
        size = size.saturating_mul(WINDOW_FACTOR);
    }
}

/// Filter of records that a connector has written.
#[derive(Debug)]
pub(crate) struct RepeatFilter {
    identities: IdentityReader,
    /// Records of the connector that did not come again, and their number.
    expected: HashMap<RecordIdentity, u32>,
    /// Records that came again after the last mark.
    unmarked: Vec<RecordIdentity>,
    ends: ConnectorEnds,
}

/// Places that a stream has passed once it gets no more records of the connector again.
#[derive(Debug, Default, PartialEq, Eq)]
struct ConnectorEnds {
    /// GTIDs of all transactions.
    gtids: BTreeSet<String>,
    /// Last position of records without a GTID.
    position: Option<ResumePosition>,
}

impl RepeatFilter {
    fn new(stream: &str) -> Self {
        Self {
            identities: IdentityReader::new(stream),
            expected: HashMap::new(),
            unmarked: Vec::new(),
            ends: ConnectorEnds::default(),
        }
    }

    /// Reads the records of a connector. Returns no filter if there are none.
    pub(crate) fn read(
        reader: &TopicReader,
        stream: &str,
        ranges: &ConnectorRanges,
    ) -> Result<Option<Self>, KafkaError> {
        let mut filter = Self::new(stream);
        for (topic, ranges) in &ranges.0 {
            let mut identities: BTreeMap<i32, IdentityReader> = BTreeMap::new();
            reader.read(topic, ranges, |record| {
                let (key, value) = parts(record);
                let identities = identities.entry(record.partition());
                let identities = identities.or_insert_with(|| IdentityReader::new(stream));
                if let ReadRecord::Logged(record) = identities.read(topic, key, value) {
                    filter.expect(record);
                }
            })?;
        }
        Ok(Some(filter).filter(|filter| !filter.expected.is_empty()))
    }

    fn expect(&mut self, record: IdentifiedRecord) {
        *self.expected.entry(record.identity).or_default() += 1;
        self.ends.add(record.place);
    }

    /// Returns whether the connector has written this record.
    pub(crate) fn is_repeated(&mut self, topic: &str, key: Option<&[u8]>, value: Option<&[u8]>) -> bool {
        let ReadRecord::Logged(IdentifiedRecord { identity, .. }) = self.identities.read(topic, key, value)
        else {
            return false;
        };
        match self.expected.get_mut(&identity) {
            Some(count) if *count > 0 => {
                *count -= 1;
                self.unmarked.push(identity);
                true
            }
            _ => false,
        }
    }

    /// Marks the present record: [`RepeatFilter::rewind`] returns to it.
    pub(crate) fn mark(&mut self) {
        self.unmarked.clear();
    }

    /// Expects the records after the last mark again.
    pub(crate) fn rewind(&mut self) {
        for identity in self.unmarked.drain(..) {
            *self.expected.entry(identity).or_default() += 1;
        }
    }

    /// Returns whether a stream with this progress has passed all records of the connector.
    pub(crate) fn is_passed(&mut self, progress: &BrokerProgress) -> bool {
        self.ends.remove_passed(progress);
        self.ends == ConnectorEnds::default()
    }
}

impl ConnectorEnds {
    fn add(&mut self, place: RecordPlace) {
        match place {
            RecordPlace::Gtid(gtid) => {
                self.gtids.insert(gtid);
            }
            RecordPlace::Position { log, position } => {
                let place = ResumePosition { log, position };
                if self.position.as_ref().is_none_or(|last| last.is_before(&place)) {
                    self.position = Some(place);
                }
            }
        }
    }

    /// Removes the places before the end of the last complete transaction.
    fn remove_passed(&mut self, progress: &BrokerProgress) {
        if let Some(gtids) = progress.gtid_state.as_ref().and_then(|state| state.gtids.as_ref()) {
            self.gtids.retain(|gtid| !gtids.contains(gtid));
        }
        if let (Some(last), Some(token)) = (&self.position, &progress.token)
            && last.is_before(&token.at)
        {
            self.position = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use stream::{BrokerProgress, StreamGtidState, StreamGtids};

    use super::RepeatFilter;
    use crate::record_identity::{IdentityReader, ReadRecord};

    /// Returns a record of a row: operation, row of its event, and position or GTID.
    fn row(op: &str, row: u64, place: &str) -> String {
        let (position, gtid) = match place.parse::<u64>() {
            Ok(position) => (position, "null".to_owned()),
            Err(_) => (4, format!("\"{place}\"")),
        };
        format!(r#"{{"source":{{"file":"b.1","pos":{position},"row":{row},"gtid":{gtid}}},"op":"{op}"}}"#)
    }

    /// Returns a filter of these records, as a connector has written them to a partition. A record without a value is a
    /// tombstone.
    fn filter(records: &[(&str, Option<&str>)]) -> RepeatFilter {
        let (mut filter, mut identities) = (RepeatFilter::new("shop"), IdentityReader::new("shop"));
        for (key, value) in records {
            match identities.read("t", Some(key.as_bytes()), value.map(str::as_bytes)) {
                ReadRecord::Logged(record) => filter.expect(record),
                other => panic!("{key}: {other:?}"),
            }
        }
        filter
    }

    fn repeated(filter: &mut RepeatFilter, key: &str, value: Option<&str>) -> bool {
        filter.is_repeated("t", Some(key.as_bytes()), value.map(str::as_bytes))
    }

    #[test]
    fn each_record_of_the_connector_is_left_out_once() {
        let [insert, delete, other] = [row("c", 0, "4"), row("d", 1, "4"), row("c", 0, "90")];
        let mut filter = filter(&[("1", Some(&insert)), ("2", Some(&delete)), ("2", None)]);
        assert!(repeated(&mut filter, "1", Some(&insert)));
        assert!(!repeated(&mut filter, "1", Some(&insert)), "two events of a compressed transaction");
        assert!(!repeated(&mut filter, "2", Some(&insert)), "another key");
        assert!(repeated(&mut filter, "2", Some(&delete)) && repeated(&mut filter, "2", None));
        assert!(!repeated(&mut filter, "1", Some(&other)) && !repeated(&mut filter, "1", None));
    }

    #[test]
    fn records_after_the_mark_are_left_out_again_after_a_rewind() {
        let [first, second] = [row("c", 0, "4"), row("c", 1, "4")];
        let mut filter = filter(&[("1", Some(&first)), ("2", Some(&second))]);
        assert!(repeated(&mut filter, "1", Some(&first)));
        filter.mark();
        assert!(repeated(&mut filter, "2", Some(&second)));
        filter.rewind();
        assert!(!repeated(&mut filter, "1", Some(&first)), "before the mark");
        assert!(repeated(&mut filter, "2", Some(&second)));
    }

    #[test]
    fn the_filter_ends_after_the_last_record_of_the_connector() {
        const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let check = |places: &[&str], token: &str, gtids: &str, expected: bool| {
            let records: Vec<String> =
                places.iter().map(|place| row("c", 0, &place.replace('A', A))).collect();
            let records: Vec<_> = records.iter().map(|record| ("1", Some(record.as_str()))).collect();
            let gtids = StreamGtids::parse(&gtids.replace('A', A));
            let progress = BrokerProgress {
                token: Some(token.parse().unwrap()),
                gtid_state: Some(StreamGtidState { server: "s".to_owned(), gtids }),
                ..BrokerProgress::default()
            };
            assert_eq!(filter(&records).is_passed(&progress), expected, "{places:?} {token} {progress}");
        };
        check(&["4", "90"], "b.1:90", "", false);
        check(&["4", "90"], "b.1:91", "", true);
        check(&["4", "90"], "b.2:4", "", true);
        check(&["A:6", "A:8"], "b.1:900", "A:1-7", false);
        check(&["A:6", "A:8"], "b.1:4", "A:1-8", true);
        check(&["A:6", "90"], "b.1:90", "A:1-6", false);
    }
}
