//! Text form of an address: `mysql://user:password@host:port/?name=value`.

use percent_encoding::percent_decode_str;

use crate::connection_options::{
    ConnectionOptions, OptionRecognition, PASSWORD, PasswordOption, PasswordOptionCheck, not_an_option,
};
use crate::password_source::PasswordSource;
use crate::server_address::AddressError;

/// Prefix of every address.
const SCHEME: &str = "mysql://";

/// Error for a text without this prefix.
const NOT_AN_ADDRESS: &str = "the address does not start with mysql://: expected mysql://USER@HOST:PORT/ or \
     mysql://USER@localhost/?socket=FILE";

impl ConnectionOptions {
    /// Parses the text of an address: `mysql://user:password@host:port/?name=value&…`. Every part is optional.
    ///
    /// # Errors
    ///
    /// Fails if the text is not an address, or has an option that is not a connection option. The error contains no
    /// user or password.
    pub fn of_address(text: &str) -> Result<Self, AddressError> {
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| fail(NOT_AN_ADDRESS))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        // All text before the last @ may belong to a user or a password: errors must not show it.
        if database.contains('@') || !authority.contains('@') && query.contains('@') {
            return Err(unescaped());
        }
        let has_account = authority.contains('@');
        if !database.is_empty() {
            return Err(match has_account {
                true => fail(format!(
                    "{database} names a database: remove it, because the logs name their databases"
                )),
                false => {
                    fail("the address names a database: remove it, because the logs name their databases")
                }
            });
        }
        let (account, endpoint) = match authority.rsplit_once('@') {
            Some((account, endpoint)) => (Some(account), endpoint),
            None => (None, authority),
        };
        let (mut options, mut passwords) = (Self::default(), PasswordOptionCheck::default());
        if let Some(account) = account {
            let (user, password) = account.split_once(':').map_or((account, None), |(u, p)| (u, Some(p)));
            options.user = Some(decode(user)?).filter(|user| !user.is_empty());
            let password = password.map(decode).transpose()?;
            if let Some(text) = password {
                options.password = Some(PasswordOption::Source(PasswordSource::Text(text)));
                passwords.take(PASSWORD).map_err(fail)?;
            }
        }
        options.set_endpoint(endpoint, has_account)?;
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) =
                option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
            let value = value.map(decode).transpose()?;
            let taken = passwords.take(name).and_then(|()| options.set(name, value.as_deref()));
            // With an @ in the query, the text may be the rest of a password with an unescaped ?.
            match taken {
                Ok(OptionRecognition::Taken) => {}
                _ if query.contains('@') => return Err(unescaped()),
                Ok(OptionRecognition::Unknown) => {
                    return Err(fail(not_an_option(name)));
                }
                Err(why) => return Err(fail(why)),
            }
        }
        Ok(options)
    }

    /// Sets the host and the port. Without an account in the text, host and port may be parts of an account, so errors
    /// do not show them.
    fn set_endpoint(&mut self, endpoint: &str, has_account: bool) -> Result<(), AddressError> {
        let (host, port) = match endpoint.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => endpoint.split_once(':').map_or((endpoint, None), |(host, port)| (host, Some(port))),
        };
        if let Some(port) = port {
            let number = port.parse().map_err(|_| match has_account {
                true => fail(format!("{port} is not a port number")),
                false => fail("the text after the : is not a port number"),
            })?;
            self.port = Some(number);
        }
        if host.is_empty() && !endpoint.is_empty() {
            return Err(fail("the address has no host"));
        }
        self.host = Some(decode(host)?).filter(|host| !host.is_empty());
        Ok(())
    }
}

fn decode(text: &str) -> Result<String, AddressError> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| fail("the address is not UTF-8 after percent-decoding"))?.into_owned())
}

fn fail(reason: impl Into<String>) -> AddressError {
    AddressError::new(reason)
}

fn unescaped() -> AddressError {
    fail(
        "the user or password contains a reserved character: write / as %2F, ? as %3F, @ as %40, \
         : as %3A, # as %23 and % as %25",
    )
}

#[cfg(test)]
mod tests {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

    use crate::connection_options::{ConnectionOptions, PasswordOption};
    use crate::password_source::PasswordSource;

    fn password(text: &str) -> Option<PasswordOption> {
        Some(PasswordOption::Source(PasswordSource::Text(text.to_owned())))
    }

    #[test]
    fn parts_of_addresses() {
        let check = |text: &str, host: Option<&str>, port: Option<u16>, user: Option<&str>| {
            let options = ConnectionOptions::of_address(text).unwrap();
            let found = (options.host.as_deref(), options.port, options.user.as_deref());
            assert_eq!(found, (host, port, user), "{text}");
        };
        check("mysql://", None, None, None);
        check("mysql://h", Some("h"), None, None);
        check("mysql://u@h:7/", Some("h"), Some(7), Some("u"));
        check("mysql://u:p@[::1]:7", Some("::1"), Some(7), Some("u"));
        check("mysql://u@/?socket=/s", None, None, Some("u"));
        check("mysql:///?host=h&port=7&user=u", Some("h"), Some(7), Some("u"));
        check("mysql://u@h/?ssl-ca=/a@b", Some("h"), None, Some("u"));
    }

    #[test]
    fn errors_do_not_show_accounts() {
        let hosts = ["h", "h:3306", "127.0.0.1:3306/", "h/?ssl-mode=odd", "h:odd", "h/?odd=1", "h/path", ""];
        for letter in ["/", "@", "?", "#", "%", "&", "=", ":", "[", "%zz", "%ff"] {
            for secret in [format!("se{letter}cret"), format!("{letter}secret"), format!("secret{letter}")] {
                for host in hosts {
                    for text in [
                        format!("mysql://root:{secret}@{host}"),
                        format!("mysql://{secret}:{secret}@{host}"),
                        format!("mysql://root:{secret}"),
                        format!("root:{secret}@{host}"),
                    ] {
                        let Err(error) = ConnectionOptions::of_address(&text) else { continue };
                        let error = error.to_string();
                        let shows = ["secret", "cret", "root"].into_iter().find(|word| error.contains(word));
                        assert_eq!(shows, None, "{text}: {error}");
                    }
                }
            }
        }
    }

    #[test]
    fn addresses_have_one_password_option() {
        let check = |text: &str, expected: &str| {
            let error = ConnectionOptions::of_address(text).unwrap_err().to_string();
            assert_eq!(error, format!("{expected} exclude each other: give only one of them"), "{text}");
        };
        check("mysql://u:secret@h/?password-file=f", "password and password-file");
        check("mysql://u@h/?password_command=c&password-file=f", "password-command and password-file");
        assert!(ConnectionOptions::of_address("mysql://u:a@h/?password=b").is_ok());
    }

    #[test]
    fn parts_without_an_account_are_not_shown() {
        let check = |text: &str, expected: &str| {
            assert_eq!(ConnectionOptions::of_address(text).unwrap_err().to_string(), expected);
        };
        check("mysql://u@h:x", "x is not a port number");
        check("mysql://h:x", "the text after the : is not a port number");
        check("mysql://u@h/shop", "shop names a database: remove it, because the logs name their databases");
        check(
            "mysql://h/shop",
            "the address names a database: remove it, because the logs name their databases",
        );
    }

    #[test]
    fn errors_name_the_remedy() {
        for text in ["mysql://root:se/cret@h/", "mysql://root:se?cret@h/", "mysql://root:s@e?cret@h/"] {
            let error = ConnectionOptions::of_address(text).unwrap_err().to_string();
            assert!(error.contains("write / as %2F, ? as %3F, @ as %40"), "{text}: {error}");
        }
    }

    #[test]
    fn every_password_can_be_escaped() {
        let secret = "a/b@c?d#e%f:g&h=i[j]k l\"é";
        let text = format!("mysql://root:{}@h/", utf8_percent_encode(secret, NON_ALPHANUMERIC));
        assert_eq!(ConnectionOptions::of_address(&text).unwrap().password, password(secret));
        // These characters need not be escaped.
        let plain = "a@b#c%d";
        let text = format!("mysql://root:{plain}@h/");
        assert_eq!(ConnectionOptions::of_address(&text).unwrap().password, password(plain));
    }
}
