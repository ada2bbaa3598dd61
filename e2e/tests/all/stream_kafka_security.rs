//! `bintide stream --to kafka://…` to brokers that need a login or TLS.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use e2e::kafka::{allow_only, read_matching_topics, stream_to_address};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use testkit::{KafkaBroker, KafkaTopics, SecuredListeners};

/// Logins of the account `bintide` with the password `right`.
const LOGIN_PROPERTIES: [&str; 4] = [
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_bintide=\"right\";",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";",
];

/// Time limit of a run that the brokers refuse.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Permissions of accounts. An account may do everything with a topic without permissions.
const PERMISSION_PROPERTIES: [&str; 3] = [
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
    "super.users=User:ANONYMOUS",
];

/// A broker with one secured listener, and a log whose records go there.
struct Stage {
    broker: KafkaBroker,
    directory: TempDir,
}

/// Result of a run of `bintide stream`.
#[derive(Debug)]
struct StreamRun {
    is_success: bool,
    printed: String,
}

impl Stage {
    fn with_logins() -> Result<Self> {
        Self::with_properties(&LOGIN_PROPERTIES)
    }

    /// Starts a broker with logins that checks permissions. The listener without logins may do everything.
    fn with_permissions() -> Result<Self> {
        Self::with_properties(&[&LOGIN_PROPERTIES[..], &PERMISSION_PROPERTIES[..]].concat())
    }

    fn with_properties(properties: &[&str]) -> Result<Self> {
        let protocols = &["SASL_PLAINTEXT"];
        let scram_users = &["SCRAM-SHA-512=[name=bintide,password=right]"];
        let broker = KafkaBroker::start_secured(SecuredListeners { protocols, properties, scram_users })?;
        Ok(Self { broker, directory: TempDir::new()? })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Streams a log to the secured listener, with these properties.
    fn stream(&self, name: &str, properties: &[&str]) -> Result<StreamRun> {
        let file = self.path("properties");
        fs::write(&file, properties.join("\n"))?;
        let mut command = stream_to_address(&self.broker.secured_address(0), &["--name", name])?;
        command.args(["--columns", "numbered", "--kafka-file"]).arg(file).arg(sample());
        let ran = command.output()?;
        let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
        Ok(StreamRun { is_success: ran.status.success(), printed })
    }

    /// Checks that a run succeeds, and that its records are in the topics, once.
    fn check_records(&self, name: &str, properties: &[&str]) -> Result<()> {
        // The second run reads the progress back.
        for run in 1..=2 {
            let ended = self.stream(name, properties)?;
            ensure!(ended.is_success, "{name}, run {run}: {}", ended.printed);
        }
        let topic = format!("{name}.fk.parent");
        let records = read_matching_topics(&self.broker, |found| found == topic)?;
        let values = records.iter().filter(|record| record.value.is_some()).count();
        ensure!(values == 9, "{name}: {values} records");
        Ok(())
    }

    /// Checks that a run ends with an error that contains each of these texts.
    fn check_refusal(&self, properties: &[&str], expected: &[&str]) -> Result<()> {
        let StreamRun { is_success, printed } = self.stream("refused", properties)?;
        ensure!(
            !is_success && expected.iter().all(|expected| printed.contains(expected)),
            "{expected:?}: {printed}"
        );
        Ok(())
    }
}

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples/foreign-keys.binlog")
}

/// A right password is accepted, also with an account of SCRAM. A wrong one is named soon.
#[test]
fn passwords_are_checked() -> Result<()> {
    let stage = Stage::with_logins()?;
    let login = |mechanism: &'static str, password: &'static str| {
        ["security.protocol=sasl_plaintext", mechanism, "sasl.username=bintide", password]
    };
    let (right, wrong) = ("sasl.password=right", "sasl.password=wrong");
    stage.check_records("plain", &login("sasl.mechanism=PLAIN", right))?;
    stage.check_refusal(&login("sasl.mechanism=PLAIN", wrong), &["Authentication failed"])?;
    let scram = "sasl.mechanism=SCRAM-SHA-512";
    stage.check_records("scram", &login(scram, right))?;
    stage.check_refusal(&login(scram, wrong), &["Authentication failed"])
}

/// Topics that the account may not write or read are named, and a run with the permission writes all records.
#[test]
fn missing_permissions_are_named() -> Result<()> {
    let stage = Stage::with_permissions()?;
    let login = [
        "security.protocol=sasl_plaintext",
        "sasl.mechanism=PLAIN",
        "sasl.username=bintide",
        "sasl.password=right",
    ];
    let allow = |topic: &str, operations: &[&str]| allow_only(&stage.broker, topic, "bintide", operations);
    let check_refusal = |topic: &str, permission: &str| {
        let begun = Instant::now();
        stage.check_refusal(&login, &[topic, permission])?;
        ensure!(begun.elapsed() < REFUSAL_TIMEOUT, "{topic}: {} s", begun.elapsed().as_secs());
        Ok(())
    };
    KafkaTopics::new(&stage.broker)?.create(&["refused.fk.parent"], 1)?;
    allow("refused.fk.parent", &["READ"])?;
    check_refusal("write to the topic refused.fk.parent", "WRITE")?;
    allow("refused.fk.parent", &["READ", "WRITE"])?;
    stage.check_records("refused", &login)?;
    allow("refused.bintide-progress", &["WRITE"])?;
    check_refusal("the progress of the stream in the topic refused.bintide-progress", "READ")
}

/// A server of tokens, which ends with the test. The client `bintide` has the secret `right`.
struct TokenServer {
    port: u16,
}

impl TokenServer {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        thread::spawn(move || {
            for socket in listener.incoming() {
                // A client that ends its connection reports the error itself.
                let _ = socket.and_then(answer_token_request);
            }
        });
        Ok(Self { port })
    }
}

fn answer_token_request(mut socket: TcpStream) -> io::Result<()> {
    const BODY: &str = "grant_type=client_credentials&scope=kafka";
    let (mut request, mut buffer) = (String::new(), [0; 4096]);
    while !request.ends_with(BODY) {
        let size = socket.read(&mut buffer)?;
        request.push_str(&String::from_utf8_lossy(&buffer[..size]));
        if size == 0 {
            break;
        }
    }
    let login = format!("Basic {}", base64_simd::STANDARD.encode_to_string("bintide:right"));
    let (status, body) = match request.contains(&login) && request.ends_with(BODY) {
        true => ("200 OK", format!("{{\"access_token\":\"{}\",\"expires_in\":60}}", unsigned_token())),
        false => ("401 Unauthorized", "{\"error\":\"invalid_client\"}".to_owned()),
    };
    let size = body.len();
    write!(socket, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n{body}")
}

/// Returns a token that is valid for a minute. Kafka's own verifier accepts it without a signature.
fn unsigned_token() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let claims = format!("{{\"sub\":\"bintide\",\"iat\":{now},\"exp\":{}}}", now + 60);
    let encode = |part: &str| base64_simd::URL_SAFE_NO_PAD.encode_to_string(part);
    format!("{}.{}.", encode("{\"alg\":\"none\"}"), encode(&claims))
}

/// A client with a secret receives a token, and writes to topics that exist. A wrong secret and a missing topic are
/// named.
#[test]
fn tokens_are_accepted() -> Result<()> {
    let (stage, tokens) = (Stage::with_logins()?, TokenServer::start()?);
    let url = format!("sasl.oauthbearer.token.endpoint.url=http://127.0.0.1:{}/token", tokens.port);
    let login = |secret: &'static str| {
        let [protocol, mechanism] = ["security.protocol=sasl_plaintext", "sasl.mechanism=OAUTHBEARER"];
        let [client, scope] = ["sasl.oauthbearer.client.id=bintide", "sasl.oauthbearer.scope=kafka"];
        [protocol, mechanism, &*url, client, scope, secret]
    };
    let right = login("sasl.oauthbearer.client.secret=right");
    stage.check_refusal(
        &right,
        &["could not create the topic refused", "creates no topics with sasl.mechanism"],
    )?;
    stage.check_refusal(
        &login("sasl.oauthbearer.client.secret=wrong"),
        &["HTTP status 401", "invalid_client"],
    )?;
    let topics =
        ["", ".bintide-progress", ".transaction", ".fk.parent", ".fk.child", ".fk.grandchild", ".fk.self"];
    KafkaTopics::new(&stage.broker)?.create(&topics.map(|topic| format!("token{topic}")), 1)?;
    stage.check_records("token", &right)
}

/// Returns a certificate with a name of its own: OpenSSL takes one with the name of its authority for self-signed.
fn named_certificate(name: &str, subjects: Vec<String>) -> Result<CertificateParams> {
    let mut certificate = CertificateParams::new(subjects)?;
    certificate.distinguished_name.push(DnType::CommonName, name);
    Ok(certificate)
}

/// Writes an authority of this name, and certificates of a broker and a client that it has signed.
fn write_certificates(directory: &Path, name: &str) -> Result<()> {
    let mut authority = named_certificate(name, Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    fs::write(directory.join("ca.pem"), authority.pem())?;
    for (name, subjects) in [("broker", vec!["127.0.0.1".to_owned()]), ("client", Vec::new())] {
        let key = KeyPair::generate()?;
        let certificate = named_certificate(name, subjects)?.signed_by(&key, &authority)?;
        fs::write(directory.join(format!("{name}.pem")), certificate.pem())?;
        fs::write(directory.join(format!("{name}.key")), key.serialize_pem())?;
        // Kafka reads both from one file.
        let both = format!("{}{}", key.serialize_pem(), certificate.pem());
        fs::write(directory.join(format!("{name}-both.pem")), both)?;
    }
    Ok(())
}

/// The broker must have a certificate of a trusted authority, and the client one that the broker trusts.
#[test]
fn certificates_are_checked() -> Result<()> {
    let (directory, other) = (TempDir::new()?, TempDir::new()?);
    write_certificates(directory.path(), "authority")?;
    write_certificates(other.path(), "other authority")?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let properties = [
        "listener.name.ssl.ssl.client.auth=required".to_owned(),
        "ssl.keystore.type=PEM".to_owned(),
        format!("ssl.keystore.location={}", path("broker-both.pem")),
        "ssl.truststore.type=PEM".to_owned(),
        format!("ssl.truststore.location={}", path("ca.pem")),
    ];
    let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
    let secured = SecuredListeners { protocols: &["SSL"], properties: &properties, scram_users: &[] };
    let stage = Stage { broker: KafkaBroker::start_secured(secured)?, directory: TempDir::new()? };

    let authority = format!("ssl.ca.location={}", path("ca.pem"));
    let certificate = format!("ssl.certificate.location={}", path("client.pem"));
    let key = format!("ssl.key.location={}", path("client.key"));
    let all = ["security.protocol=ssl", &authority, &certificate, &key];
    stage.check_records("tls", &all)?;
    // TLS 1.3: a broker refuses a client only after the handshake.
    stage.check_refusal(&all[..2], &["could not reach the brokers", "certificate"])?;
    let other = format!("ssl.ca.location={}", other.path().join("ca.pem").display());
    stage.check_refusal(&[all[0], &other, &certificate, &key], &["certificate verify failed"])
}
