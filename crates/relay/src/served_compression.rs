//! Compression for accounts without a form, set by `SET GLOBAL binlog_transaction_compression`.

use binlog::ZstdLevel;

use crate::log_form::{ClientAttributes, FormChoice, LogForm};

/// Compression for accounts without a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedCompression {
    /// `binlog_transaction_compression`: the relay compresses plain transactions for clients that can read compressed
    /// transactions.
    pub is_on: bool,
    /// `binlog_transaction_compression_level_zstd`.
    pub level: ZstdLevel,
}

impl ServedCompression {
    /// Returns the compression at the start of a relay.
    pub const fn of(choice: FormChoice) -> Self {
        match choice {
            FormChoice::Fixed(LogForm::Compressed(level)) => Self { is_on: true, level },
            _ => Self { is_on: false, level: ZstdLevel::DEFAULT },
        }
    }

    /// Returns the form for a client, given the choice of its account or of the relay.
    pub fn form_for(self, choice: FormChoice, attributes: &ClientAttributes<'_>) -> LogForm {
        match (self.is_on, choice.form_for(attributes)) {
            (true, LogForm::AsIs | LogForm::Compressed(_)) => LogForm::Compressed(self.level),
            (false, LogForm::Compressed(_)) => FormChoice::Auto.form_for(attributes),
            (_, form) => form,
        }
    }
}

#[cfg(test)]
mod tests {
    use binlog::ZstdLevel;

    use super::ServedCompression;
    use crate::log_form::{ClientAttributes, FormChoice, LogForm};

    #[test]
    fn compression_is_served_to_clients_that_support_it() {
        let level = ZstdLevel::new(9).unwrap();
        let new = ClientAttributes {
            client_version: Some("9.7.4"),
            program_name: Some("mysqld"),
            client_role: Some("binary_log_listener"),
        };
        let old = ClientAttributes { client_version: Some("8.0.15"), ..new };
        let compressed = FormChoice::Fixed(LogForm::Compressed(ZstdLevel::DEFAULT));
        let check = |is_on, choice, expected: [LogForm; 2]| {
            let compression = ServedCompression { is_on, level };
            let found = [new, old].map(|client| compression.form_for(choice, &client));
            assert_eq!(found, expected, "{is_on} {choice}");
        };
        check(false, FormChoice::Auto, [LogForm::AsIs, LogForm::Plain]);
        check(true, FormChoice::Auto, [LogForm::Compressed(level), LogForm::Plain]);
        check(true, FormChoice::Fixed(LogForm::Plain), [LogForm::Plain; 2]);
        check(true, compressed, [LogForm::Compressed(level); 2]);
        check(false, compressed, [LogForm::AsIs, LogForm::Plain]);
        assert!(ServedCompression::of(compressed).is_on && !ServedCompression::of(FormChoice::Auto).is_on);
    }
}
