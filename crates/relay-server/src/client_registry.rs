//! Connected clients: facts about each, and requests of other threads to end a connection.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use logs::lock;
use nix::libc::POLLRDHUP;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use relay::{ClientFacts, ClientTotals};

/// Connected clients, by connection id.
#[derive(Debug, Default)]
pub(crate) struct ClientRegistry {
    clients: Mutex<ClientList>,
}

#[derive(Debug, Default)]
struct ClientList {
    last_id: u32,
    /// Connections that have not logged in, oldest first.
    logging_in: VecDeque<u32>,
    by_id: BTreeMap<u32, Arc<ConnectedClient>>,
    /// Totals of the ended connections.
    ended: Vec<ClientTotals>,
    /// The relay stops, and has ended all connections.
    is_closed: bool,
}

/// Connected client, visible to other threads.
#[derive(Debug)]
pub(crate) struct ConnectedClient {
    socket: Arc<TcpStream>,
    state: Mutex<ClientState>,
}

#[derive(Debug)]
struct ClientState {
    facts: ClientFacts,
    since: Instant,
    /// Start of a write that is not finished: it blocks while the client reads nothing.
    writing_since: Option<Instant>,
    /// True from a `KILL QUERY` to the next command.
    is_query_killed: bool,
    end: Option<EndReason>,
}

/// Reason for which another thread ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// `KILL`.
    Killed,
    /// The same replica has connected again.
    Displaced,
    /// The relay stops.
    Shutdown,
}

/// Activity of a client, as in `SHOW PROCESSLIST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientActivity {
    pub(crate) command: &'static str,
    pub(crate) state: &'static str,
}

impl ClientActivity {
    pub(crate) const CONNECT: Self = Self { command: "Connect", state: "login" };
    pub(crate) const SLEEP: Self = Self { command: "Sleep", state: "" };
    pub(crate) const QUERY: Self = Self { command: "Query", state: "executing" };
    pub(crate) const SENDING: &'static str = "Sending binlog event to replica";
    pub(crate) const WAITING: &'static str =
        "Source has sent all binlog to replica; waiting for more updates";
}

/// Entry of a client in the registry, until this value is dropped.
#[derive(Debug)]
pub(crate) struct ClientRegistration<'r> {
    registry: &'r ClientRegistry,
    pub(crate) connection_id: u32,
    pub(crate) client: Arc<ConnectedClient>,
}

/// Duration of a write after which a client probably reads nothing.
const BLOCKED_MIN: Duration = Duration::from_secs(2);
/// Maximum number of connections that have not logged in. Beyond this number, the oldest connection is closed: a login
/// takes milliseconds, so the oldest connections probably never finish it.
const LOGGING_IN_MAX: usize = 256;
/// Number of connections that may be logging in, also with a smaller limit of connections.
const LOGGING_IN_MIN: usize = 16;
/// Maximum number of totals of ended connections. Bounds memory and the number of metrics if each connection comes from
/// another host.
const ENDED_TOTALS_MAX: usize = 1000;
/// Interval at which a delayed answer checks whether its connection was ended.
const DELAY_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Duration after which a login probably never finishes.
const LOGIN_DURATION_MAX: Duration = Duration::from_secs(1);

impl ClientRegistry {
    /// Adds a client. Returns `None` if there are already `limit` clients, or after [`ClientRegistry::end_all`].
    ///
    /// Closes the oldest connection without a login if there are too many of them, or if it has taken too long and there
    /// are `limit` clients.
    pub(crate) fn register(
        &self,
        socket: Arc<TcpStream>,
        host: String,
        limit: usize,
    ) -> Option<ClientRegistration<'_>> {
        let mut list = lock(&self.clients);
        if list.has_too_many_logins(limit)
            && let Some(oldest) = list.logging_in.pop_front()
            && let Some(oldest) = list.by_id.remove(&oldest)
        {
            oldest.close();
        }
        if list.is_closed || list.by_id.len() >= limit {
            return None;
        }
        let mut id = list.last_id;
        loop {
            id = id.wrapping_add(1).max(1);
            if !list.by_id.contains_key(&id) {
                break;
            }
        }
        list.last_id = id;
        let client = Arc::new(ConnectedClient { socket, state: Mutex::new(ClientState::new(id, host)) });
        list.by_id.insert(id, Arc::clone(&client));
        list.logging_in.push_back(id);
        Some(ClientRegistration { registry: self, connection_id: id, client })
    }

    /// Returns all clients.
    pub(crate) fn facts(&self) -> Vec<ClientFacts> {
        self.all().iter().map(|client| client.facts()).collect()
    }

    /// Returns the totals of all connections, sorted.
    pub(crate) fn totals(&self) -> Vec<ClientTotals> {
        // Under one lock: a connection that ends meanwhile counts once.
        let list = lock(&self.clients);
        let mut totals = list.ended.clone();
        for connected in list.by_id.values().filter_map(|client| client.facts().totals()) {
            connected.add_to(&mut totals, usize::MAX);
        }
        drop(list);
        totals
            .sort_by_cached_key(|totals| (totals.user.clone(), totals.host.clone(), totals.form.to_string()));
        totals
    }

    /// Returns the number of clients.
    pub(crate) fn len(&self) -> usize {
        lock(&self.clients).by_id.len()
    }

    /// Ends a connection. Returns false if there is no connection with this number.
    pub(crate) fn kill(&self, connection_id: u32) -> bool {
        let client = lock(&self.clients).by_id.get(&connection_id).cloned();
        client.inspect(|client| client.end(EndReason::Killed)).is_some()
    }

    /// Ends the running statement of a connection. Returns false if there is no connection with this number.
    pub(crate) fn kill_query(&self, connection_id: u32) -> bool {
        let client = lock(&self.clients).by_id.get(&connection_id).cloned();
        client.inspect(|client| lock(&client.state).is_query_killed = true).is_some()
    }

    /// Makes the dump of a client visible, and ends earlier dumps of the same replica: the same UUID, or without a UUID
    /// the same `server_id`. Returns the connection ids of the ended dumps.
    pub(crate) fn begin_dump(
        &self,
        registration: &ClientRegistration<'_>,
        activity: ClientActivity,
        change: impl FnOnce(&mut ClientFacts),
    ) -> Vec<u32> {
        // Under one lock: of two dumps that begin at the same time, only the later one sees the other.
        let list = lock(&self.clients);
        registration.client.change(change);
        registration.client.set_activity(activity);
        let facts = registration.client.facts();
        let others = list.by_id.values().filter(|other| !Arc::ptr_eq(other, &registration.client));
        let displaced = others.filter(|earlier| is_dump_of_same_replica(&facts, &lock(&earlier.state).facts));
        displaced
            .map(|earlier| {
                earlier.end(EndReason::Displaced);
                lock(&earlier.state).facts.connection_id
            })
            .collect()
    }

    /// Ends all connections, in order, and accepts no more.
    pub(crate) fn end_all(&self) {
        lock(&self.clients).is_closed = true;
        self.all().iter().for_each(|client| client.end(EndReason::Shutdown));
    }

    /// Closes the sockets of ended clients that read nothing: when they were ended, a write may just have begun.
    pub(crate) fn close_blocked(&self) {
        self.all().iter().filter(|client| client.is_ended_and_blocked()).for_each(|client| client.close());
    }

    /// Closes all sockets.
    pub(crate) fn close_all(&self) {
        self.all().iter().for_each(|client| client.close());
    }

    fn all(&self) -> Vec<Arc<ConnectedClient>> {
        lock(&self.clients).by_id.values().cloned().collect()
    }
}

impl ConnectedClient {
    /// Returns the facts about the client.
    pub(crate) fn facts(&self) -> ClientFacts {
        let state = lock(&self.state);
        ClientFacts { state_s: state.since.elapsed().as_secs(), ..state.facts.clone() }
    }

    /// Changes the facts about the client.
    pub(crate) fn change(&self, change: impl FnOnce(&mut ClientFacts)) {
        change(&mut lock(&self.state).facts);
    }

    /// Sets the activity of the client.
    pub(crate) fn set_activity(&self, activity: ClientActivity) {
        let mut state = lock(&self.state);
        if (state.facts.command, state.facts.state) != (activity.command, activity.state) {
            (state.facts.command, state.facts.state) = (activity.command, activity.state);
            state.since = Instant::now();
        }
    }

    /// Returns the reason for which another thread has ended the connection.
    pub(crate) fn end_reason(&self) -> Option<EndReason> {
        lock(&self.state).end
    }

    /// Returns whether another thread has ended the connection, or the client has closed it.
    pub(crate) fn is_ending(&self) -> bool {
        self.end_reason().is_some() || has_closed(&self.socket)
    }

    /// Forgets a `KILL QUERY` of the previous command.
    pub(crate) fn begin_command(&self) {
        lock(&self.state).is_query_killed = false;
    }

    /// Returns whether the running statement must end: after a `KILL QUERY`, or because the connection ends.
    pub(crate) fn interrupts_statement(&self) -> bool {
        lock(&self.state).is_query_killed || self.is_ending()
    }

    /// Records that a write begins.
    pub(crate) fn begin_write(&self) {
        lock(&self.state).writing_since = Some(Instant::now());
    }

    /// Records that the write has ended.
    pub(crate) fn end_write(&self) {
        lock(&self.state).writing_since = None;
    }

    fn close(&self) {
        // Fails if the client has closed the connection.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn is_ended_and_blocked(&self) -> bool {
        let state = lock(&self.state);
        state.end.is_some() && state.is_blocked()
    }

    /// Ends the connection: its next read fails, but the relay can still send an error. If the client gets no error, or
    /// reads nothing, a running write also fails.
    fn end(&self, reason: EndReason) {
        let mut state = lock(&self.state);
        state.end.get_or_insert(reason);
        let is_blocked = state.is_blocked();
        let closed = match reason {
            EndReason::Killed if state.facts.is_dump() => Shutdown::Both,
            EndReason::Killed | EndReason::Displaced if is_blocked => Shutdown::Both,
            _ => Shutdown::Read,
        };
        drop(state);
        // Fails if the client has closed the connection.
        let _ = self.socket.shutdown(closed);
    }
}

/// Returns whether `other` is a dump, and of the same replica.
fn is_dump_of_same_replica(replica: &ClientFacts, other: &ClientFacts) -> bool {
    other.is_dump()
        && match (&replica.server_uuid, &other.server_uuid) {
            (Some(uuid), Some(other)) => uuid == other,
            (None, None) => {
                replica.server_id.is_some_and(|id| id != 0) && replica.server_id == other.server_id
            }
            _ => false,
        }
}

/// Returns whether the client has closed its end of the connection.
fn has_closed(socket: &TcpStream) -> bool {
    let mut descriptors = [PollFd::new(socket.as_fd(), PollFlags::from_bits_retain(POLLRDHUP))];
    // If a signal interrupts the call, the next check finds the end.
    poll(&mut descriptors, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

impl ClientState {
    fn new(connection_id: u32, host: String) -> Self {
        let facts = ClientFacts {
            connection_id,
            user: "unauthenticated user".to_owned(),
            host,
            attributes: Vec::new(),
            tls_version: None,
            acknowledges: false,
            form: None,
            server_id: None,
            server_uuid: None,
            report_host: None,
            report_port: None,
            command: ClientActivity::CONNECT.command,
            state: ClientActivity::CONNECT.state,
            state_s: 0,
            position: None,
            bytes_sent: 0,
            transactions_sent: 0,
            committed_us: None,
            progress: None,
        };
        Self { facts, since: Instant::now(), writing_since: None, is_query_killed: false, end: None }
    }

    /// Returns whether a write has waited for the client for long.
    fn is_blocked(&self) -> bool {
        self.writing_since.is_some_and(|since| since.elapsed() >= BLOCKED_MIN)
    }
}

impl ClientRegistration<'_> {
    /// Records the user of the client, unless that user already has `limit` clients. Returns `false` in this case.
    pub(crate) fn admit_user(&self, user: &str, limit: Option<usize>) -> bool {
        let list = lock(&self.registry.clients);
        let is_of_user = |client: &Arc<ConnectedClient>| lock(&client.state).facts.user == user;
        let is_full = limit
            .is_some_and(|limit| list.by_id.values().filter(|client| is_of_user(client)).count() >= limit);
        if !is_full {
            self.client.change(|client| user.clone_into(&mut client.user));
        }
        !is_full
    }

    /// Records that the client has logged in. Returns false if its connection was closed meanwhile.
    pub(crate) fn finish_login(&self) -> bool {
        let mut list = lock(&self.registry.clients);
        list.end_login(self.connection_id);
        list.has(self)
    }

    /// Waits for this time, or until the connection is ended or dropped from the registry. So the registry's limit also
    /// bounds the waiting threads.
    pub(crate) fn delay_answer(&self, delay: Duration) {
        let until = Instant::now() + delay;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_over = self.client.end_reason().is_some() || !lock(&self.registry.clients).has(self);
            if left.is_zero() || is_over {
                return;
            }
            thread::sleep(left.min(DELAY_CHECK_INTERVAL));
        }
    }
}

impl ClientList {
    /// Returns whether a new connection takes the place of the oldest connection that has not logged in. A login that
    /// may still succeed is not cut: with a small `limit`, the new client gets an error instead.
    fn has_too_many_logins(&self, limit: usize) -> bool {
        if self.logging_in.len() >= LOGGING_IN_MAX.min(limit.div_ceil(2).max(LOGGING_IN_MIN)) {
            return true;
        }
        let oldest = self.logging_in.front().and_then(|oldest| self.by_id.get(oldest));
        self.by_id.len() >= limit
            && oldest.is_some_and(|oldest| lock(&oldest.state).since.elapsed() >= LOGIN_DURATION_MAX)
    }

    fn end_login(&mut self, connection_id: u32) {
        self.logging_in.retain(|id| *id != connection_id);
    }

    /// Returns whether the client is registered. Another client may have the same connection id.
    fn has(&self, registration: &ClientRegistration<'_>) -> bool {
        let client = self.by_id.get(&registration.connection_id);
        client.is_some_and(|client| Arc::ptr_eq(client, &registration.client))
    }
}

impl Drop for ClientRegistration<'_> {
    fn drop(&mut self) {
        let mut list = lock(&self.registry.clients);
        if list.has(self) {
            list.end_login(self.connection_id);
            list.by_id.remove(&self.connection_id);
            if let Some(totals) = self.client.facts().totals() {
                totals.add_to(&mut list.ended, ENDED_TOTALS_MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use relay::LogForm;

    use super::{
        BLOCKED_MIN, ClientActivity, ClientRegistration, ClientRegistry, EndReason, LOGGING_IN_MAX,
        LOGIN_DURATION_MAX, lock,
    };

    /// Returns both ends of a connection.
    fn connection(listener: &TcpListener) -> (TcpStream, Arc<TcpStream>) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, Arc::new(listener.accept().unwrap().0))
    }

    #[test]
    fn connections_without_a_login_are_dropped_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = ClientRegistry::default();
        let register = |socket| registry.register(socket, "host".to_owned(), 4000);
        let (mut oldest, socket) = connection(&listener);
        let first = register(socket).unwrap();
        let (_other, socket) = connection(&listener);
        let finished = register(socket).unwrap();
        assert!(finished.finish_login());
        let mut registered = Vec::new();
        for _ in 1..LOGGING_IN_MAX {
            let (client, socket) = connection(&listener);
            registered.push((client, register(socket).unwrap()));
        }
        assert_eq!(registry.len(), LOGGING_IN_MAX + 1);
        let (_client, socket) = connection(&listener);
        let last = register(socket).unwrap();
        assert_eq!((registry.len(), oldest.read(&mut [0]).unwrap()), (LOGGING_IN_MAX + 1, 0));
        assert!(!first.finish_login() && last.finish_login());
        drop((first, registered));
        assert_eq!(registry.len(), 2);
    }

    /// A client that may still get an error is only stopped from sending commands.
    #[test]
    fn connections_of_clients_that_read_nothing_are_closed() {
        let check = |reason, command, is_blocked, can_send| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let registry = ClientRegistry::default();
            let (_client, socket) = connection(&listener);
            let registration = registry.register(Arc::clone(&socket), "host".to_owned(), 9).unwrap();
            registration.client.set_activity(ClientActivity { command, state: "" });
            registration.client.begin_write();
            if is_blocked {
                lock(&registration.client.state).writing_since = Instant::now().checked_sub(BLOCKED_MIN);
            }
            registration.client.end(reason);
            assert_eq!((&*socket).write(b"x").is_ok(), can_send, "{reason:?} {command} {is_blocked}");
            assert!(registration.client.is_ending());
        };
        check(EndReason::Killed, "Binlog Dump", false, false);
        check(EndReason::Killed, "Query", false, true);
        check(EndReason::Killed, "Query", true, false);
        check(EndReason::Displaced, "Binlog Dump GTID", false, true);
        check(EndReason::Displaced, "Binlog Dump GTID", true, false);
        check(EndReason::Shutdown, "Binlog Dump", true, true);
    }

    #[test]
    fn delays_end_with_their_connection() {
        const DELAY: Duration = Duration::from_secs(600);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = ClientRegistry::default();
        let register = |socket| registry.register(socket, "host".to_owned(), 4000).unwrap();
        let begin = Instant::now();
        let (_client, socket) = connection(&listener);
        let ended = register(Arc::clone(&socket));
        assert!(registry.kill(ended.connection_id));
        ended.delay_answer(DELAY);
        // Too many connections that have not logged in: the oldest no longer counts.
        let dropped = register(Arc::clone(&socket));
        let _others: Vec<_> = (0..=LOGGING_IN_MAX).map(|_| register(Arc::clone(&socket))).collect();
        dropped.delay_answer(DELAY);
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn closed_connections_are_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = ClientRegistry::default();
        let (mut client, socket) = connection(&listener);
        let registration = registry.register(socket, "host".to_owned(), 9).unwrap();
        client.write_all(b"unread").unwrap();
        assert!(!registration.client.is_ending());
        drop(client);
        assert!(registration.client.is_ending());
    }

    #[test]
    fn a_killed_query_does_not_end_the_next_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = ClientRegistry::default();
        let (_client, socket) = connection(&listener);
        let registration = registry.register(socket, "host".to_owned(), 9).unwrap();
        assert!(!registration.client.interrupts_statement());
        assert!(registry.kill_query(registration.connection_id) && !registry.kill_query(77));
        assert!(registration.client.interrupts_statement() && !registration.client.is_ending());
        registration.client.begin_command();
        assert!(!registration.client.interrupts_statement());
        assert!(registry.kill(registration.connection_id));
        assert!(registration.client.interrupts_statement());
    }

    #[test]
    fn only_the_last_dump_of_a_replica_continues() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = ClientRegistry::default();
        let connections: Vec<_> = (0..8).map(|_| connection(&listener)).collect();
        let register = |socket| {
            registry.register(Arc::clone(socket), "host".to_owned(), 9).filter(|new| new.finish_login())
        };
        let clients: Vec<_> = connections.iter().filter_map(|(_, socket)| register(socket)).collect();
        let dump = ClientActivity { command: "Binlog Dump GTID", state: "" };
        std::thread::scope(|scope| {
            for client in &clients {
                scope.spawn(|| {
                    registry.begin_dump(client, dump, |facts| facts.server_uuid = Some("a".to_owned()))
                });
            }
        });
        let continues = |client: &&ClientRegistration<'_>| client.client.end_reason().is_none();
        assert_eq!((clients.len(), clients.iter().filter(continues).count()), (8, 1));
    }

    #[test]
    fn totals_include_ended_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = ClientRegistry::default();
        let connections: Vec<_> = (0..3).map(|_| connection(&listener)).collect();
        let register = |index: usize, user: &str, bytes: u64| {
            let host = format!("10.0.0.7:{}", 4000 + index);
            let registration = registry.register(Arc::clone(&connections[index].1), host, 9).unwrap();
            registration.client.change(|client| {
                (client.user, client.form) = (user.to_owned(), Some(LogForm::AsIs));
                (client.bytes_sent, client.transactions_sent) = (bytes, 1);
            });
            registration
        };
        let check = |expected: &[(&str, u64, u64)]| {
            let totals = registry.totals();
            let found: Vec<_> = totals
                .iter()
                .map(|totals| {
                    assert_eq!(totals.host, "10.0.0.7");
                    (totals.user.as_str(), totals.bytes_sent, totals.transactions_sent)
                })
                .collect();
            assert_eq!(found, expected);
        };
        let clients = [register(0, "repl", 100), register(1, "repl", 20), register(2, "app", 3)];
        check(&[("app", 3, 1), ("repl", 120, 2)]);
        let [first, second, third] = clients;
        drop((first, third));
        check(&[("app", 3, 1), ("repl", 120, 2)]);
        second.client.change(|client| client.bytes_sent += 5);
        check(&[("app", 3, 1), ("repl", 125, 2)]);
    }

    #[test]
    fn connections_are_limited() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = ClientRegistry::default();
        let connections: Vec<_> = (0..3).map(|_| connection(&listener)).collect();
        let registered: Vec<_> = connections
            .iter()
            .map(|(_, socket)| {
                let registration = registry.register(Arc::clone(socket), "host".to_owned(), 2)?;
                registration.finish_login().then_some(registration)
            })
            .collect();
        assert!(registered[0].is_some() && registered[1].is_some() && registered[2].is_none());
    }

    /// Clients that connect at the same moment do not cut each other's logins.
    #[test]
    fn logins_are_cut_only_if_they_take_too_long() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = ClientRegistry::default();
        let register = |socket| registry.register(socket, "host".to_owned(), 2);
        let connections: Vec<_> = (0..4).map(|_| connection(&listener)).collect();
        let [first, second, third, fourth] =
            [0, 1, 2, 3].map(|index: usize| Arc::clone(&connections[index].1));
        let (first, second) = (register(first).unwrap(), register(second).unwrap());
        assert!(register(third).is_none() && second.finish_login());
        lock(&first.client.state).since = Instant::now().checked_sub(LOGIN_DURATION_MAX).unwrap();
        assert!(register(fourth).unwrap().finish_login() && !first.finish_login());
    }
}
