//! Credentials that a command prints: `credential_process` in the files of the AWS command line.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use logs::lock;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use serde::Deserialize;
use shell_command::ShellCommand;

/// Time limit of the command.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of the output in bytes. Session tokens have a few thousand.
const OUTPUT_MAX: u64 = 256 << 10;
/// Time before the expiration at which the command runs again.
const RENEWAL_MARGIN: SignedDuration = SignedDuration::from_mins(5);
/// Minimum time between two runs of the command, unless credentials expire sooner.
const RENEWAL_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// Version of the output's format.
const VERSION: u32 = 1;

/// Type of an asynchronous result, as [`CredentialProvider`] defines it.
type CredentialFuture<'f> =
    Pin<Box<dyn Future<Output = object_store::Result<Arc<AwsCredential>>> + Send + 'f>>;

/// Provider of the credentials that a shell command prints. The command runs again before they expire.
pub(super) struct CredentialProcess(Arc<SharedProcess>);

struct SharedProcess {
    command: String,
    current: Mutex<Option<RenewedCredential>>,
}

/// Credential with the time of its renewal.
#[derive(Clone)]
struct RenewedCredential {
    credential: Arc<AwsCredential>,
    /// `None` if it does not expire.
    renew_at: Option<Timestamp>,
}

/// Output of the command.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ProcessOutput {
    version: u32,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<String>,
}

/// Omits the command, which may contain a password.
impl fmt::Debug for CredentialProcess {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CredentialProcess").finish_non_exhaustive()
    }
}

impl CredentialProcess {
    /// Creates the provider for a command of a shell.
    pub(super) fn new(command: String) -> Self {
        Self(Arc::new(SharedProcess { command, current: Mutex::new(None) }))
    }
}

impl CredentialProvider for CredentialProcess {
    type Credential = AwsCredential;

    fn get_credential<'s, 'f>(&'s self) -> CredentialFuture<'f>
    where
        's: 'f,
        Self: 'f,
    {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            // The lock is held while the command runs. To wait for it here would block other requests.
            if let Some(credential) =
                shared.current.try_lock().ok().and_then(|current| shared.valid(&current))
            {
                return Ok(credential);
            }
            let renewed = tokio::task::spawn_blocking(move || shared.renew()).await;
            let renewed = renewed.unwrap_or_else(|error| Err(error.to_string()));
            renewed.map_err(|why| object_store::Error::Generic {
                store: "S3",
                source: format!("the credential_process of the AWS profile failed: {why}").into(),
            })
        })
    }
}

impl SharedProcess {
    fn lock(&self) -> MutexGuard<'_, Option<RenewedCredential>> {
        lock(&self.current)
    }

    /// Returns the credential, unless it must be renewed.
    fn valid(&self, current: &Option<RenewedCredential>) -> Option<Arc<AwsCredential>> {
        let current = current.as_ref()?;
        let is_valid = current.renew_at.is_none_or(|renew_at| Timestamp::now() < renew_at);
        is_valid.then(|| Arc::clone(&current.credential))
    }

    /// Returns a valid credential. Requests at the same time wait for one run of the command.
    fn renew(&self) -> Result<Arc<AwsCredential>, String> {
        let mut current = self.lock();
        if let Some(credential) = self.valid(&current) {
            return Ok(credential);
        }
        let command = ShellCommand { text: &self.command, timeout: TIMEOUT, output_max: OUTPUT_MAX };
        let output = command.run(|| false).map_err(|error| error.to_string())?;
        let renewed = parse(&output, Timestamp::now())?;
        let credential = Arc::clone(&renewed.credential);
        *current = Some(renewed);
        Ok(credential)
    }
}

/// Returns the credential of an output. Errors do not contain the output, which has a secret.
fn parse(output: &[u8], now: Timestamp) -> Result<RenewedCredential, String> {
    let output: ProcessOutput = serde_json::from_slice(output).map_err(|error| {
        format!(
            "line {} of its output, column {}: expected the JSON document of a credential_process",
            error.line(),
            error.column()
        )
    })?;
    let ProcessOutput { version, access_key_id: key_id, secret_access_key: secret_key, .. } = output;
    if version != VERSION {
        return Err(format!("the Version of its output is {version}; expected {VERSION}"));
    }
    let expires_at = output.expiration.as_deref().map(str::parse::<Timestamp>).transpose();
    let expires_at = expires_at.map_err(|_| "the Expiration of its output is not a time".to_owned())?;
    // Credentials that expire within the margin are not renewed at each request.
    let renewal = |expires_at: Timestamp| {
        let early = expires_at.checked_sub(RENEWAL_MARGIN).unwrap_or(expires_at);
        early.max(expires_at.min(now + RENEWAL_INTERVAL))
    };
    let token = output.session_token;
    let credential = Arc::new(AwsCredential { key_id, secret_key, token });
    Ok(RenewedCredential { credential, renew_at: expires_at.map(renewal) })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{CredentialProcess, parse};

    const NOW: &str = "2026-11-22T14:00:00Z";

    fn output(expiration: &str) -> String {
        format!(r#"{{"Version": 1, "AccessKeyId": "id", "SecretAccessKey": "secret"{expiration}}}"#)
    }

    #[test]
    fn credentials_are_renewed_before_they_expire() {
        let now: Timestamp = NOW.parse().unwrap();
        let check = |expiration: &str, expected: Option<&str>| {
            let renewed = parse(output(expiration).as_bytes(), now).unwrap();
            let expected = expected.map(|time| time.parse::<Timestamp>().unwrap());
            assert_eq!(renewed.renew_at, expected, "{expiration}");
        };
        check("", None);
        check(r#", "Expiration": null"#, None);
        check(r#", "Expiration": "2026-11-22T15:00:00Z""#, Some("2026-11-22T14:55:00Z"));
        check(r#", "Expiration": "2026-11-22T17:00:00+02:00""#, Some("2026-11-22T14:55:00Z"));
        check(r#", "Expiration": "2026-11-22T14:02:00Z""#, Some("2026-11-22T14:00:10Z"));
        check(r#", "Expiration": "2026-11-22T14:00:01Z""#, Some("2026-11-22T14:00:01Z"));
    }

    #[test]
    fn invalid_outputs_are_refused_without_their_text() {
        let check = |output: &str, expected: &str| {
            let error = parse(output.as_bytes(), NOW.parse().unwrap()).err().unwrap();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        };
        check("secret", "line 1 of its output");
        check(r#"{"Version": 1, "AccessKeyId": "secret"}"#, "expected the JSON document");
        check(&output("").replace('1', "2"), "the Version of its output is 2");
        check(&output(r#", "Expiration": "soon""#), "is not a time");
    }

    #[test]
    fn a_command_runs_again_for_expired_credentials() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let keys = |id: &str, expiration: &str| {
            let output = format!(
                r#"{{"Version": 1, "AccessKeyId": "{id}", "SecretAccessKey": "s", "Expiration": "{expiration}"}}"#
            );
            std::fs::write(path(id), output).unwrap();
        };
        keys("first", "2000-01-01T00:00:00Z");
        keys("second", "2999-01-01T00:00:00Z");
        // The first run prints the first keys, and all later ones the second keys.
        let (seen, first, second) = (path("seen"), path("first"), path("second"));
        let command = format!("if [ -e {seen} ]; then cat {second}; else touch {seen}; cat {first}; fi");
        let process = CredentialProcess::new(command);
        let ids: Vec<String> = (0..3).map(|_| process.0.renew().unwrap().key_id.clone()).collect();
        assert_eq!(ids, ["first", "second", "second"]);
        std::fs::remove_file(second).unwrap();
        assert!(process.0.valid(&process.0.lock()).is_some());
    }
}
