//! Capabilities of clients and servers.

use std::fmt;
use std::ops::BitOr;

/// Capability flags of one side of a connection. A connection uses the flags that both sides have. Unknown flags are
/// kept.
///
/// The upper 32 flags are specific to MariaDB.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Capabilities(pub u64);

/// Defines the constants and the table of their names.
macro_rules! capabilities {
    ($($(#[$doc:meta])* $bit:literal, $name:ident;)*) => {
        impl Capabilities {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
        }

        /// Names of the known flags.
        const NAMES: &[(Capabilities, &str)] = &[$((Capabilities::$name, stringify!($name)),)*];
    };
}

capabilities! {
    /// `CLIENT_LONG_PASSWORD`. MariaDB servers lack this flag. Clients recognize MariaDB by this.
    0, LONG_PASSWORD;
    /// UPDATE counts the rows found instead of the rows changed.
    1, FOUND_ROWS;
    /// All column flags are sent.
    2, LONG_FLAG;
    /// The login request names a database.
    3, CONNECT_WITH_DB;
    /// Packets are compressed with zlib after the handshake.
    5, COMPRESS;
    /// `LOAD DATA LOCAL`.
    7, LOCAL_FILES;
    /// Packets of MySQL 4.1 and later, the only ones supported here.
    9, PROTOCOL_41;
    /// The connection can switch to TLS.
    11, SSL;
    /// Responses have the transaction state.
    13, TRANSACTIONS;
    /// Authentication of MySQL 4.1 and later.
    15, SECURE_CONNECTION;
    /// A query may hold several statements.
    16, MULTI_STATEMENTS;
    /// A query may have several results.
    17, MULTI_RESULTS;
    /// A prepared statement may have several results.
    18, PS_MULTI_RESULTS;
    /// Authentication plugins, which can differ between accounts.
    19, PLUGIN_AUTH;
    /// The client sends connection attributes (names and values).
    20, CONNECT_ATTRS;
    /// Authentication data can be longer than 255 bytes.
    21, PLUGIN_AUTH_LENENC_CLIENT_DATA;
    /// The client can log in with an expired password to change it.
    22, CAN_HANDLE_EXPIRED_PASSWORDS;
    /// OK packets have changes of the session state.
    23, SESSION_TRACK;
    /// Result sets end with an OK packet instead of an EOF packet.
    24, DEPRECATE_EOF;
    /// Packets are compressed with zstd after the handshake.
    26, ZSTD_COMPRESSION_ALGORITHM;
    /// A query can have attributes.
    27, QUERY_ATTRIBUTES;
    /// Accounts can have several authentication factors, requested one after another.
    28, MULTI_FACTOR_AUTHENTICATION;
    /// MariaDB: the server reports progress.
    32, MARIADB_PROGRESS;
    /// MariaDB: columns have extended type information.
    35, MARIADB_EXTENDED_METADATA;
    /// MariaDB: the server does not send column definitions again that the client already knows.
    36, MARIADB_CACHE_METADATA;
}

impl Capabilities {
    /// Returns true if all of `others` are set.
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the flags set in both.
    #[must_use]
    pub const fn both(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Returns the flags without `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

impl BitOr for Capabilities {
    type Output = Self;

    fn bitor(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

/// Shows the names of known flags, and a number for unknown ones.
impl fmt::Debug for Capabilities {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = NAMES.iter().filter(|(one, _)| self.contains(*one));
        let rest = named.clone().fold(*self, |rest, (one, _)| rest.without(*one));
        let mut set = out.debug_set();
        set.entries(named.map(|(_, name)| name));
        if rest != Self::default() {
            set.entry(&rest.0);
        }
        set.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Capabilities;

    #[test]
    fn capabilities_are_shown_by_name() {
        let some = Capabilities::SSL | Capabilities::COMPRESS | Capabilities(1 << 60);
        assert_eq!(format!("{some:?}"), r#"{"COMPRESS", "SSL", 1152921504606846976}"#);
    }
}
