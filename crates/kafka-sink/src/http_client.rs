//! Requests by HTTP, to schema registries and to servers of tokens.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Certificate, Client, RequestBuilder, StatusCode, Url};
use tokio::runtime::{Builder, Runtime};

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer that is read, in bytes. Bounds memory.
const ANSWER_SIZE_MAX: usize = 1 << 20;

/// Client of one server.
#[derive(Debug)]
pub(crate) struct HttpClient {
    client: Client,
    /// Runtime of the client. It runs only during a request.
    runtime: Runtime,
}

/// Certificates to trust, in place of those of the system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrustedAuthorities<'a> {
    /// Property that names their file.
    pub(crate) property: &'static str,
    /// Contents of the file.
    pub(crate) pem: &'a [u8],
}

/// Response of a server.
#[derive(Debug)]
pub(crate) struct ServiceResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl HttpClient {
    /// Creates a client of the server of this address. The error is the reason why it cannot be created.
    pub(crate) fn new(url: &Url, authorities: Option<TrustedAuthorities<'_>>) -> Result<Self, String> {
        // Any other provider would be one more implementation of cryptography. It may be installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder().timeout(REQUEST_TIMEOUT).user_agent("bintide");
        // A redirect must not lead to a connection without TLS.
        client = client.https_only(url.scheme() == "https");
        if let Some(TrustedAuthorities { property, pem }) = authorities {
            let without = |reason: &str| format!("the file of {property} has no certificates{reason}");
            let found = Certificate::from_pem_bundle(pem).map_err(|error| without(&format!(": {error}")))?;
            if found.is_empty() {
                return Err(without(""));
            }
            client = client.tls_certs_only(found);
        }
        let client = client.build().map_err(|error| error.to_string())?;
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self { client, runtime: runtime.map_err(|error| error.to_string())? })
    }

    pub(crate) fn post(&self, url: Url) -> RequestBuilder {
        self.client.post(url)
    }

    /// Sends a request. The error is the reason why there is no response.
    pub(crate) fn send(&self, request: RequestBuilder) -> Result<ServiceResponse, String> {
        let answer = self.runtime.block_on(async {
            let mut answer = request.send().await?;
            let (status, mut body) = (answer.status(), Vec::new());
            while body.len() < ANSWER_SIZE_MAX
                && let Some(chunk) = answer.chunk().await?
            {
                body.extend_from_slice(&chunk);
            }
            Ok(ServiceResponse { status, body })
        });
        answer.map_err(|error: reqwest::Error| causes_text(&error))
    }
}

/// Returns an error with its causes.
fn causes_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Returns whether an address has a user or a password.
pub(crate) fn has_login(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Returns whether others on the network can read what is sent to an address: without TLS, except within this machine.
pub(crate) fn is_readable_by_others(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    url.scheme() == "http" && !is_local
}
