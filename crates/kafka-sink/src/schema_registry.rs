//! Client of a schema registry with Confluent's interface.

use std::thread;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::KafkaSinkError;
use crate::http_client::{HttpClient, ServiceResponse, TrustedAuthorities};
use crate::kafka_notice::{KafkaNotice, KafkaNoticeReceiver};
use crate::kafka_state::SharedKafkaState;
use crate::registry_settings::{AUTHORITY_PROPERTY, RegistryLogin, RegistrySettings};

/// Time after which a registry that is away ends the stream.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before the second attempt; it doubles with each attempt.
const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// Longest pause between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Interval at which pauses poll for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Type of requests and answers.
const CONTENT: &str = "application/vnd.schemaregistry.v1+json";

/// Language of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaLanguage {
    Avro,
    JsonSchema,
}

/// Schema to register under a subject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubjectSchema<'s> {
    pub(crate) subject: &'s str,
    pub(crate) language: SchemaLanguage,
    pub(crate) schema: &'s Value,
}

/// Client of a schema registry.
#[derive(Debug)]
pub(crate) struct SchemaRegistry {
    settings: RegistrySettings,
    client: HttpClient,
    state: SharedKafkaState,
    notices: KafkaNoticeReceiver,
    is_stop_requested: fn() -> bool,
}

/// Answer to a registration.
#[derive(Debug, Deserialize)]
struct RegisteredId {
    id: u32,
}

/// Description of an error.
#[derive(Debug, Default, Deserialize)]
struct RegistryErrorBody {
    #[serde(default)]
    message: String,
}

/// Failure of an attempt.
#[derive(Debug)]
enum AttemptFailure {
    /// Another attempt can succeed.
    Transient(String),
    /// The schema is not compatible with those before it.
    Incompatible(String),
    /// The registry refuses the request.
    Refused(String),
}

impl SchemaRegistry {
    pub(crate) fn new(
        settings: RegistrySettings,
        state: SharedKafkaState,
        notices: KafkaNoticeReceiver,
        is_stop_requested: fn() -> bool,
    ) -> Result<Self, KafkaSinkError> {
        let failed = |reason: String| KafkaSinkError::Other {
            what: "creating a client of the schema registry",
            reason,
        };
        let property = AUTHORITY_PROPERTY;
        let authorities = settings.authority.as_ref().map(|pem| TrustedAuthorities { property, pem });
        let client = HttpClient::new(&settings.url, authorities).map_err(failed)?;
        Ok(Self { settings, client, state, notices, is_stop_requested })
    }

    /// Registers a schema, unless it is registered already. Returns its number. Tries again while the registry is away.
    pub(crate) fn register(&self, subject_schema: SubjectSchema<'_>) -> Result<u32, KafkaSinkError> {
        let (begun, mut backoff) = (Instant::now(), BACKOFF_MIN);
        loop {
            let failure = match self.try_register(subject_schema) {
                Ok(id) => {
                    if let Some(error) = self.state.count_schema() {
                        self.notices.notify(KafkaNotice::RegistryResumed { error });
                    }
                    return Ok(id);
                }
                Err(failure) => failure,
            };
            let subject = subject_schema.subject.to_owned();
            let reason = match failure {
                AttemptFailure::Transient(reason) => reason,
                AttemptFailure::Incompatible(reason) => {
                    return Err(KafkaSinkError::IncompatibleSchema { subject, reason });
                }
                AttemptFailure::Refused(reason) => {
                    return Err(KafkaSinkError::RefusedSchema { subject, reason });
                }
            };
            if self.state.set_registry_error(&reason) {
                self.notices.notify(KafkaNotice::RegistryAway { reason: reason.clone() });
            }
            if begun.elapsed() + backoff > RETRY_TIMEOUT || self.is_stopped_within(backoff) {
                let (url, seconds) = (self.settings.url.to_string(), begun.elapsed().as_secs());
                return Err(KafkaSinkError::RegistryAway { url, seconds, reason });
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// Waits. Returns whether a stop was requested.
    fn is_stopped_within(&self, time: Duration) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < time {
            if (self.is_stop_requested)() {
                return true;
            }
            thread::sleep(POLL_INTERVAL.min(time));
        }
        false
    }

    fn try_register(&self, subject_schema: SubjectSchema<'_>) -> Result<u32, AttemptFailure> {
        let mut url = self.settings.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["subjects", subject_schema.subject, "versions"]);
        }
        let schema = subject_schema.schema.to_string();
        let body = match subject_schema.language {
            SchemaLanguage::Avro => json!({ "schema": schema }),
            SchemaLanguage::JsonSchema => json!({ "schema": schema, "schemaType": "JSON" }),
        };
        let mut request = self.client.post(url).header(CONTENT_TYPE, CONTENT).header(ACCEPT, CONTENT);
        if let Some(RegistryLogin { user, password }) = &self.settings.login {
            request = request.basic_auth(user, Some(password));
        }
        let answer = self.client.send(request.body(body.to_string()));
        let ServiceResponse { status, body } = answer.map_err(AttemptFailure::Transient)?;
        if status.is_success() {
            let answer: Result<RegisteredId, _> = serde_json::from_slice(&body);
            return answer
                .map(|answer| answer.id)
                .map_err(|error| AttemptFailure::Refused(format!("unexpected answer: {error}")));
        }
        let refusal: RegistryErrorBody = serde_json::from_slice(&body).unwrap_or_default();
        let reason = match refusal.message.as_str() {
            "" => format!("HTTP status {status}"),
            message => format!("{message} (HTTP status {})", status.as_u16()),
        };
        Err(match status {
            StatusCode::CONFLICT => AttemptFailure::Incompatible(reason),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => AttemptFailure::Transient(reason),
            status if status.is_server_error() => AttemptFailure::Transient(reason),
            _ => AttemptFailure::Refused(reason),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::{ServerConfig, ServerConnection, Stream};
    use serde_json::json;

    use super::{SchemaLanguage, SchemaRegistry, SubjectSchema};
    use crate::error::KafkaSinkError;
    use crate::kafka_notice::KafkaNoticeReceiver;
    use crate::kafka_state::SharedKafkaState;
    use crate::registry_settings::RegistrySettings;

    /// A registry behind TLS that gives one answer to each request.
    struct TlsRegistry {
        port: u16,
        certificate: String,
    }

    impl TlsRegistry {
        fn start(answer: &str) -> Self {
            let CertifiedKey { cert, signing_key } =
                generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let config =
                config.unwrap().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key);
            let (config, answer) = (Arc::new(config.unwrap()), answer.to_owned());
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            thread::spawn(move || {
                for socket in listener.incoming() {
                    let mut socket = socket.unwrap();
                    let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                    let mut stream = Stream::new(&mut connection, &mut socket);
                    // A client that does not trust the certificate ends the connection.
                    let mut buffer = [0; 4096];
                    if stream.read(&mut buffer).is_ok_and(|size| size > 0) {
                        let _ = stream.write_all(answer.as_bytes());
                        connection.send_close_notify();
                        let _ = connection.complete_io(&mut socket);
                    }
                }
            });
            Self { port, certificate: cert.pem() }
        }

        /// Registers a schema at this address. The client trusts `authority`.
        fn register(&self, scheme: &str, authority: Option<&str>) -> Result<u32, String> {
            let mut settings =
                RegistrySettings::new(&format!("{scheme}://localhost:{}/", self.port)).unwrap();
            if let Some(pem) = authority {
                settings = settings.with_authority(pem.as_bytes().to_vec());
            }
            let registry = connect(settings).unwrap();
            let schema = json!("string");
            let expected =
                SubjectSchema { subject: "t-value", language: SchemaLanguage::Avro, schema: &schema };
            registry.register(expected).map_err(|error| error.to_string())
        }
    }

    /// Creates a client that makes one attempt.
    fn connect(settings: RegistrySettings) -> Result<SchemaRegistry, KafkaSinkError> {
        let notices = KafkaNoticeReceiver::of_test();
        SchemaRegistry::new(settings, SharedKafkaState::default(), notices, || true)
    }

    fn answer(status: &str, header: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\n{header}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    #[test]
    fn certificates_must_be_trusted() {
        let registry = TlsRegistry::start(&answer("200 OK", "", "{\"id\":7}"));
        let other = TlsRegistry::start("");
        assert_eq!(registry.register("https", Some(&registry.certificate)), Ok(7));
        for (scheme, authority) in [("https", None), ("https", Some(&*other.certificate)), ("http", None)] {
            let error = registry.register(scheme, authority).unwrap_err();
            assert!(error.contains("is not available"), "{scheme}: {error}");
        }
    }

    #[test]
    fn redirects_never_leave_tls() {
        let plain = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = plain.local_addr().unwrap();
        plain.set_nonblocking(true).unwrap();
        let registry =
            TlsRegistry::start(&answer("307 Moved", &format!("location: http://{address}/\r\n"), ""));
        registry.register("https", Some(&registry.certificate)).unwrap_err();
        assert!(plain.accept().is_err(), "the request was sent without TLS");
    }

    #[test]
    fn files_without_certificates_are_refused() {
        let settings = RegistrySettings::new("https://localhost/").unwrap();
        let error = connect(settings.with_authority(b"x".to_vec())).unwrap_err().to_string();
        assert_eq!(
            error,
            "creating a client of the schema registry failed: the file of ssl.ca.location has no certificates"
        );
    }

    #[test]
    fn other_answers_are_errors() {
        let check = |status: &str, body: &str, expected: &str| {
            let registry = TlsRegistry::start(&answer(status, "", body));
            let error = registry.register("https", Some(&registry.certificate)).unwrap_err();
            assert_eq!(error.replace(&registry.port.to_string(), "PORT"), expected);
        };
        check(
            "200 OK",
            "{}",
            "the schema registry refuses to register a schema of the subject t-value: unexpected answer: missing field \
             `id` at line 1 column 2",
        );
        check(
            "422 Unprocessable",
            r#"{"message":"Invalid schema"}"#,
            "the schema registry refuses to register a schema of the subject t-value: Invalid schema (HTTP status 422)",
        );
        check(
            "503 Away",
            "",
            "the schema registry https://localhost:PORT/ is not available: HTTP status 503 Service Unavailable (tried \
             for 0 s). The next run writes the unconfirmed records",
        );
    }
}
