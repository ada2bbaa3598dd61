//! Options of Debezium's records, under the names of its connector's properties.

use std::ffi::OsStr;

use anyhow::anyhow;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, ValueEnum};
use stream::{
    BinaryMode, ColumnPatterns, ColumnRules, ColumnSelection, DecimalMode, Envelope, MaskRule, MessageKeys,
    TimeMode, UnsignedBigintMode, ValueModes,
};

use crate::exit::CommandFailure;

/// Options of Debezium's records.
#[derive(Args, Debug)]
#[command(next_help_heading = "Records of Debezium (names and values of its connector's properties)")]
pub(super) struct DebeziumArgs {
    /// Form of DECIMAL [default: precise]
    #[arg(long, value_enum, value_name = "MODE")]
    decimal_handling_mode: Option<DecimalForm>,
    /// Form of BIGINT UNSIGNED [default: long]
    #[arg(long, value_enum, value_name = "MODE")]
    bigint_unsigned_handling_mode: Option<UnsignedBigintForm>,
    /// Form of DATE, TIME and DATETIME [default: adaptive_time_microseconds]
    #[arg(long, value_enum, value_name = "MODE")]
    time_precision_mode: Option<TimeForm>,
    /// Form of BINARY, VARBINARY and BLOB [default: bytes]
    #[arg(long, value_enum, value_name = "MODE")]
    binary_handling_mode: Option<BinaryForm>,
    /// Write only these columns: regular expressions for DATABASE.TABLE.COLUMN, separated by commas. Keys of records
    /// always have all their columns.
    #[arg(long, value_name = "COLUMNS", conflicts_with = "column_exclude_list")]
    column_include_list: Option<ColumnPatterns>,
    /// Do not write these columns.
    #[arg(long, value_name = "COLUMNS")]
    column_exclude_list: Option<ColumnPatterns>,
    /// Cut texts of these columns to LENGTH characters, and byte strings to LENGTH bytes. Repeatable: if a column has
    /// several rules, the first one applies: --column-truncate, then --column-mask, then --column-mask-hash.
    #[arg(long, value_name = "LENGTH:COLUMNS", value_parser = MaskRule::parse_truncation)]
    column_truncate: Vec<MaskRule>,
    /// Replace texts of these columns, and NULL, by LENGTH asterisks. Repeatable.
    #[arg(long, value_name = "LENGTH:COLUMNS", value_parser = MaskRule::parse_replacement)]
    column_mask: Vec<MaskRule>,
    /// Replace texts of these columns by their hash (MD5, SHA-1, SHA-224, SHA-256, SHA-384 or SHA-512) with a salt.
    /// Repeatable. Other users of this machine can see a salt on the command line: put it into the settings file.
    #[arg(long, value_name = "ALGORITHM:SALT:COLUMNS", value_parser = MaskHashParser)]
    column_mask_hash: Vec<MaskRule>,
    /// Columns of keys, instead of the primary key: DATABASE.TABLE:COLUMN,COLUMN;… with regular expressions for tables.
    #[arg(long, value_name = "KEYS")]
    message_key_columns: Option<MessageKeys>,
}

/// Value of `--decimal-handling-mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DecimalForm {
    /// Unscaled number as base64
    Precise,
    /// Nearest double-precision number
    Double,
    /// Text
    String,
}

/// Value of `--bigint-unsigned-handling-mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum UnsignedBigintForm {
    /// Number; from 2^63 on, it is negative
    Long,
    /// Number as base64
    Precise,
}

/// Value of `--time-precision-mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TimeForm {
    /// TIME in microseconds; DATETIME in milliseconds, with more than three fractional digits in microseconds
    #[value(name = "adaptive_time_microseconds")]
    AdaptiveTimeMicroseconds,
    /// TIME and DATETIME in milliseconds
    Connect,
    /// Text such as 2026-11-21T10:20:30.5Z
    #[value(name = "isostring")]
    IsoString,
    /// Microseconds
    Microseconds,
    /// Nanoseconds
    Nanoseconds,
}

/// Value of `--binary-handling-mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum BinaryForm {
    /// Bytes; in JSON, base64
    Bytes,
    /// Base64
    Base64,
    /// Base64 with - and _ instead of + and /
    Base64UrlSafe,
    /// Hexadecimal digits
    Hex,
}

/// Parser of `--column-mask-hash`. Its errors never show the value, which contains a salt.
#[derive(Clone, Copy, Debug)]
struct MaskHashParser;

impl TypedValueParser for MaskHashParser {
    type Value = MaskRule;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<MaskRule, clap::Error> {
        let rule = match value.to_str() {
            Some(text) => MaskRule::parse_hash(text).map_err(|error| error.to_string()),
            None => Err("expected UTF-8".to_owned()),
        };
        rule.map_err(|reason| {
            let option = arg.map_or_else(|| "--column-mask-hash".to_owned(), Arg::to_string);
            let text = format!("invalid value for '{option}': {reason}\n");
            clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
        })
    }
}

impl DebeziumArgs {
    /// Checks that the options are given only with Debezium's format.
    pub(super) fn check(&self, envelope: Envelope) -> Result<(), CommandFailure> {
        let given = [
            (self.decimal_handling_mode.is_some(), "--decimal-handling-mode"),
            (self.bigint_unsigned_handling_mode.is_some(), "--bigint-unsigned-handling-mode"),
            (self.time_precision_mode.is_some(), "--time-precision-mode"),
            (self.binary_handling_mode.is_some(), "--binary-handling-mode"),
            (self.column_include_list.is_some(), "--column-include-list"),
            (self.column_exclude_list.is_some(), "--column-exclude-list"),
            (!self.column_truncate.is_empty(), "--column-truncate"),
            (!self.column_mask.is_empty(), "--column-mask"),
            (!self.column_mask_hash.is_empty(), "--column-mask-hash"),
            (self.message_key_columns.is_some(), "--message-key-columns"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) if envelope != Envelope::Debezium => {
                Err(CommandFailure::NotStarted(anyhow!("{option}: needs --format debezium")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses options that hide values of columns, because records have the statements, which contain these values.
    pub(super) fn refuse_beside_queries(&self) -> Result<(), CommandFailure> {
        let given = [
            (self.column_include_list.is_some(), "--column-include-list"),
            (self.column_exclude_list.is_some(), "--column-exclude-list"),
            (!self.column_truncate.is_empty(), "--column-truncate"),
            (!self.column_mask.is_empty(), "--column-mask"),
            (!self.column_mask_hash.is_empty(), "--column-mask-hash"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => Err(CommandFailure::NotStarted(anyhow!(
                "--queries and {option} exclude each other: the statements of --queries contain the values that \
                 {option} hides: leave out one of them"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the rules for columns.
    pub(super) fn rules(&self) -> ColumnRules {
        let selection = match (&self.column_include_list, &self.column_exclude_list) {
            (Some(columns), _) => ColumnSelection::Include(columns.clone()),
            (None, Some(columns)) => ColumnSelection::Exclude(columns.clone()),
            (None, None) => ColumnSelection::All,
        };
        // In the order in which the connector applies them.
        let masks = [&self.column_truncate[..], &self.column_mask, &self.column_mask_hash].concat();
        let keys = self.message_key_columns.clone().unwrap_or_default();
        ColumnRules { selection, masks, keys }
    }

    /// Returns the forms of values.
    pub(super) fn modes(&self) -> ValueModes {
        ValueModes {
            decimals: self.decimal_handling_mode.map_or_else(DecimalMode::default, DecimalMode::from),
            unsigned_bigints: self
                .bigint_unsigned_handling_mode
                .map_or_else(UnsignedBigintMode::default, UnsignedBigintMode::from),
            times: self.time_precision_mode.map_or_else(TimeMode::default, TimeMode::from),
            bytes: self.binary_handling_mode.map_or_else(BinaryMode::default, BinaryMode::from),
        }
    }
}

impl From<DecimalForm> for DecimalMode {
    fn from(form: DecimalForm) -> Self {
        match form {
            DecimalForm::Precise => Self::Precise,
            DecimalForm::Double => Self::Double,
            DecimalForm::String => Self::Text,
        }
    }
}

impl From<UnsignedBigintForm> for UnsignedBigintMode {
    fn from(form: UnsignedBigintForm) -> Self {
        match form {
            UnsignedBigintForm::Long => Self::Long,
            UnsignedBigintForm::Precise => Self::Precise,
        }
    }
}

impl From<TimeForm> for TimeMode {
    fn from(form: TimeForm) -> Self {
        match form {
            TimeForm::AdaptiveTimeMicroseconds => Self::AdaptiveTimeMicroseconds,
            TimeForm::Connect => Self::Connect,
            TimeForm::IsoString => Self::IsoString,
            TimeForm::Microseconds => Self::Microseconds,
            TimeForm::Nanoseconds => Self::Nanoseconds,
        }
    }
}

impl From<BinaryForm> for BinaryMode {
    fn from(form: BinaryForm) -> Self {
        match form {
            BinaryForm::Bytes => Self::Bytes,
            BinaryForm::Base64 => Self::Base64,
            BinaryForm::Base64UrlSafe => Self::Base64UrlSafe,
            BinaryForm::Hex => Self::Hex,
        }
    }
}
