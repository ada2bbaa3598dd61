//! What each side of a connection can do.

use std::fmt;
use std::ops::BitOr;

/// What each side of a connection can do: a connection does what both can. Unknown ones are kept.
///
/// The upper 32 are MariaDB's own.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Capabilities(pub u64);

/// Makes the constants and the table of their names.
macro_rules! capabilities {
    ($($(#[$doc:meta])* $bit:literal, $name:ident;)*) => {
        impl Capabilities {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
        }

        /// The name of each that has one.
        const NAMES: &[(Capabilities, &str)] = &[$((Capabilities::$name, stringify!($name)),)*];
    };
}

capabilities! {
    /// `CLIENT_LONG_PASSWORD`. A MariaDB server does not have it: this is how a client knows one.
    0, LONG_PASSWORD;
    /// An UPDATE counts the rows that it finds, and not those that it changes.
    1, FOUND_ROWS;
    /// All flags of columns are sent.
    2, LONG_FLAG;
    /// The client's answer to the greeting names a database.
    3, CONNECT_WITH_DB;
    /// Packets are compressed by zlib once the client is let in.
    5, COMPRESS;
    /// `LOAD DATA LOCAL`.
    7, LOCAL_FILES;
    /// The packets of MySQL 4.1 and later: the only ones that this crate knows.
    9, PROTOCOL_41;
    /// The connection can go over to TLS.
    11, SSL;
    /// Answers say whether a transaction is open.
    13, TRANSACTIONS;
    /// Passwords are proved, as from MySQL 4.1 on.
    15, SECURE_CONNECTION;
    /// A query may hold several statements.
    16, MULTI_STATEMENTS;
    /// A query may have several results.
    17, MULTI_RESULTS;
    /// How passwords are proved has a name, and can be another one for each account.
    19, PLUGIN_AUTH;
    /// The client says what it is, in names and values.
    20, CONNECT_ATTRS;
    /// The proof of a password can have more than 255 bytes.
    21, PLUGIN_AUTH_LENENC_CLIENT_DATA;
    /// The client can be let in with an expired password, to change it.
    22, CAN_HANDLE_EXPIRED_PASSWORDS;
    /// OK packets say what has changed in the session.
    23, SESSION_TRACK;
    /// Results end in an OK packet, and not in an EOF packet.
    24, DEPRECATE_EOF;
    /// Packets are compressed by zstd once the client is let in.
    26, ZSTD_COMPRESSION_ALGORITHM;
    /// A query can have attributes.
    27, QUERY_ATTRIBUTES;
    /// Accounts can have several passwords, asked for one after the other.
    28, MULTI_FACTOR_AUTHENTICATION;
    /// MariaDB: a server says how far it is.
    32, MARIADB_PROGRESS;
    /// MariaDB: columns say more of their type.
    35, MARIADB_EXTENDED_METADATA;
    /// MariaDB: columns that the client knows already are not sent again.
    36, MARIADB_CACHE_METADATA;
}

impl Capabilities {
    /// Are all of `others` among these?
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Those that are in both.
    #[must_use]
    pub const fn both(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// These, but none of `others`.
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

/// Names, and a number for what has none.
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
    fn are_shown_by_name() {
        let some = Capabilities::SSL | Capabilities::COMPRESS | Capabilities(1 << 60);
        assert_eq!(format!("{some:?}"), r#"{"COMPRESS", "SSL", 1152921504606846976}"#);
    }
}
