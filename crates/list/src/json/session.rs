//! Session variables of a statement.

use binlog::events::{OptionFlag, StatusVar, StatusVars};
use binlog::{Charset, Collation, DecodeError, EventFormat, Flavour};

use super::writer::JsonObject;

/// Writes the variables as one object, and returns the client's character set.
pub(super) fn put(
    object: &mut JsonObject<'_>,
    format: &EventFormat,
    vars: &StatusVars<'_>,
) -> Result<Option<Charset>, DecodeError> {
    let mut session = object.object("session");
    let mut charset = None;
    for var in vars.iter() {
        let var = var?;
        if let StatusVar::Charset { client, .. } = var {
            charset = Collation::new(client, format.flavour).map(|collation| collation.charset());
        }
        put_var(&mut session, format, &var);
    }
    session.close();
    Ok(charset)
}

fn put_var(session: &mut JsonObject<'_>, format: &EventFormat, var: &StatusVar<'_>) {
    match *var {
        StatusVar::Flags2(bits) => put_flags2(session, format, bits),
        StatusVar::SqlMode(mode) => session.uint("sql_mode", mode),
        StatusVar::Catalog(name) | StatusVar::CatalogNz(name) => session.text_or_bytes("catalog", name),
        StatusVar::AutoIncrement { increment, offset } => {
            session.uint("auto_increment_increment", increment);
            session.uint("auto_increment_offset", offset);
        }
        StatusVar::Charset { client, connection, server } => {
            put_charset(session, format, "character_set_client", client);
            put_collation(session, format, "collation_connection", connection);
            put_collation(session, format, "collation_server", server);
        }
        StatusVar::TimeZone(name) => session.text_or_bytes("time_zone", name),
        StatusVar::LcTimeNames(number) => session.uint("lc_time_names", number),
        StatusVar::CharsetDatabase(id) => put_collation(session, format, "collation_database", id),
        StatusVar::TableMapForUpdate(bits) => session.uint("table_map_for_update", bits),
        StatusVar::MasterDataWritten(size) => session.uint("master_data_written", size),
        StatusVar::Invoker { user, host } => {
            let mut invoker = session.object("invoker");
            invoker.text_or_bytes("user", user);
            invoker.text_or_bytes("host", host);
            invoker.close();
        }
        StatusVar::UpdatedDatabases(None) => session.value("updated_databases").extend_from_slice(b"null"),
        StatusVar::UpdatedDatabases(Some(names)) => {
            let mut databases = session.array("updated_databases");
            names.iter().for_each(|name| databases.text_or_bytes(name));
            databases.close();
        }
        StatusVar::Microseconds(micros) => session.uint("microseconds", micros),
        StatusVar::CommitTs(time) => session.uint("commit_ts", time),
        StatusVar::CommitTs2(time) => session.uint("commit_ts2", time),
        StatusVar::ExplicitDefaultsForTimestamp(value) => {
            session.uint("explicit_defaults_for_timestamp", value);
        }
        StatusVar::DdlXid(xid) => session.uint("ddl_xid", xid),
        StatusVar::DefaultCollationForUtf8mb4(id) => {
            put_collation(session, format, "default_collation_for_utf8mb4", id);
        }
        StatusVar::SqlRequirePrimaryKey(value) => session.uint("sql_require_primary_key", value),
        StatusVar::DefaultTableEncryption(value) => session.uint("default_table_encryption", value),
        StatusVar::Unknown { code, rest } => {
            let mut unknown = session.object("unknown");
            unknown.uint("code", code);
            unknown.bytes("rest", rest);
            unknown.close();
        }
        _ => {}
    }
}

fn put_flags2(session: &mut JsonObject<'_>, format: &EventFormat, bits: u32) {
    let of_mariadb = match format.flavour {
        Flavour::MariaDb => &OptionFlag::MARIADB[..],
        Flavour::MySql => &[],
    };
    let mut unknown = bits;
    for flag in OptionFlag::ALL.iter().chain(of_mariadb) {
        unknown &= !flag.bit;
        session.boolean(flag.variable, flag.is_on(bits));
    }
    if unknown != 0 {
        session.uint("flags2_unknown", unknown);
    }
}

/// Writes a collation's name, or its number if it is unknown.
pub(super) fn put_collation(object: &mut JsonObject<'_>, format: &EventFormat, name: &'static str, id: u16) {
    match Collation::new(id, format.flavour) {
        Some(collation) => object.plain(name, &collation.name()),
        None => object.uint(name, id),
    }
}

fn put_charset(object: &mut JsonObject<'_>, format: &EventFormat, name: &'static str, id: u16) {
    match Collation::new(id, format.flavour) {
        Some(collation) => object.plain(name, collation.charset().name()),
        None => object.uint(name, id),
    }
}
