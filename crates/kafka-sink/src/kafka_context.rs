//! Callbacks of librdkafka: its log, errors of the connection, and records that were not delivered.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

use crate::client_statistics::ClientStatistics;
use crate::kafka_connection::fetch_token;
use crate::kafka_notice::{KafkaNotice, KafkaNoticeReceiver};
use crate::kafka_state::SharedKafkaState;
use crate::token_client::TokenClient;

/// Callbacks of one client.
#[derive(Debug)]
pub(crate) struct KafkaContext {
    state: SharedKafkaState,
    notices: KafkaNoticeReceiver,
    /// Their number is bounded by that of the pending records.
    failures: Mutex<Vec<DeliveryFailure>>,
    /// Topic to which this account may not write; `None` until librdkafka's log names one.
    unauthorized_topic: Mutex<Option<String>>,
    /// True after an error of TLS or of a login.
    is_refused: AtomicBool,
    /// Source of tokens for logins; `None` for other logins.
    tokens: Option<Arc<TokenClient>>,
}

/// A record that was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryFailure {
    /// Number of the record among the pending ones.
    pub(crate) number: usize,
    pub(crate) code: RDKafkaErrorCode,
}

impl KafkaContext {
    pub(crate) fn new(
        state: SharedKafkaState,
        notices: KafkaNoticeReceiver,
        tokens: Option<Arc<TokenClient>>,
    ) -> Self {
        let (failures, unauthorized_topic) = (Mutex::default(), Mutex::default());
        Self { state, notices, failures, unauthorized_topic, is_refused: AtomicBool::new(false), tokens }
    }

    pub(crate) const fn state(&self) -> &SharedKafkaState {
        &self.state
    }

    /// Returns whether a broker, or this client, has refused a connection because of TLS or the login.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Takes the records that were not delivered since the last call.
    pub(crate) fn take_failures(&self) -> Vec<DeliveryFailure> {
        std::mem::take(&mut self.failures())
    }

    /// Returns whether a record was not delivered since the failures were taken.
    pub(crate) fn has_failures(&self) -> bool {
        !self.failures().is_empty()
    }

    /// Returns the number of a record that was not delivered because of this error.
    pub(crate) fn refused_record(&self, code: RDKafkaErrorCode) -> Option<usize> {
        self.failures().iter().find(|failure| failure.code == code).map(|failure| failure.number)
    }

    /// Returns the topic to which this account may not write, if librdkafka has named it.
    pub(crate) fn unauthorized_topic(&self) -> Option<String> {
        self.unauthorized_topic.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn failures(&self) -> MutexGuard<'_, Vec<DeliveryFailure>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for KafkaContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        fetch_token(self.tokens.as_deref())
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if let Some(topic) = unauthorized_topic_in(facility, message) {
            let mut found = self.unauthorized_topic.lock().unwrap_or_else(PoisonError::into_inner);
            found.get_or_insert_with(|| topic.to_owned());
        }
        self.notices.notify(log_notice(level, facility, message));
    }

    fn stats_raw(&self, statistics: &[u8]) {
        match serde_json::from_slice::<ClientStatistics>(statistics) {
            Ok(statistics) => self.state.set_brokers(statistics.broker_figures()),
            Err(error) => {
                self.notices.notify(KafkaNotice::StatisticsMalformed { error: error.to_string() });
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.notices.notify(error_notice(&error, reason));
        let code = error.rdkafka_error_code();
        // The brokers are connected, and the next request of the producer returns the error.
        if code.is_some_and(is_fenced) {
            return;
        }
        if matches!(code, Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SSL)) {
            self.is_refused.store(true, Ordering::Relaxed);
        }
        // It follows an error of a broker, which tells more.
        if code == Some(RDKafkaErrorCode::AllBrokersDown) && self.state.error().is_some() {
            return;
        }
        if self.state.set_error(reason) {
            self.notices.notify(KafkaNotice::ConnectionLost { reason: reason.to_owned() });
        }
    }
}

impl ProducerContext for KafkaContext {
    /// Number of the record among the pending ones.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let Err((error, _)) = result else { return };
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        self.failures().push(DeliveryFailure { number, code });
    }
}

/// Returns the topic that a message in librdkafka's log names as one to which this account may not write. The error of the
/// transaction does not name it.
fn unauthorized_topic_in<'m>(facility: &str, message: &'m str) -> Option<&'m str> {
    if facility != "ADDPARTS" || !message.ends_with("Topic authorization failed") {
        return None;
    }
    let (_, rest) = message.split_once("Failed to add partition \"")?;
    rest.split_once('"').map(|(topic, _)| topic)
}

/// Returns the notice of a message in librdkafka's log.
pub(crate) fn log_notice(level: RDKafkaLogLevel, facility: &str, message: &str) -> KafkaNotice {
    KafkaNotice::ClientMessage { message: format!("{level:?} {facility}: {message}") }
}

/// Returns the notice of an error of librdkafka.
pub(crate) fn error_notice(error: &KafkaError, reason: &str) -> KafkaNotice {
    KafkaNotice::ClientMessage { message: format!("{error}: {reason}") }
}

/// Returns the start of a key as text.
pub(crate) fn key_text(key: Option<&[u8]>) -> String {
    /// Characters shown.
    const SHOWN_MAX: usize = 100;
    match key {
        None => "none".to_owned(),
        Some(key) => String::from_utf8_lossy(key).chars().take(SHOWN_MAX).collect(),
    }
}

/// Returns the GTID in the source block of a record, for people.
pub(crate) fn transaction_text(value: Option<&[u8]>) -> String {
    gtid_of(value).unwrap_or_else(|| "without GTID".to_owned())
}

/// Returns the GTID in the source block of a record.
pub(crate) fn gtid_of(value: Option<&[u8]>) -> Option<String> {
    /// Label of the GTID. Within texts, quotes are escaped.
    const LABEL: &[u8] = b",\"gtid\":\"";
    let value = value.unwrap_or_default();
    // The source block comes after the row.
    let start = value.windows(LABEL.len()).rposition(|window| window == LABEL)?;
    let gtid = value[start + LABEL.len()..].split(|byte| *byte == b'"').next()?;
    Some(String::from_utf8_lossy(gtid).into_owned())
}

/// Returns whether another attempt to write a record that was refused with this error cannot succeed.
pub(crate) const fn is_permanent(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::InvalidMessageSize
            | RDKafkaErrorCode::InvalidRecord
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::PolicyViolation
    )
}

/// Returns whether another producer of the stream has taken over.
pub(crate) const fn is_fenced(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch
    )
}

#[cfg(test)]
mod tests {
    use super::{transaction_text, unauthorized_topic_in};

    #[test]
    fn topics_without_permission_are_in_the_log() {
        let check = |facility: &str, reason: &str, expected: Option<&str>| {
            let message = format!(
                "[thrd:main]: b1:9092/1: Failed to add partition \"p.d.t\" [0] to transaction: {reason}"
            );
            assert_eq!(unauthorized_topic_in(facility, &message), expected, "{facility}: {reason}");
        };
        check("ADDPARTS", "Broker: Topic authorization failed", Some("p.d.t"));
        check("ADDPARTS", "Broker: Operation not attempted", None);
        check("TXNERR", "Broker: Topic authorization failed", None);
    }

    #[test]
    fn transactions_are_named_by_their_gtid() {
        let check = |value: Option<&str>, expected| {
            assert_eq!(transaction_text(value.map(str::as_bytes)), expected);
        };
        let record =
            r#"{"after":{"id":1,"gtid":"x"},"source":{"server_id":1,"gtid":"a:7","file":"f"},"op":"c"}"#;
        check(Some(record), "a:7");
        check(
            Some(r#"{"after":{"text":",\"gtid\":\"x"},"source":{"server_id":1,"gtid":null}}"#),
            "without GTID",
        );
        check(None, "without GTID");
    }
}
