//! Tokens for logins with OAUTHBEARER, from an OAuth 2.0 server.

use std::time::{SystemTime, UNIX_EPOCH};

use rdkafka::client::OAuthToken;
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde::Deserialize;

use crate::error::KafkaSinkError;
use crate::http_client::{HttpClient, ServiceResponse, TrustedAuthorities};
use crate::oauth_settings::{AUTHORITY_PROPERTY, OauthSettings};

/// Lifetime of a token that does not state it, in seconds.
const DEFAULT_LIFETIME_S: i64 = 300;

/// Client of a server of tokens.
#[derive(Debug)]
pub(crate) struct TokenClient {
    settings: OauthSettings,
    http: HttpClient,
}

/// Answer with a token.
#[derive(Debug, Deserialize)]
struct TokenAnswer {
    access_token: String,
    /// Lifetime in seconds.
    expires_in: Option<i64>,
}

/// Answer with an error.
#[derive(Debug, Default, Deserialize)]
struct TokenErrorAnswer {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

/// Claims of a token, if it is a JSON Web Token.
#[derive(Debug, Default, Deserialize)]
struct TokenClaims {
    sub: Option<String>,
    /// Time at which it expires, in seconds since 1970.
    exp: Option<f64>,
}

impl TokenClient {
    pub(crate) fn new(settings: OauthSettings) -> Result<Self, KafkaSinkError> {
        let property = AUTHORITY_PROPERTY;
        let authorities = settings.authorities.as_ref().map(|pem| TrustedAuthorities { property, pem });
        let http = HttpClient::new(&settings.url, authorities);
        Ok(Self { http: http.map_err(|reason| KafkaSinkError::Oauth { reason })?, settings })
    }

    /// Fetches a token. The error is the reason why there is none.
    pub(crate) fn fetch(&self) -> Result<OAuthToken, String> {
        let OauthSettings { url, client, secret, scope, .. } = &self.settings;
        let request = self.http.post(url.clone()).basic_auth(client, Some(secret));
        let request = request.header(ACCEPT, "application/json");
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let answer = self.http.send(request.body(form(scope.as_deref())));
        let ServiceResponse { status, body } =
            answer.map_err(|reason| format!("{url} does not answer: {reason}"))?;
        if !status.is_success() {
            let TokenErrorAnswer { error, error_description } =
                serde_json::from_slice(&body).unwrap_or_default();
            let status = status.as_u16();
            let reasons: Vec<String> =
                [error, error_description].into_iter().filter(|reason| !reason.is_empty()).collect();
            return Err(match reasons.join(": ") {
                reason if reason.is_empty() => format!("{url} gives no token (HTTP status {status})"),
                reason => format!("{url} gives no token (HTTP status {status}): {reason}"),
            });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let token = token_of(&body, client, i64::try_from(now).unwrap_or_default());
        token.map_err(|reason| format!("{url} gives a malformed answer: {reason}"))
    }
}

/// Returns the body of a request.
fn form(scope: Option<&str>) -> String {
    let mut form = Url::parse("http://form/").expect("ours: an address");
    form.query_pairs_mut().append_pair("grant_type", "client_credentials");
    if let Some(scope) = scope {
        form.query_pairs_mut().append_pair("scope", scope);
    }
    form.query().unwrap_or_default().to_owned()
}

/// Returns the token in an answer, at the time `now_s` in seconds since 1970. The client is its owner, unless the token
/// names another one.
fn token_of(body: &[u8], client: &str, now_s: i64) -> Result<OAuthToken, String> {
    let TokenAnswer { access_token, expires_in } =
        serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let claims = claims_of(&access_token).unwrap_or_default();
    let expiry_s = claims.exp.map(|exp| exp as i64);
    let expiry_s = expiry_s.unwrap_or_else(|| now_s.saturating_add(expires_in.unwrap_or(DEFAULT_LIFETIME_S)));
    Ok(OAuthToken {
        token: access_token,
        principal_name: claims.sub.unwrap_or_else(|| client.to_owned()),
        lifetime_ms: expiry_s.saturating_mul(1000),
    })
}

/// Returns the claims of a JSON Web Token; `None` for another one. The brokers verify it.
fn claims_of(token: &str) -> Option<TokenClaims> {
    let claims = token.split('.').nth(1)?;
    let claims = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(claims).ok()?;
    serde_json::from_slice(&claims).ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::{TokenClient, form, token_of};
    use crate::oauth_settings::OauthSettings;

    #[test]
    fn tokens_state_their_owner_and_end() {
        let check = |answer: &str, expected: Option<(&str, &str, i64)>| {
            let found = token_of(answer.as_bytes(), "me", 1000).ok();
            let found = found.as_ref();
            let parts = found.map(|token| (&*token.token, &*token.principal_name, token.lifetime_ms));
            assert_eq!(parts, expected, "{answer}");
        };
        check(r#"{"access_token":"opaque","expires_in":60}"#, Some(("opaque", "me", 1_060_000)));
        check(r#"{"access_token":"opaque"}"#, Some(("opaque", "me", 1_300_000)));
        // {"alg":"none"}.{"sub":"you","exp":2000}.
        let token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ5b3UiLCJleHAiOjIwMDB9.";
        check(&format!(r#"{{"access_token":"{token}","expires_in":60}}"#), Some((token, "you", 2_000_000)));
        check(r#"{"token":"x"}"#, None);
        check("", None);
    }

    /// Returns the error of fetching a token from a server that gives this answer, without the server's port.
    fn refusal(answer: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}/token").parse().unwrap();
        let (client, secret) = ("me".to_owned(), "x".to_owned());
        let settings = OauthSettings { url, client, secret, scope: None, authorities: None };
        let client = TokenClient::new(settings).unwrap();
        let answer = answer.to_owned();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"client_credentials") {
                let mut buffer = [0; 4096];
                let size = socket.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..size]);
            }
            socket.write_all(answer.as_bytes()).unwrap();
        });
        let error = client.fetch().err().unwrap();
        server.join().unwrap();
        error.replace(&port.to_string(), "PORT")
    }

    #[test]
    fn refusals_have_a_reason() {
        let check = |status: &str, body: &str, expected: &str| {
            let size = body.len();
            let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n");
            assert_eq!(refusal(&format!("{head}{body}")), expected);
        };
        check("503 Away", "", "http://127.0.0.1:PORT/token gives no token (HTTP status 503)");
        check(
            "401 Unauthorized",
            r#"{"error":"invalid_client","error_description":"unknown client"}"#,
            "http://127.0.0.1:PORT/token gives no token (HTTP status 401): invalid_client: unknown client",
        );
        check(
            "200 OK",
            "{}",
            "http://127.0.0.1:PORT/token gives a malformed answer: missing field `access_token` at line 1 column 2",
        );
    }

    #[test]
    fn requests_are_forms() {
        assert_eq!(form(None), "grant_type=client_credentials");
        assert_eq!(form(Some("kafka write&x")), "grant_type=client_credentials&scope=kafka+write%26x");
    }
}
