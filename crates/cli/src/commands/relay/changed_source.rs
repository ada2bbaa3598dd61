//! Address of a source after `CHANGE REPLICATION SOURCE TO`.

use relay::{SourceChange, SourceOption};
use servers::{ConnectionOptions, PasswordSource, PublicKeySource, ServerAddress, SslMode};
use wire::ServerError;

/// Returns the address with the changes.
///
/// # Errors
///
/// Fails if a value is impossible, or the settings of TLS contradict each other.
pub(super) fn changed_source(
    before: &ServerAddress,
    change: &SourceChange,
) -> Result<ServerAddress, ServerError> {
    let mut address = before.clone();
    if change.host.is_some() || change.port.is_some() {
        address.socket = None;
    }
    change.host.iter().for_each(|host| address.host.clone_from(host));
    address.port = change.port.unwrap_or(address.port);
    change.user.iter().for_each(|user| address.user.clone_from(user));
    if let Some(password) = &change.password {
        address.password = match password.as_str() {
            "" => PasswordSource::None,
            password => PasswordSource::Text(password.to_owned()),
        };
    }
    for option in &change.options {
        set_option(&mut address, option)?;
    }
    set_public_key(&mut address, change);
    address.tls.mode = ssl_mode(&address, change);
    address.tls.check().map_err(|error| wrong_arguments("SOURCE_SSL", &error))?;
    Ok(address)
}

fn set_option(address: &mut ServerAddress, option: &SourceOption) -> Result<(), ServerError> {
    let mut parsed = ConnectionOptions::default();
    if !option.value.is_empty() {
        parsed
            .set(option.name, Some(&option.value))
            .map_err(|error| wrong_arguments(option.sql_name, &error))?;
    }
    let (tls, new) = (&mut address.tls, parsed.tls);
    match option.name {
        "ssl-ca" => tls.authorities = new.authorities,
        "ssl-capath" => tls.authority_directory = new.authority_directory,
        "ssl-crl" => tls.revocations = new.revocations,
        "ssl-crlpath" => tls.revocation_directory = new.revocation_directory,
        "ssl-cert" => tls.certificate = new.certificate,
        "ssl-key" => tls.key = new.key,
        "ssl-cipher" => tls.ciphers = new.ciphers,
        "tls-ciphersuites" => tls.suites = new.suites,
        "tls-version" => tls.versions = new.versions.unwrap_or_default(),
        "server-public-key-path" => {
            address.public_key =
                parsed.public_key_file.map_or(PublicKeySource::Unknown, PublicKeySource::File);
        }
        name => return Err(wrong_arguments(option.sql_name, &format!("{name} is not supported"))),
    }
    Ok(())
}

fn set_public_key(address: &mut ServerAddress, change: &SourceChange) {
    match (change.asks_public_key, &address.public_key) {
        // A key file is safer.
        (Some(true), PublicKeySource::Unknown) => address.public_key = PublicKeySource::Server,
        (Some(false), PublicKeySource::Server) => address.public_key = PublicKeySource::Unknown,
        _ => {}
    }
}

/// Returns the encryption mode. As on a server, a named authority implies verification. A change of other options keeps
/// the mode.
fn ssl_mode(address: &ServerAddress, change: &SourceChange) -> SslMode {
    let (tls, before) = (&address.tls, address.tls.mode);
    let names_tls = change.options.iter().any(|option| option.name.starts_with("ssl-"));
    if change.is_encrypted.is_none() && change.is_verified.is_none() && !names_tls {
        return before;
    }
    let has_authority = tls.authorities.is_some() || tls.authority_directory.is_some();
    let is_verified = change.is_verified.unwrap_or(before == SslMode::VerifyIdentity);
    match change.is_encrypted.unwrap_or(before >= SslMode::Required || has_authority) {
        false if change.is_encrypted.is_none() && !is_verified => before,
        false if change.is_encrypted.is_some() => SslMode::Disabled,
        _ if is_verified => SslMode::VerifyIdentity,
        _ if has_authority => SslMode::VerifyCa,
        _ => SslMode::Required,
    }
}

/// Returns `ER_WRONG_ARGUMENTS`.
fn wrong_arguments(name: &str, why: &impl ToString) -> ServerError {
    ServerError::new(1210, "HY000", format!("Incorrect arguments to {name}: {}", why.to_string()))
}

#[cfg(test)]
mod tests {
    use relay::{SourceChange, SourceOption};
    use servers::{CancelToken, ServerAddress, SslMode};

    use super::changed_source;

    fn option(name: &'static str, value: &str) -> Vec<SourceOption> {
        vec![SourceOption { sql_name: "SOURCE_X", name, value: value.to_owned() }]
    }

    fn changed(before: &str, change: &SourceChange) -> Result<ServerAddress, String> {
        let before = ServerAddress::parse(before).unwrap();
        changed_source(&before, change).map_err(|error| error.message)
    }

    #[test]
    fn unnamed_options_keep_their_values() {
        let check = |before: &str, change: SourceChange, expected: &str, password: &str| {
            let address = changed(before, &change).unwrap();
            assert_eq!(address.to_string(), expected);
            assert_eq!(address.password.read(&CancelToken::default()).unwrap(), password);
            assert!(!format!("{change:?}").contains("secret"));
        };
        let none = SourceChange::default;
        let text = |text: &str| Some(text.to_owned());
        check("mysql://r:p@a:1/", SourceChange { host: text("b"), ..none() }, "mysql://r@b:1/", "p");
        check("mysql://r:p@a:1/", SourceChange { port: Some(2), ..none() }, "mysql://r@a:2/", "p");
        let login = SourceChange { user: text("s"), password: text("secret"), ..none() };
        check("mysql://r:p@a:1/", login, "mysql://s@a:1/", "secret");
        check("mysql://r:p@a:1/", SourceChange { password: text(""), ..none() }, "mysql://r@a:1/", "");
        let socket = "mysql://r@x/?socket=/run/my.sock";
        check(
            socket,
            SourceChange { user: text("s"), ..none() },
            "mysql://s@localhost/?socket=/run/my.sock",
            "",
        );
        check(socket, SourceChange { port: Some(2), ..none() }, "mysql://r@localhost:2/", "");
    }

    #[test]
    fn ssl_mode_follows_the_tls_options() {
        let check = |before: &str, change: SourceChange, expected: SslMode| {
            assert_eq!(changed(before, &change).unwrap().tls.mode, expected, "{before} {change:?}");
        };
        let none = SourceChange::default;
        let encrypted = |is_encrypted| SourceChange { is_encrypted: Some(is_encrypted), ..none() };
        let verified = |is_verified| SourceChange { is_verified: Some(is_verified), ..none() };
        let any = "mysql://r@a/";
        check(any, none(), SslMode::Preferred);
        check(any, encrypted(true), SslMode::Required);
        check(any, encrypted(false), SslMode::Disabled);
        check(any, verified(false), SslMode::Preferred);
        check(any, SourceChange { options: option("ssl-cert", "c"), ..none() }, SslMode::Preferred);
        check(any, SourceChange { options: option("ssl-ca", "f"), ..none() }, SslMode::VerifyCa);
        check(
            any,
            SourceChange { options: option("ssl-ca", "f"), ..verified(true) },
            SslMode::VerifyIdentity,
        );
        check(any, SourceChange { options: option("ssl-ca", "f"), ..encrypted(false) }, SslMode::Disabled);
        let identity = "mysql://r@a/?tls-ca=f";
        check(identity, SourceChange { port: Some(1), ..none() }, SslMode::VerifyIdentity);
        check(identity, encrypted(true), SslMode::VerifyIdentity);
        check(identity, verified(false), SslMode::VerifyCa);
        let error = changed(any, &verified(true)).unwrap_err();
        assert!(error.starts_with("Incorrect arguments to SOURCE_SSL: "), "{error}");
        let odd = SourceChange { options: option("tls-version", "TLSv1.1"), ..none() };
        let expected =
            "Incorrect arguments to SOURCE_X: tls-version has TLSv1.1; expected TLSv1.2 or TLSv1.3";
        assert_eq!(changed(any, &odd).unwrap_err(), expected);
    }
}
