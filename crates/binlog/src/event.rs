//! Table of event types: one line per type, from which all type-dependent code is generated.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::events;
use crate::format::EventFormat;
use crate::gtid::Gtid;
use crate::header::HEADER_SIZE;
use crate::raw::RawEvent;

/// Input of a body's decoder and encoder that is not in the body itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyContext<'f> {
    pub(crate) event_type: EventType,
    pub(crate) format: &'f EventFormat,
}

/// A decodable and encodable event body. `encode` returns the bytes that `decode` was given.
pub(crate) trait EventBody<'a>: Sized {
    fn decode(cursor: &mut Cursor<'a>, context: BodyContext<'_>) -> Result<Self, DecodeError>;
    fn encode(&self, context: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError>;
}

macro_rules! events {
    ($($code:literal $name:ident $shown:literal $view:ty;)*) => {
        /// Type of an event: the fifth byte of its header.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
        #[non_exhaustive]
        pub enum EventType {
            $(#[doc = concat!("Code ", stringify!($code), ", shown as `", $shown, "`.")] $name,)*
            /// Code unknown to this crate.
            Unknown(u8),
        }

        impl EventType {
            /// All types known to this crate, by code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the type with this code.
            pub const fn from_code(code: u8) -> Self {
                match code {
                    $($code => Self::$name,)*
                    unknown => Self::Unknown(unknown),
                }
            }

            /// Returns the code.
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Unknown(code) => code,
                }
            }

            /// Returns the name in `SHOW BINLOG EVENTS`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $shown,)*
                    Self::Unknown(_) => "Unknown",
                }
            }
        }

        /// Decoded body of one event: a view of the bytes it was decoded from.
        #[derive(Clone, Debug, PartialEq)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize),
            serde(tag = "type", rename_all = "snake_case")
        )]
        #[non_exhaustive]
        pub enum Event<'a> {
            $(#[doc = concat!("See [`EventType::", stringify!($name), "`].")] $name($view),)*
            /// Event of a type unknown to this crate.
            Unknown(events::Unknown<'a>),
        }

        impl<'a> Event<'a> {
            /// Decodes a raw event's body. Offsets in errors count from the event's first byte.
            pub(crate) fn decode(raw: &RawEvent<'a>, format: &EventFormat) -> Result<Self, DecodeError> {
                let event_type = raw.event_type();
                let context = BodyContext { event_type, format };
                let mut cursor = Cursor::at(raw.body(), HEADER_SIZE);
                let event = match event_type {
                    $(EventType::$name => Self::$name(EventBody::decode(&mut cursor, context)?),)*
                    EventType::Unknown(_) => Self::Unknown(EventBody::decode(&mut cursor, context)?),
                };
                cursor.finish()?;
                Ok(event)
            }

            /// Returns the type of the event.
            pub const fn event_type(&self) -> EventType {
                match self {
                    $(Self::$name(_) => EventType::$name,)*
                    Self::Unknown(unknown) => EventType::from_code(unknown.code),
                }
            }

            /// Appends the body, without header and checksum. [`Event::write`] appends a whole event.
            ///
            /// A decoded event encodes to the same bytes under the same format, if all its integers used the shortest
            /// encoding. All servers use the shortest encoding.
            ///
            /// # Errors
            ///
            /// Fails if a field exceeds its maximum or two fields contradict each other. A decoded event always
            /// encodes.
            pub fn encode(&self, format: &EventFormat, out: &mut Vec<u8>) -> Result<(), EncodeError> {
                let context = BodyContext { event_type: self.event_type(), format };
                match self {
                    $(Self::$name(body) => EventBody::encode(body, context, out),)*
                    Self::Unknown(body) => EventBody::encode(body, context, out),
                }
            }
        }
    };
}

// The names in quotes are those in `SHOW BINLOG EVENTS`.
events! {
    1   StartV3              "Start_v3"             events::Opaque<'a>;
    2   Query                "Query"                events::Query<'a>;
    3   Stop                 "Stop"                 events::Stop;
    4   Rotate               "Rotate"               events::Rotate<'a>;
    5   Intvar               "Intvar"               events::Intvar;
    6   Load                 "Load"                 events::Opaque<'a>;
    7   Slave                "Slave"                events::Opaque<'a>;
    8   CreateFile           "Create_file"          events::Opaque<'a>;
    9   AppendBlock          "Append_block"         events::LoadBlock<'a>;
    10  ExecLoad             "Exec_load"            events::Opaque<'a>;
    11  DeleteFile           "Delete_file"          events::DeleteFile;
    12  NewLoad              "New_load"             events::Opaque<'a>;
    13  Rand                 "RAND"                 events::Rand;
    14  UserVar              "User var"             events::UserVar<'a>;
    15  FormatDescription    "Format_desc"          events::FormatDescription<'a>;
    16  Xid                  "Xid"                  events::Xid;
    17  BeginLoadQuery       "Begin_load_query"     events::LoadBlock<'a>;
    18  ExecuteLoadQuery     "Execute_load_query"   events::ExecuteLoadQuery<'a>;
    19  TableMap             "Table_map"            events::TableMap<'a>;
    20  PreGaWriteRows       "Write_rows_event_old" events::Opaque<'a>;
    21  PreGaUpdateRows      "Update_rows_event_old" events::Opaque<'a>;
    22  PreGaDeleteRows      "Delete_rows_event_old" events::Opaque<'a>;
    23  WriteRowsV1          "Write_rows_v1"        events::Rows<'a>;
    24  UpdateRowsV1         "Update_rows_v1"       events::Rows<'a>;
    25  DeleteRowsV1         "Delete_rows_v1"       events::Rows<'a>;
    26  Incident             "Incident"             events::Incident<'a>;
    27  Heartbeat            "Heartbeat"            events::Heartbeat<'a>;
    28  Ignorable            "Ignorable"            events::Opaque<'a>;
    29  RowsQuery            "Rows_query"           events::RowsQuery<'a>;
    30  WriteRows            "Write_rows"           events::Rows<'a>;
    31  UpdateRows           "Update_rows"          events::Rows<'a>;
    32  DeleteRows           "Delete_rows"          events::Rows<'a>;
    33  Gtid                 "Gtid"                 events::GtidEvent<'a>;
    34  AnonymousGtid        "Anonymous_Gtid"       events::GtidEvent<'a>;
    35  PreviousGtids        "Previous_gtids"       events::PreviousGtids<'a>;
    36  TransactionContext   "Transaction_context"  events::TransactionContext<'a>;
    37  ViewChange           "View_change"          events::ViewChange<'a>;
    38  XaPrepare            "XA_prepare"           events::XaPrepare<'a>;
    39  PartialUpdateRows    "Update_rows_partial"  events::Rows<'a>;
    40  TransactionPayload   "Transaction_payload"  events::TransactionPayload<'a>;
    41  HeartbeatV2          "Heartbeat"            events::HeartbeatV2<'a>;
    42  GtidTagged           "Gtid_tagged_log_event"        events::GtidTagged<'a>;
    43  LargeTransactionHeader "Large_transaction_header" events::Opaque<'a>;
    160 MariadbAnnotateRows  "Annotate_rows"        events::MariadbAnnotateRows<'a>;
    161 MariadbBinlogCheckpoint "Binlog_checkpoint" events::MariadbBinlogCheckpoint<'a>;
    162 MariadbGtid          "Gtid"                 events::MariadbGtidEvent<'a>;
    163 MariadbGtidList      "Gtid_list"            events::MariadbGtidList<'a>;
    164 MariadbStartEncryption "Start_encryption"   events::MariadbStartEncryption<'a>;
    165 MariadbQueryCompressed "Query_compressed"   events::MariadbQueryCompressed<'a>;
    166 MariadbWriteRowsCompressedV1  "Write_rows_compressed_v1"  events::MariadbRowsCompressed<'a>;
    167 MariadbUpdateRowsCompressedV1 "Update_rows_compressed_v1" events::MariadbRowsCompressed<'a>;
    168 MariadbDeleteRowsCompressedV1 "Delete_rows_compressed_v1" events::MariadbRowsCompressed<'a>;
    169 MariadbWriteRowsCompressed    "Write_rows_compressed"     events::MariadbRowsCompressed<'a>;
    170 MariadbUpdateRowsCompressed   "Update_rows_compressed"    events::MariadbRowsCompressed<'a>;
    171 MariadbDeleteRowsCompressed   "Delete_rows_compressed"    events::MariadbRowsCompressed<'a>;
}

impl Event<'_> {
    /// Returns the identifier of the three event types that start a transaction; `None` for anonymous transactions
    /// and all other types.
    pub fn gtid(&self) -> Option<Gtid> {
        match self {
            Self::Gtid(event) | Self::AnonymousGtid(event) => event.gtid(),
            Self::GtidTagged(event) => event.gtid(),
            _ => None,
        }
    }
}
