//! Forms that are served, each shared by its clients.

use std::sync::{Arc, Mutex};

use relay::{FormSource, LogForm, RelayError, RelayStore, SourceLimits};

use crate::lock;

/// Forms that are served, each shared by its clients.
#[derive(Debug)]
pub(crate) struct ServedForms {
    store: Arc<RelayStore>,
    limits: SourceLimits,
    sources: Mutex<Vec<Arc<FormSource>>>,
}

impl ServedForms {
    /// Serves a store, each form within these limits.
    pub(crate) fn new(store: Arc<RelayStore>, limits: SourceLimits) -> Self {
        Self { store, limits, sources: Mutex::default() }
    }

    /// Returns the store.
    pub(crate) const fn store(&self) -> &Arc<RelayStore> {
        &self.store
    }

    /// Returns the form's source. The number of forms is small.
    pub(crate) fn source(&self, form: LogForm) -> Arc<FormSource> {
        let mut sources = lock(&self.sources);
        if let Some(source) = sources.iter().find(|source| source.form() == form) {
            return Arc::clone(source);
        }
        let source = Arc::new(FormSource::new(Arc::clone(&self.store), form, self.limits.clone()));
        sources.push(Arc::clone(&source));
        source
    }

    /// Says that the store may have grown.
    pub(crate) fn note_growth(&self) {
        self.all().iter().for_each(|source| source.note_growth());
    }

    /// Drops what belongs to purged logs, and returns errors of saving indexes.
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

    fn all(&self) -> Vec<Arc<FormSource>> {
        lock(&self.sources).clone()
    }
}
