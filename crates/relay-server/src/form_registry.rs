//! Served forms, each shared by its clients.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use logs::lock;
use nix::time::{ClockId, clock_gettime};
use relay::{
    FormFacts, FormSource, FormSourceOptions, LogForm, RelayError, RelayStore, StageTiming, StageTotals,
};

use crate::relay_counters::FormCounters;

/// Served forms, each shared by its clients.
#[derive(Debug)]
pub(crate) struct FormRegistry {
    store: Arc<RelayStore>,
    limits: FormSourceOptions,
    served: Mutex<Vec<RegisteredForm>>,
}

/// Served form, and its counters.
#[derive(Clone, Debug)]
struct RegisteredForm {
    source: Arc<FormSource>,
    counters: Arc<FormCounters>,
}

impl FormRegistry {
    /// Creates the registry of a store. The limits apply to each form.
    pub(crate) fn new(store: Arc<RelayStore>, limits: FormSourceOptions) -> Self {
        Self { store, limits, served: Mutex::default() }
    }

    /// Returns the store.
    pub(crate) const fn store(&self) -> &Arc<RelayStore> {
        &self.store
    }

    /// Returns the form's source.
    pub(crate) fn source(&self, form: LogForm) -> Arc<FormSource> {
        self.served(form).source
    }

    /// Returns the form's counters.
    pub(crate) fn counters(&self, form: LogForm) -> Arc<FormCounters> {
        self.served(form).counters
    }

    fn served(&self, form: LogForm) -> RegisteredForm {
        let mut served = lock(&self.served);
        if let Some(known) = served.iter().find(|known| known.source.form() == form) {
            return known.clone();
        }
        let source = Arc::new(FormSource::new(Arc::clone(&self.store), form, self.limits.clone()));
        let added = RegisteredForm { source, counters: Arc::default() };
        served.push(added.clone());
        added
    }

    /// Returns the forms with their sums.
    pub(crate) fn facts(&self) -> Vec<FormFacts> {
        let served = lock(&self.served).clone();
        served
            .iter()
            .map(|served| served.counters.facts(served.source.form(), served.source.cost()))
            .collect()
    }

    /// Returns sums over the stages of work for all forms.
    pub(crate) fn stage_totals(&self) -> Vec<StageTotals> {
        let mut sending = StageTiming::default();
        for served in lock(&self.served).iter() {
            sending.add(&lock(&served.counters.sending));
        }
        StageTotals::of_sources(&self.all(), sending)
    }

    /// Resets the sums over stages.
    pub(crate) fn reset_stage_totals(&self) {
        for served in lock(&self.served).iter() {
            served.source.reset_timings();
            *lock(&served.counters.sending) = StageTiming::default();
        }
    }

    /// Records that the store may have grown.
    pub(crate) fn record_growth(&self) {
        self.all().iter().for_each(|source| source.record_growth());
    }

    /// Drops the state of purged logs, and returns errors of saving indexes.
    pub(crate) fn maintain(&self) -> Vec<RelayError> {
        let mut errors = Vec::new();
        for source in self.all() {
            errors.extend(source.forget_purged().err());
            errors.extend(source.take_index_error());
        }
        errors
    }

    /// Saves all indexes, and returns the errors.
    pub(crate) fn save_indexes(&self) -> Vec<RelayError> {
        self.all().iter().filter_map(|source| source.save_indexes().err()).collect()
    }

    /// Returns the sources of all forms.
    pub(crate) fn all(&self) -> Vec<Arc<FormSource>> {
        lock(&self.served).iter().map(|served| Arc::clone(&served.source)).collect()
    }
}

/// Returns the CPU time of the calling thread.
pub(crate) fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
