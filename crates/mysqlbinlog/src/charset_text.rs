//! The statement that sets a session's character sets.

use std::ops::Range;

use binlog::{Collation, Flavour};
use sql::numbers::put_u32;

use crate::delimiter::end_statement;

/// Valid numbers of character sets.
const CHARSET_NUMBERS: Range<u16> = 1..2048;

/// Appends the statement that sets a session's three character sets, by collation number. Returns the client's number
/// if it is unknown.
pub(crate) fn put_charset(out: &mut Vec<u8>, charset: [u16; 3]) -> Option<u16> {
    let [client, connection, server] = charset;
    let known = Collation::new(client, Flavour::MySql);
    if let Some(collation) = &known {
        out.extend_from_slice(b"/*!\\C ");
        out.extend_from_slice(collation.charset().name().as_bytes());
        out.extend_from_slice(b" */");
        end_statement(out);
    }
    for (name, number) in [
        (b"SET @@session.character_set_client=".as_slice(), client),
        (b",@@session.collation_connection=", connection),
        (b",@@session.collation_server=", server),
    ] {
        out.extend_from_slice(name);
        put_u32(out, number.into());
    }
    end_statement(out);
    (known.is_none() && CHARSET_NUMBERS.contains(&client)).then_some(client)
}
