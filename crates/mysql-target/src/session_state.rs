//! The known values of session variables. Only changed variables must be set.
//!
//! Everything that changes a variable by other means must be reported here:
//!
//! | variable | changed by, besides our own `SET` | consequence |
//! |---|---|---|
//! | `collation_database`, `character_set_database` | `USE`; `CREATE`, `ALTER` and `DROP DATABASE` of the default database | discarded by [`SessionState::use_database`], and after each statement |
//! | `character_set_client`, `collation_connection` | our own `SET NAMES`, for non-ASCII names and unverified texts | discarded by [`SessionState::set_names`] |
//! | all of [`SessionVariables`] | functions and triggers of a statement: what they set stays set, except `sql_mode`, which the server restores | discarded after each statement |
//! | `sql_require_primary_key`, `default_table_encryption`, `enable_cascade_triggers`, where the account may not set them | functions whose definer may set them | none: the account cannot set them back |
//! | `foreign_key_checks`, `unique_checks` | flags of row events | none: the server restores them at the end of `BINLOG` |
//! | `gtid_next` | a format description in `BINLOG`; `COMMIT` | set to `AUTOMATIC` after each |
//! | `timestamp` | nothing; row events have their own | set with each statement |
//! | `insert_id`, `last_insert_id`, `rand_seed1`, `rand_seed2`, user variables | statements | set before each statement that reads them: the log has their values |
//! | `pseudo_thread_id` | nothing | set with each statement that creates or reads a temporary table |
//! | `sql_log_bin` | nothing: functions and triggers may not set it | set once |
//! | `autocommit` | nothing: functions and triggers may not set it | off while transactions consist of several requests of row events, so that they need no `START TRANSACTION`; on for all else |
//! | `transaction_isolation`, `innodb_lock_wait_timeout`, other settings that are not logged | functions that set them, as on a replica | none: they do not change stored values |
//! | all | the rollback of a failed transaction, any part of which may have run | discarded by [`SessionState::forget`] |

use replay::SessionVariables;

/// The known values of a session's variables. Variables with unknown values must be set again.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionState {
    known: Option<SessionVariables>,
}

impl SessionState {
    /// Returns the assignments that change the session to `variables`, separated by commas, and records them as made.
    /// Empty if nothing changes.
    pub(crate) fn adopt(&mut self, variables: &SessionVariables) -> String {
        let mut assignments = String::new();
        if self.known.as_ref() == Some(variables) {
            return assignments;
        }
        variables.append_assignments(self.known.as_ref(), &mut assignments);
        assignments.pop();
        self.known = Some(variables.merged_over(self.known.as_ref()));
        debug_assert!(self.has(variables), "ours: an assigned variable is known");
        assignments
    }

    /// Returns true if no assignment is needed to change the session to `variables`.
    fn has(&self, variables: &SessionVariables) -> bool {
        let mut assignments = String::new();
        variables.append_assignments(self.known.as_ref(), &mut assignments);
        assignments.is_empty()
    }

    /// Records a change of the default database: `collation_database` becomes the collation of the new database.
    pub(crate) fn use_database(&mut self) {
        if let Some(known) = &mut self.known {
            known.database_collation = None;
        }
    }

    /// Records a `SET NAMES`.
    pub(crate) fn set_names(&mut self) {
        if let Some(known) = &mut self.known {
            known.charset = None;
        }
    }

    /// Records that any variable may have changed.
    pub(crate) fn forget(&mut self) {
        self.known = None;
    }

    /// Returns the number of `collation_server`, if it is known.
    pub(crate) fn server_collation(&self) -> Option<u16> {
        self.known.as_ref().and_then(|known| known.charset).map(|[_, _, server]| server)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
    use replay::SessionVariables;

    use super::SessionState;

    /// An action in a session.
    #[derive(Clone, Debug)]
    enum Step {
        Adopt(SessionVariables),
        UseDatabase,
        SetNames,
        /// A statement of the log whose functions and triggers set every variable to this value.
        Statement(u8),
        Rollback,
    }

    /// A model of a server's session: variables and their values.
    #[derive(Debug, Default)]
    struct Session(BTreeMap<String, String>);

    impl Session {
        fn set(&mut self, assignments: &str) {
            for assignment in assignments.split(',').filter(|assignment| !assignment.is_empty()) {
                let (name, value) = assignment.split_once('=').unwrap();
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }

        fn set_all(&mut self, value: u8) {
            self.0.values_mut().for_each(|one| *one = format!("other {value}"));
        }
    }

    fn check(steps: &[Step]) {
        let (mut state, mut session) = (SessionState::default(), Session::default());
        for step in steps {
            match step {
                Step::Adopt(expected) => {
                    session.set(&state.adopt(expected));
                    let mut whole = Session::default();
                    whole.set(&SessionState::default().adopt(expected));
                    for (name, value) in &whole.0 {
                        assert_eq!(session.0.get(name), Some(value), "{name} after {steps:?}");
                    }
                }
                Step::UseDatabase => {
                    state.use_database();
                    session.set("@@session.collation_database=DEFAULT");
                }
                Step::SetNames => {
                    state.set_names();
                    session.set("@@session.character_set_client=45,@@session.collation_connection=45");
                }
                Step::Statement(value) => {
                    session.set_all(*value);
                    state.forget();
                }
                Step::Rollback => {
                    // The server ran only a part of a packet that failed.
                    session.set_all(0);
                    state.forget();
                }
            }
        }
    }

    fn contexts() -> impl Strategy<Value = SessionVariables> {
        let one = || proptest::option::of(0..2_u8);
        let charset = proptest::option::of([8..10_u16, 8..10, 8..10]);
        let zone = proptest::option::of(prop_oneof![Just(b"UTC".to_vec()), Just(b"SYSTEM".to_vec())]);
        let numbers = (0..2_u16, proptest::option::of(8..10_u16), 0..2_u16);
        ((any::<bool>(), one(), one(), one(), one()), charset, zone, numbers).prop_map(
            |((checks, mode, explicit, key, encryption), charset, zone, (names, database, utf8mb4))| {
                SessionVariables {
                    flags2: Some(if checks { 0x0c00_0000 } else { 0 }),
                    sql_mode: mode.map(u64::from),
                    explicit_timestamp: explicit,
                    require_primary_key: key,
                    table_encryption: encryption,
                    cascade_triggers: encryption,
                    auto_increment: mode.map(|mode| (2, u16::from(mode) + 1)),
                    charset,
                    time_zone: zone,
                    lc_time_names: names,
                    database_collation: Some(database.unwrap_or(0)),
                    utf8mb4_collation: utf8mb4 * 45,
                    check_constraint_checks: key,
                    sql_if_exists: encryption,
                    insert_history: explicit,
                    charset_collations: key.map(|key| vec![[45, 45 + u16::from(key)]]),
                    is_mariadb: false,
                }
            },
        )
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => contexts().prop_map(Step::Adopt),
            1 => Just(Step::UseDatabase),
            1 => Just(Step::SetNames),
            1 => (0..3_u8).prop_map(Step::Statement),
            1 => Just(Step::Rollback),
        ];
        vec(step, 1..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn a_session_has_the_adopted_values_after_any_earlier_steps(steps in steps()) {
            check(&steps);
        }
    }

    #[test]
    fn using_a_database_forgets_its_collation() {
        let context = SessionVariables { database_collation: Some(8), ..SessionVariables::default() };
        let mut state = SessionState::default();
        state.adopt(&context);
        assert_eq!(state.adopt(&context), "");
        state.use_database();
        assert_eq!(state.adopt(&context), "@@session.collation_database=8");
    }
}
