//! Accounts of a relay's clients, and the rights of their roles.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use wire::StoredPassword;

use crate::host_pattern::HostPattern;
use crate::log_form::FormChoice;

/// Account of a relay's clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAccount {
    /// Name, at most [`RelayAccount::NAME_MAX`] characters. Accounts with different hosts may have the same name.
    pub name: String,
    /// Hosts from which clients of the account may log in.
    pub hosts: Vec<HostPattern>,
    /// Password of the account.
    pub password: StoredPassword,
    /// Role.
    pub role: AccountRole,
    /// Required security of the connection.
    pub requirement: TransportRequirement,
    /// Form of the logs for clients of the account.
    pub form: FormChoice,
    /// Maximum number of simultaneous connections; `None` for no limit per account.
    pub connections_max: Option<u32>,
}

/// Role of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccountRole {
    /// Reads the logs, and runs the queries of replicas and connectors.
    #[default]
    Replica,
    /// Watches the relay by SQL.
    Monitor,
    /// Has all rights.
    Admin,
}

/// Right required by a command or a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountRight {
    /// Reads variables of the session and of the server. All roles have this right.
    AskServer,
    /// Requests a dump and registers as a replica: `REPLICATION SLAVE` of a server.
    ReadLogs,
    /// Lists logs and replicas: `REPLICATION CLIENT` of a server.
    ShowLogs,
    /// Reads tables, and sees the connections of all accounts: `SELECT` and `PROCESS` of a server.
    ReadTables,
    /// Ends connections of other accounts: `CONNECTION_ADMIN` of a server.
    EndConnections,
    /// Changes the relay: resets sums, purges logs, controls the receiver.
    ChangeRelay,
}

/// Security of the connection, required by an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportRequirement {
    /// None.
    #[default]
    Anything,
    /// TLS, as MySQL's `REQUIRE SSL`.
    Tls,
    /// TLS and a certificate of the client that the relay trusts, as MySQL's `REQUIRE X509`.
    Certificate,
}

/// Account for a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountMatch<'a> {
    /// The account.
    pub account: &'a RelayAccount,
    /// Host pattern of the account that matches the client.
    pub host: &'a HostPattern,
}

/// Accounts of a relay, in the order in which a login tries them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayAccounts {
    accounts: Vec<RelayAccount>,
}

/// Error: the text is not the name of a role or of a requirement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}: expected {expected}")]
pub struct RoleNameError {
    text: String,
    kind: &'static str,
    expected: &'static str,
}

/// Rights of each role.
const ROLE_RIGHTS: &[(AccountRole, &[AccountRight])] = {
    use AccountRight as R;
    &[
        (AccountRole::Replica, &[R::AskServer, R::ReadLogs, R::ShowLogs]),
        (AccountRole::Monitor, &[R::AskServer, R::ShowLogs, R::ReadTables]),
        (
            AccountRole::Admin,
            &[R::AskServer, R::ReadLogs, R::ShowLogs, R::ReadTables, R::EndConnections, R::ChangeRelay],
        ),
    ]
};

impl RelayAccount {
    /// Maximum length of a name in characters, as in MySQL.
    pub const NAME_MAX: usize = 32;
}

impl AccountRole {
    /// Returns true if the role has this right.
    pub fn may(self, right: AccountRight) -> bool {
        ROLE_RIGHTS.iter().any(|(role, rights)| *role == self && rights.contains(&right))
    }
}

impl RelayAccounts {
    /// Creates a list of accounts.
    pub fn new(accounts: Vec<RelayAccount>) -> Self {
        Self { accounts }
    }

    /// Returns the account for a login: the account of this name whose matching host is the most specific. An `address`
    /// of `None` stands for a client on this machine without an address.
    pub fn find(&self, user: &[u8], address: Option<IpAddr>) -> Option<AccountMatch<'_>> {
        let named = self.accounts.iter().filter(|account| account.name.as_bytes() == user);
        let hosts =
            named.flat_map(|account| account.hosts.iter().map(move |host| AccountMatch { account, host }));
        hosts.filter(|found| found.host.matches(address)).min_by_key(|found| found.host.order())
    }

    /// Returns the accounts, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &RelayAccount> {
        self.accounts.iter()
    }

    /// Returns true if there are no accounts.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }
}

impl fmt::Display for AccountRole {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Replica => "replica",
            Self::Monitor => "monitor",
            Self::Admin => "admin",
        })
    }
}

impl FromStr for AccountRole {
    type Err = RoleNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let roles = [Self::Replica, Self::Monitor, Self::Admin];
        let error =
            || RoleNameError { text: text.to_owned(), kind: "role", expected: "replica, monitor or admin" };
        roles.into_iter().find(|role| role.to_string() == text).ok_or_else(error)
    }
}

impl fmt::Display for TransportRequirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Anything => "none",
            Self::Tls => "tls",
            Self::Certificate => "certificate",
        })
    }
}

impl FromStr for TransportRequirement {
    type Err = RoleNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let requirements = [Self::Anything, Self::Tls, Self::Certificate];
        let error = || RoleNameError {
            text: text.to_owned(),
            kind: "requirement",
            expected: "tls, certificate or none",
        };
        requirements.into_iter().find(|requirement| requirement.to_string() == text).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use wire::StoredPassword;

    use super::{AccountRight, AccountRole, RelayAccount, RelayAccounts, TransportRequirement};
    use crate::log_form::FormChoice;

    fn account(name: &str, hosts: &[&str], connections_max: u32) -> RelayAccount {
        RelayAccount {
            name: name.to_owned(),
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            password: StoredPassword::native(b"x"),
            role: AccountRole::Replica,
            requirement: TransportRequirement::Anything,
            form: FormChoice::Auto,
            connections_max: Some(connections_max),
        }
    }

    #[test]
    fn the_most_specific_host_matches() {
        let accounts = RelayAccounts::new(vec![
            account("repl", &["%"], 1),
            account("repl", &["10.0.0.0/8", "192.0.2.%"], 2),
            account("repl", &["10.1.2.3"], 3),
            account("other", &["10.1.2.3"], 4),
        ]);
        let check = |user: &str, address: &str, expected: Option<(u32, &str)>| {
            let found = accounts.find(user.as_bytes(), address.parse().ok());
            let found = found.map(|found| (found.account.connections_max.unwrap(), found.host.to_string()));
            assert_eq!(found, expected.map(|(number, host)| (number, host.to_owned())), "{user} {address}");
        };
        check("repl", "10.1.2.3", Some((3, "10.1.2.3")));
        check("repl", "10.1.2.4", Some((2, "10.0.0.0/8")));
        check("repl", "192.0.2.9", Some((2, "192.0.2.%")));
        check("repl", "198.51.100.1", Some((1, "%")));
        check("repl", "", Some((1, "%")));
        check("other", "10.1.2.4", None);
        check("Repl", "10.1.2.3", None);
        check("", "10.1.2.3", None);
    }

    #[test]
    fn roles_have_rights() {
        use AccountRight as R;
        let check =
            |role: AccountRole, right, expected| assert_eq!(role.may(right), expected, "{role} {right:?}");
        check(AccountRole::Replica, R::ReadLogs, true);
        check(AccountRole::Replica, R::ReadTables, false);
        check(AccountRole::Monitor, R::ReadLogs, false);
        check(AccountRole::Monitor, R::ReadTables, true);
        check(AccountRole::Monitor, R::EndConnections, false);
        check(AccountRole::Monitor, R::ChangeRelay, false);
        check(AccountRole::Admin, R::EndConnections, true);
        check(AccountRole::Admin, R::ChangeRelay, true);
    }
}
