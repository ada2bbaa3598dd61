//! Built-in functions without side effects that return the same on a replica as on its source.

use binlog::ServerVersion;

/// Set of safe built-in functions of a server. If a server lacks a function, a stored function may have its name, and
/// may have side effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionSet {
    /// Functions of MySQL 8.0.21 and later.
    All,
    /// Functions that older versions and MariaDB have, too.
    Common,
}

impl FunctionSet {
    /// Returns the set for a server version.
    pub fn for_version(version: &str) -> Self {
        match ServerVersion::parse(version).is_mysql_since([8, 0, 21]) {
            true => Self::All,
            false => Self::Common,
        }
    }

    /// Returns whether the set contains the function, given in lower case.
    pub(super) fn contains(self, lower: &str) -> bool {
        COMMON_FUNCTIONS.contains(&lower) || self == Self::All && LATER_FUNCTIONS.contains(&lower)
    }
}

#[rustfmt::skip]
const COMMON_FUNCTIONS: [&str; 185] = [
    "abs", "acos", "adddate", "addtime", "aes_decrypt", "aes_encrypt", "ascii", "asin", "atan", "atan2",
    "avg", "bin", "bit_and", "bit_count", "bit_length", "bit_or", "bit_xor", "cast", "ceil", "ceiling",
    "char", "char_length", "character_length", "coalesce", "compress", "concat", "concat_ws", "conv",
    "convert", "convert_tz", "cos", "cot", "count", "crc32", "curdate", "current_date", "current_time",
    "current_timestamp", "curtime", "date", "date_add", "date_format", "date_sub", "datediff", "datetime",
    "day", "dayname", "dayofmonth", "dayofweek", "dayofyear", "degrees", "elt", "exp", "export_set",
    "extract", "field", "find_in_set", "floor", "format", "from_base64", "from_days", "from_unixtime",
    "get_format", "greatest", "group_concat", "hex", "hour", "if", "ifnull", "inet6_aton", "inet6_ntoa",
    "inet_aton", "inet_ntoa", "insert", "instr", "isnull", "json_array", "json_contains",
    "json_contains_path", "json_depth", "json_extract", "json_keys", "json_length", "json_object",
    "json_quote", "json_search", "json_type", "json_unquote", "json_valid", "last_day", "lcase", "least",
    "left", "length", "ln", "localtime", "localtimestamp", "locate", "log", "log10", "log2", "lower", "lpad",
    "ltrim", "make_set", "makedate", "maketime", "max", "md5", "microsecond", "mid", "min", "minute", "month",
    "monthname", "name_const", "now", "nullif", "oct", "octet_length", "ord", "period_add", "period_diff",
    "pi", "position", "pow", "power", "quarter", "quote", "radians", "repeat", "replace", "reverse", "right",
    "round", "rpad", "rtrim", "sec_to_time", "second", "sha", "sha1", "sha2", "sign", "sin", "soundex",
    "space", "sqrt", "std", "stddev", "str_to_date", "strcmp", "subdate", "substr", "substring",
    "substring_index", "subtime", "sum", "tan", "time", "time_format", "time_to_sec", "timediff", "timestamp",
    "timestampadd", "timestampdiff", "to_base64", "to_days", "to_seconds", "trim", "truncate", "ucase",
    "uncompress", "unhex", "unix_timestamp", "upper", "utc_date", "utc_time", "utc_timestamp", "variance",
    "week", "weekday", "weekofyear", "weight_string", "year", "yearweek",
];

/// Functions added in MySQL 8.0 that MariaDB lacks, or that behave differently there.
const LATER_FUNCTIONS: [&str; 9] = [
    "bin_to_uuid",
    "is_uuid",
    "json_overlaps",
    "json_value",
    "regexp_instr",
    "regexp_like",
    "regexp_replace",
    "regexp_substr",
    "uuid_to_bin",
];

#[cfg(test)]
mod tests {
    use super::FunctionSet;

    #[test]
    fn functions_depend_on_the_server_version() {
        let check = |version, name, expected| {
            assert_eq!(FunctionSet::for_version(version).contains(name), expected, "{version} {name}")
        };
        for version in ["5.7.44-log", "8.0.36", "9.7.4", "10.11.6-MariaDB-0+deb12u1", "?"] {
            check(version, "md5", true);
            check(version, "sleep", false);
        }
        check("9.7.4", "uuid_to_bin", true);
        check("8.0.21", "json_value", true);
        for version in ["8.0.20-debug", "5.7.44-log", "10.11.6-MariaDB-0+deb12u1", "?"] {
            check(version, "uuid_to_bin", false);
        }
    }
}
