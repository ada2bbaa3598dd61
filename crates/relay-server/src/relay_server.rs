//! Listener of a relay: accepts clients, gives each a thread, and stops in order.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use logs::{StoreWatch, lock};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use relay::{
    AccountFile, FormChoice, FormSourceOptions, LogForm, RelayFacts, RelayStore, SqlResponder,
    UpstreamControl, first_log_in_use,
};
use servers::ServerAddress;
use wire::{PacketCodec, ServerError, ServerHandshake};

use crate::ack_gate::AckGate;
use crate::client_link::ClientLink;
use crate::client_session::serve_client;
use crate::error::RelayServerError;
use crate::form_registry::{FormRegistry, thread_time};
use crate::relay_counters::{RelayCounters, add};
use crate::relay_identity::load_or_create_identity;
use crate::relay_shared::{LoadedFiles, RelayParts, RelayShared, RelayWithSql};
use crate::tls_files::{TlsFiles, load_password_key, make_state_directory};

/// Stack size of a client's thread in bytes. Only the used part takes memory.
const STACK_SIZE: usize = 1 << 20;
/// Interval at which the accepting thread checks for a stop.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(100);
/// Pause after a failed accept, for example when the process has too many open files.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(200);
/// Interval at which ended clients that read nothing are closed.
const CLOSE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which data of purged logs is dropped.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(10);
/// Time for clients to receive the last packets at a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which a stop checks whether all clients have disconnected.
const STOP_INTERVAL: Duration = Duration::from_millis(10);
/// Name of the directory of indexes in the state directory.
const FORMS_DIRECTORY: &str = "forms";

/// Options of a relay.
#[derive(Clone)]
pub struct RelayServerOptions {
    /// Address to listen on, as `HOST:PORT`. Port 0 is any free port.
    pub listen: String,
    /// Form for clients whose account sets no form.
    pub form: FormChoice,
    /// File of accounts. May be missing if only clients of this machine can connect.
    pub accounts: AccountFile,
    /// `server_id` of the relay; `None` for a random one, kept in the state directory.
    pub server_id: Option<u32>,
    /// Certificate and key.
    pub tls: TlsFiles,
    /// Directory for the relay's own files: identity, certificate, keys, indexes. Created with access for the owner
    /// only.
    pub state: PathBuf,
    /// Server for queries about the definitions of tables; `None` to refuse such statements.
    pub definitions_from: Option<ServerAddress>,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Memory for the recent parts of each form, in bytes.
    pub form_cache_bytes: usize,
    /// Gate that waits for acknowledgements of replicas; `None` if the relay does not wait.
    pub ack_gate: Option<Arc<AckGate>>,
    /// Receiver of the logs; `None` if another program writes the logs.
    pub upstream_control: Option<Arc<dyn UpstreamControl>>,
    /// Receiver of notices.
    pub notices: Arc<dyn Fn(RelayNotice) + Send + Sync>,
}

/// Event of a running relay, for its log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayNotice {
    /// A login has failed.
    LoginFailed {
        /// Address of the client.
        peer: SocketAddr,
        /// Error sent to the client.
        error: String,
    },
    /// A TLS handshake has failed: for example, the client supports no common version or cipher.
    TlsFailed {
        /// Address of the client.
        peer: SocketAddr,
        /// Error of the connection.
        error: String,
    },
    /// A statement has changed the relay.
    RelayChanged {
        /// Account, as `user@host`.
        account: String,
        /// Statement, without passwords.
        statement: String,
    },
    /// A dump has ended with an error of the relay.
    DumpFailed {
        /// Name of the account.
        user: String,
        /// Error.
        error: String,
    },
    /// A client waits for a position that the relay has not received yet.
    ClientAhead {
        /// Name of the account.
        user: String,
        /// Name of the log.
        log: String,
        /// Position in the log, in the client's form.
        position: u64,
    },
    /// The index of the store lists a log whose file is missing.
    LogMissing {
        /// Name of the log.
        log: String,
    },
    /// An index could not be saved: a restarted relay must render more.
    IndexNotSaved {
        /// Error.
        error: String,
    },
    /// Too few replicas have acknowledged in time: replication is asynchronous until they have caught up.
    AckTimeout {
        /// Number of replicas that had to acknowledge.
        replicas: usize,
        /// Number of replicas that have acknowledged.
        acknowledged: usize,
        /// Duration of the wait.
        timeout: Duration,
    },
    /// Enough replicas have caught up: replication is semi-synchronous again.
    AcksResumed {
        /// Number of replicas that have to acknowledge.
        replicas: usize,
    },
    /// A connection could not be accepted: for example, the process has too many open files. Later attempts that fail are
    /// not reported, until one succeeds.
    NotAccepted {
        /// Error of the operating system.
        error: String,
    },
    /// A client could not be served, because a thread could not be started.
    NoThread {
        /// Error of the operating system.
        error: String,
    },
}

/// Running relay. Dropping this value stops the relay.
pub struct RelayServer {
    shared: Arc<RelayShared>,
    threads: Vec<JoinHandle<()>>,
}

impl RelayServer {
    /// Starts to serve a store. `before_clients` runs before the first client is accepted.
    ///
    /// # Errors
    ///
    /// Fails if the address or a file cannot be used, or clients of other machines could connect without an account.
    pub fn start(
        store: RelayStore,
        options: RelayServerOptions,
        before_clients: impl FnOnce(&Self),
    ) -> Result<Self, RelayServerError> {
        make_state_directory(&options.state)?;
        let accounts = Arc::new(options.accounts.load()?);
        let listener = listen(&options.listen)?;
        let failed = |cause| RelayServerError::Listen { address: options.listen.clone(), cause };
        let address = listener.local_addr().map_err(failed)?;
        if accounts.is_empty() && !address.ip().to_canonical().is_loopback() {
            return Err(RelayServerError::NoAccounts { address: options.listen });
        }
        let forms = options.state.join(FORMS_DIRECTORY);
        make_state_directory(&forms)?;
        let parts = RelayParts {
            address,
            identity: load_or_create_identity(&options.state)?,
            forms: FormRegistry::new(
                Arc::new(store),
                FormSourceOptions {
                    directory: forms,
                    cache_bytes: options.form_cache_bytes,
                    thread_cpu_time: thread_time,
                },
            ),
            password_key: load_password_key(&options.state)?,
            files: LoadedFiles { tls: options.tls.load(&options.state)?, accounts },
        };
        let shared = Arc::new(RelayShared::new(options, parts));
        if let Some(gate) = &shared.options.ack_gate {
            let publishing = Arc::downgrade(&shared);
            gate.set_publish(move || {
                if let Some(shared) = publishing.upgrade() {
                    shared.record_growth();
                }
            });
        }
        let mut server = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        let watching = Arc::clone(&shared);
        before_clients(&server);
        server.spawn("watch", move || watch(&watching))?;
        let responder = SqlResponder::new(server.facts());
        let served = Arc::new(RelayWithSql { shared, responder });
        server.spawn("accept", move || accept(&listener, &served))?;
        Ok(server)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), RelayServerError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        self.threads.push(thread.map_err(RelayServerError::Thread)?);
        Ok(())
    }

    /// Returns the address of the listening socket.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Returns the counters.
    pub fn counters(&self) -> Arc<RelayCounters> {
        Arc::clone(&self.shared.counters)
    }

    /// Returns the gate that waits for acknowledgements of replicas, if there is one.
    pub fn ack_gate(&self) -> Option<Arc<AckGate>> {
        self.shared.options.ack_gate.clone()
    }

    /// Returns the facts about the relay.
    pub fn facts(&self) -> Arc<dyn RelayFacts> {
        Arc::clone(&self.shared) as Arc<dyn RelayFacts>
    }

    /// Returns a function that finds, among the given logs, the first that a connected client reads, in this form if one
    /// is given.
    pub fn log_finder(
        &self,
        form: Option<LogForm>,
    ) -> impl Fn(&[&str]) -> Option<usize> + Send + Sync + use<> {
        let shared = Arc::downgrade(&self.shared);
        move |logs| first_log_in_use(&*shared.upgrade()?, logs, form)
    }

    /// Reads accounts and certificates again. If one file cannot be used, changes nothing.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be used.
    pub fn reload(&self) -> Result<(), RelayServerError> {
        let options = &self.shared.options;
        let had_no_accounts = &self.shared.has_never_had_accounts;
        if !had_no_accounts.load(Ordering::Relaxed) && !options.accounts.exists() {
            return Err(RelayServerError::AccountsMissing { path: options.accounts.path().to_owned() });
        }
        let accounts = Arc::new(options.accounts.load()?);
        let tls = options.tls.load(&options.state)?;
        if !accounts.is_empty() {
            had_no_accounts.store(false, Ordering::Relaxed);
        }
        *self.shared.files.write().unwrap_or_else(PoisonError::into_inner) = LoadedFiles { tls, accounts };
        lock(&self.shared.digests).clear();
        Ok(())
    }

    /// Stops: accepts no more clients, ends the connections, and saves the indexes.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for RelayServer {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.is_stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of the thread has already printed its message.
            let _ = thread.join();
        }
        shared.clients.end_all();
        shared.growth.record();
        let deadline = Instant::now() + STOP_TIMEOUT;
        while shared.clients.len() > 0 && Instant::now() < deadline {
            thread::sleep(STOP_INTERVAL);
        }
        shared.clients.close_all();
        for error in shared.forms.save_indexes() {
            shared.notify(RelayNotice::IndexNotSaved { error: error.to_string() });
        }
    }
}

fn listen(address: &str) -> Result<TcpListener, RelayServerError> {
    let failed = |cause| RelayServerError::Listen { address: address.to_owned(), cause };
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
    let listener = TcpListener::bind(addresses.as_slice()).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

fn accept(listener: &TcpListener, served: &Arc<RelayWithSql>) {
    let shared = &served.shared;
    let timeout = PollTimeout::try_from(ACCEPT_INTERVAL).unwrap_or(PollTimeout::ZERO);
    let mut has_failed = false;
    while !shared.is_stopping() {
        match listener.accept() {
            Ok((stream, peer)) => {
                has_failed = false;
                if let Err(error) = admit(Arc::new(stream), peer, served) {
                    shared.notify(RelayNotice::NoThread { error: error.to_string() });
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut descriptors = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                // A signal may interrupt the call: the loop continues.
                let _ = poll(&mut descriptors, timeout);
            }
            Err(error) => {
                // The next attempts probably fail for the same reason.
                if !std::mem::replace(&mut has_failed, true) {
                    shared.notify(RelayNotice::NotAccepted { error: error.to_string() });
                }
                thread::sleep(ACCEPT_BACKOFF);
            }
        }
    }
}

fn admit(socket: Arc<TcpStream>, peer: SocketAddr, served: &Arc<RelayWithSql>) -> io::Result<()> {
    let served = Arc::clone(served);
    let thread = thread::Builder::new().name("client".to_owned()).stack_size(STACK_SIZE);
    let serving = Arc::clone(&socket);
    let spawned = thread.spawn(move || {
        let shared = &*served.shared;
        let limit = shared.options.connections_max;
        match shared.clients.register(Arc::clone(&serving), peer.to_string(), limit) {
            Some(registration) => {
                // A client that disconnects is no error of the relay.
                let _ = ClientLink::new(Arc::clone(&serving))
                    .and_then(|link| serve_client(link, &registration, peer, &served));
            }
            None => {
                add(&shared.counters.refused_connections, 1);
                turn_away(&serving);
            }
        }
        // Close the connection even while another thread holds the socket.
        let _ = serving.shutdown(std::net::Shutdown::Both);
    });
    spawned.map(drop).inspect_err(|_| turn_away(&socket))
}

/// Refuses a client before its login. The packet fits in the buffer of its socket.
fn turn_away(socket: &TcpStream) {
    let mut packets = PacketCodec::new(0);
    ServerHandshake::turn_away(&ServerError::too_many_connections(), &mut packets);
    // Fails if the client has disconnected.
    let _ = io::Write::write_all(&mut &*socket, packets.output());
}

/// Interval at which sizes are read, in addition to change notifications: some file systems report only local changes.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// Wakes clients when the store grows.
fn watch(shared: &RelayShared) {
    let mut changes = StoreWatch::new();
    let (mut maintained, mut closed) = (Instant::now(), Instant::now());
    while !shared.is_stopping() {
        let is_reported = changes.wait(WATCH_INTERVAL);
        if changes.check(shared.newest_log()) || is_reported {
            shared.record_growth();
        }
        if closed.elapsed() >= CLOSE_INTERVAL {
            shared.clients.close_blocked();
            closed = Instant::now();
        }
        if maintained.elapsed() >= MAINTENANCE_INTERVAL {
            for error in shared.forms.maintain() {
                shared.notify(RelayNotice::IndexNotSaved { error: error.to_string() });
            }
            maintained = Instant::now();
        }
    }
}
