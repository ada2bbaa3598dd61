//! Login of a client.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use logs::lock;
use relay::{
    AccountRole, ClientAttributes, FormChoice, RelayAccounts, RelayFacts as _, SqlResponder,
    TransportRequirement,
};
use wire::{
    HandshakeOptions, LoginDetails, PasswordDigest, PasswordPlugin, ServerError, ServerHandshake,
    ServerSession, ServerStep, StoredPassword, Transport,
};

use crate::client_link::ClientLink;
use crate::client_registry::ClientRegistration;
use crate::relay_counters::add;
use crate::relay_server::RelayNotice;
use crate::relay_shared::RelayShared;

/// Maximum duration of a login, including TLS: `connect_timeout` of a server.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a packet from a client, in bytes: `max_allowed_packet` of a server.
pub(crate) const PACKET_SIZE_MAX: usize = SqlResponder::PACKET_SIZE_MAX;
/// First version of clients that support caching_sha2_password. Later versions may support no other plugin.
const CACHING_SHA2_SINCE: [u32; 3] = [8, 0, 0];

/// Client that has logged in.
#[derive(Clone, Debug)]
pub(crate) struct ClientLogin {
    pub(crate) session: ServerSession,
    pub(crate) account: ClientAccount,
    /// Host of the client: its address, or `localhost`.
    pub(crate) host: String,
}

/// Fields of a client's account that the relay needs after the login.
#[derive(Clone, Debug)]
pub(crate) struct ClientAccount {
    pub(crate) user: String,
    /// Host of the account, as in its file.
    pub(crate) host: String,
    pub(crate) role: AccountRole,
    pub(crate) form: FormChoice,
    password: StoredPassword,
    requirement: TransportRequirement,
    connections_max: Option<u32>,
}

impl ClientAccount {
    /// Returns the maximum number of simultaneous connections; `None` if the number is unlimited.
    fn connections_max(&self) -> Option<usize> {
        self.connections_max.and_then(|limit| usize::try_from(limit).ok())
    }
}

/// Logs a client in. Returns `None` if the relay refused the login.
pub(crate) fn log_in(
    link: &mut ClientLink,
    registration: &ClientRegistration<'_>,
    peer: SocketAddr,
    shared: &RelayShared,
) -> io::Result<Option<ClientLogin>> {
    link.set_deadline(Some(Instant::now() + LOGIN_TIMEOUT))?;
    let files = shared.files();
    let address = peer.ip().to_canonical();
    let options = handshake_options(registration.connection_id, address, shared)?;
    let mut handshake = ServerHandshake::begin(options, &mut link.packets);
    let mut account: Option<ClientAccount> = None;
    let mut step = ServerStep::Receive;
    loop {
        step = match step {
            ServerStep::Receive => {
                if let Err(error) = link.receive() {
                    note_tls_failure(link, peer, &error, shared);
                    return Err(error);
                }
                handshake.advance(&mut link.packets)
            }
            ServerStep::StartTls { received } => {
                link.start_tls(received, &files.tls)?;
                handshake.continue_over_tls()
            }
            ServerStep::FindAccount(login) => {
                account = find_account(&login, address, &files.accounts, shared);
                let digest = account.as_ref().and_then(|account| known_digest(account, shared));
                let unknown = StoredPassword::no_account(PasswordPlugin::CachingSha2);
                let password = account.as_ref().map_or(&unknown, |account| &account.password);
                handshake.authenticate(password, digest.as_ref(), &mut link.packets)
            }
            ServerStep::Authenticated(login) => match account.take() {
                Some(account) if is_secure(link, &account) => {
                    if !registration.admit_user(&account.user, account.connections_max()) {
                        // The password is right: this is no failed attempt to log in.
                        shared.throttle.forget(address);
                        add(&shared.counters.refused_connections, 1);
                        let error = too_many_user_connections(&account.user);
                        shared.notify(RelayNotice::LoginFailed { peer, error: error.to_string() });
                        handshake.refuse(error, &mut link.packets);
                        link.flush()?;
                        return Ok(None);
                    } else {
                        remember_digest(&account, login.digest, shared);
                        shared.throttle.forget(address);
                        let session = handshake.accept(&mut link.packets);
                        link.set_deadline(None)?;
                        add(&shared.counters.logins, 1);
                        add(&shared.counters.unencrypted_logins, u64::from(!link.is_encrypted()));
                        registration.client.change(|facts| facts.tls_version = link.tls_version());
                        return Ok(Some(ClientLogin { session, account, host: client_host(address) }));
                    }
                }
                _ => handshake.deny(&mut link.packets),
            },
            ServerStep::Refused(refusal) => {
                add(&shared.counters.failed_logins, 1);
                shared.notify(RelayNotice::LoginFailed { peer, error: refusal.error.to_string() });
                registration.delay_answer(shared.throttle.count_failure(address, Instant::now()));
                link.flush()?;
                return Ok(None);
            }
        }
    }
}

/// Counts and reports an error of a connection during its TLS handshake.
fn note_tls_failure(link: &ClientLink, peer: SocketAddr, error: &io::Error, shared: &RelayShared) {
    if link.is_in_tls_handshake() {
        add(&shared.counters.tls_failures, 1);
        shared.notify(RelayNotice::TlsFailed { peer, error: error.to_string() });
    }
}

fn handshake_options(
    connection_id: u32,
    address: IpAddr,
    shared: &RelayShared,
) -> io::Result<HandshakeOptions> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    Ok(HandshakeOptions {
        server_version: shared.server().version,
        connection_id,
        capabilities: ServerHandshake::CAPABILITIES,
        plugin: PasswordPlugin::CachingSha2,
        transport: Transport::Network,
        client_host: client_host(address),
        password_key: Some(Arc::clone(&shared.password_key)),
        packet_limit: PACKET_SIZE_MAX,
        seed,
    })
}

/// Returns the host of a client for messages.
fn client_host(address: IpAddr) -> String {
    if address.is_loopback() { "localhost".to_owned() } else { address.to_string() }
}

/// Finds the account of a client. If there have been no accounts since the relay's start, clients of this machine log
/// in without a password. After accounts were added and removed, no client can log in.
fn find_account(
    login: &LoginDetails,
    address: IpAddr,
    accounts: &RelayAccounts,
    shared: &RelayShared,
) -> Option<ClientAccount> {
    if accounts.is_empty() && shared.has_never_had_accounts.load(Ordering::Relaxed) && address.is_loopback() {
        return Some(ClientAccount {
            user: String::from_utf8_lossy(&login.user).into_owned(),
            host: "localhost".to_owned(),
            role: AccountRole::Admin,
            form: FormChoice::Auto,
            password: StoredPassword::empty(plugin_of(login)),
            requirement: TransportRequirement::Anything,
            connections_max: None,
        });
    }
    let found = accounts.find(&login.user, Some(address))?;
    Some(ClientAccount {
        user: found.account.name.clone(),
        host: found.host.to_string(),
        role: found.account.role,
        form: found.account.form,
        password: match found.account.password == StoredPassword::empty(PasswordPlugin::CachingSha2) {
            true => StoredPassword::empty(plugin_of(login)),
            false => found.account.password.clone(),
        },
        requirement: found.account.requirement,
        connections_max: found.account.connections_max,
    })
}

/// Returns a plugin that a client without a password supports. MySQL's programs since 9.0 support only
/// caching_sha2_password; old programs and MariaDB's programs support only mysql_native_password.
fn plugin_of(login: &LoginDetails) -> PasswordPlugin {
    let version =
        login.attributes.get("_client_version").and_then(|version| std::str::from_utf8(version).ok());
    let client = ClientAttributes { client_version: version, ..ClientAttributes::default() };
    match client.is_mysql_since(CACHING_SHA2_SINCE) {
        true => PasswordPlugin::CachingSha2,
        false => PasswordPlugin::Native,
    }
}

fn is_secure(link: &ClientLink, account: &ClientAccount) -> bool {
    match account.requirement {
        TransportRequirement::Anything => true,
        TransportRequirement::Tls => link.is_encrypted(),
        TransportRequirement::Certificate => link.has_certificate(),
    }
}

/// `ER_TOO_MANY_USER_CONNECTIONS`
fn too_many_user_connections(user: &str) -> ServerError {
    let message = format!("User {user} already has more than 'max_user_connections' active connections");
    ServerError::new(1203, "42000", message)
}

fn digest_key(account: &ClientAccount) -> String {
    format!("{}@{}", account.user, account.host)
}

fn known_digest(account: &ClientAccount, shared: &RelayShared) -> Option<PasswordDigest> {
    lock(&shared.digests).get(&digest_key(account)).cloned()
}

fn remember_digest(account: &ClientAccount, digest: Option<PasswordDigest>, shared: &RelayShared) {
    if let Some(digest) = digest {
        // Cleared when the accounts are reloaded, so the number of accounts bounds the map.
        lock(&shared.digests).insert(digest_key(account), digest);
    }
}
