//! Changes of the session's state, in OK packets.

use binlog::put_lenenc;

use crate::generic_packets::put_lenenc_bytes;

/// Change of the session's state, reported in an OK packet with
/// [`Capabilities::SESSION_TRACK`](crate::Capabilities::SESSION_TRACK).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange<'a> {
    /// A system variable has a new value.
    Variable {
        /// Name of the variable.
        name: &'a [u8],
        /// New value.
        value: &'a [u8],
    },
    /// Another default database; empty for none.
    Database(&'a [u8]),
    /// The state has changed.
    State,
    /// GTIDs of the transactions that the statement has committed, as text.
    Gtids(&'a [u8]),
}

impl SessionChange<'_> {
    /// Encodes changes, for [`OkPacket::session_state`](crate::OkPacket::session_state). The packet's status must have
    /// [`ServerStatus::SESSION_STATE_CHANGED`](crate::ServerStatus::SESSION_STATE_CHANGED).
    // Source: "OK_Packet" of the MySQL source documentation, `enum_session_state_type` of include/mysql_com.h.
    // size  field
    //  for each change
    //    1  kind
    //    *  lenenc size of the rest, then its fields, each with a lenenc size
    pub fn encode_all(changes: &[Self]) -> Vec<u8> {
        let mut out = Vec::new();
        for change in changes {
            let mut fields = Vec::new();
            let kind = match change {
                Self::Variable { name, value } => {
                    put_lenenc_bytes(&mut fields, name);
                    put_lenenc_bytes(&mut fields, value);
                    0
                }
                Self::Database(name) => {
                    put_lenenc_bytes(&mut fields, name);
                    1
                }
                Self::State => {
                    put_lenenc_bytes(&mut fields, b"1");
                    2
                }
                Self::Gtids(text) => {
                    // The format of the GTIDs: text.
                    put_lenenc(&mut fields, 0);
                    put_lenenc_bytes(&mut fields, text);
                    3
                }
            };
            out.push(kind);
            put_lenenc_bytes(&mut out, &fields);
        }
        out
    }
}
