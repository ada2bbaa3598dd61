//! The statements before the first and after the last event.

use crate::delimiter::DELIMITER;
use crate::dump_settings::DumpSettings;
use crate::event_text::put;

/// Appends the statements before the first event.
pub(crate) fn put_start(out: &mut Vec<u8>, settings: &DumpSettings) {
    out.extend_from_slice(
        b"# The proper term is pseudo_replica_mode, but we use this compatibility alias\n\
          # to make the statement usable on server versions 8.0.24 and older.\n\
          /*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=1*/;\n",
    );
    if settings.disable_log_bin {
        out.extend_from_slice(b"/*!32316 SET @OLD_SQL_LOG_BIN=@@SQL_LOG_BIN, SQL_LOG_BIN=0*/;\n");
    }
    out.extend_from_slice(b"/*!50003 SET @OLD_COMPLETION_TYPE=@@COMPLETION_TYPE,COMPLETION_TYPE=0*/;\n");
    if let Some(charset) = &settings.set_charset {
        out.extend_from_slice(
            b"\n/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;\
              \n/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;\
              \n/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;\
              \n/*!40101 SET NAMES ",
        );
        put(out, &[charset, b" */;\n"]);
    }
    put_start_settings(out, settings);
    put(out, &[b"DELIMITER ", DELIMITER, b"\n"]);
}

/// Appends the settings that mysqlbinlog prints before the first event even when it writes raw files.
pub(crate) fn put_start_settings(out: &mut Vec<u8>, settings: &DumpSettings) {
    if settings.idempotent {
        out.extend_from_slice(b"/*!50700 SET @@SESSION.RBR_EXEC_MODE=IDEMPOTENT*/;\n\n");
    }
    if settings.require_row_format {
        out.extend_from_slice(b"/*!80019 SET @@SESSION.REQUIRE_ROW_FORMAT=1*/;\n\n");
    }
}

/// Appends the statements after the last event.
pub(crate) fn put_end(out: &mut Vec<u8>, settings: &DumpSettings) {
    out.extend_from_slice(
        b"DELIMITER ;\n# End of log file\n/*!50003 SET COMPLETION_TYPE=@OLD_COMPLETION_TYPE*/;\n",
    );
    if settings.disable_log_bin {
        out.extend_from_slice(b"/*!32316 SET SQL_LOG_BIN=@OLD_SQL_LOG_BIN*/;\n");
    }
    if settings.set_charset.is_some() {
        out.extend_from_slice(
            b"/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;\n\
              /*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;\n\
              /*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;\n",
        );
    }
    out.extend_from_slice(b"/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=0*/;\n");
    if settings.idempotent {
        out.extend_from_slice(IDEMPOTENT_END);
    }
}

/// Reverts the setting of `--idempotent`.
pub(crate) const IDEMPOTENT_END: &[u8] = b"/*!50700 SET @@SESSION.RBR_EXEC_MODE=STRICT*/;\n";

/// The unfinished transaction at the end of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogEndState {
    /// A transaction has begun.
    pub(crate) in_transaction: bool,
    /// A GTID was seen, but its transaction has not begun.
    pub(crate) seen_gtid: bool,
}

/// Appends the statements that end an unfinished transaction at the end of a log.
pub(crate) fn put_log_end(out: &mut Vec<u8>, ends: LogEndState, skip_gtids: bool) {
    const ROLLBACK: &[u8] = b"ROLLBACK /* added by mysqlbinlog */ /*!*/;\n";
    if ends.in_transaction {
        out.extend_from_slice(ROLLBACK);
    } else if ends.seen_gtid && !skip_gtids {
        put(out, &[b"BEGIN /*added by mysqlbinlog */ /*!*/;\n", ROLLBACK]);
    }
    if !skip_gtids {
        out.extend_from_slice(b"SET @@SESSION.GTID_NEXT= 'AUTOMATIC' /* added by mysqlbinlog */ /*!*/;\n");
    }
}
