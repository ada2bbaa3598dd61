//! Live page of a long-running command: its HTML, and the document that the page shows and updates.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use logs::lock;

/// Maximum number of streams of events at the same time.
pub(crate) const EVENT_STREAMS_MAX: usize = 16;

/// Age up to which a document is sent again. All streams share one document, so more streams cost no more work.
const DOCUMENT_AGE_MAX: Duration = Duration::from_millis(900);

/// Text in the page that its first data replaces.
const FIRST_DATA_MARK: &str = "null /* first data */";

/// Maximum number of samples in the history.
const SAMPLES_MAX: usize = 300;

/// Live page of a long-running command.
pub(crate) struct LivePage {
    html: String,
    make_document: Box<dyn Fn() -> String + Send + Sync>,
    latest: Mutex<Option<CachedDocument>>,
    /// Samples as JSON, oldest first.
    samples: Mutex<VecDeque<String>>,
    streams: AtomicUsize,
}

/// Document, and the time of its creation.
struct CachedDocument {
    text: Arc<str>,
    made: Instant,
}

/// Slot of one stream of events. Dropping it releases the slot.
pub(crate) struct EventStreamSlot(Arc<LivePage>);

impl LivePage {
    /// Creates a page. `document` returns the present state as JSON in one line.
    pub(crate) fn new(html: String, document: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self {
            html,
            make_document: Box::new(document),
            latest: Mutex::default(),
            samples: Mutex::default(),
            streams: AtomicUsize::new(0),
        }
    }

    /// Returns the page with initial data, so that it has content before the first event.
    pub(crate) fn html(&self) -> String {
        let first = format!("{{\"history\":{},\"status\":{}}}", self.history(), self.document());
        // In JSON, `<` occurs only in texts. In a script, it could end the script.
        self.html.replacen(FIRST_DATA_MARK, &first.replace('<', "\\u003c"), 1)
    }

    /// Returns the present document.
    pub(crate) fn document(&self) -> Arc<str> {
        let mut latest = lock(&self.latest);
        if let Some(document) = latest.as_ref().filter(|document| document.made.elapsed() < DOCUMENT_AGE_MAX)
        {
            return Arc::clone(&document.text);
        }
        let text: Arc<str> = (self.make_document)().into();
        *latest = Some(CachedDocument { text: Arc::clone(&text), made: Instant::now() });
        text
    }

    /// Adds a sample to the history, as JSON in one line.
    pub(crate) fn add_sample(&self, sample: String) {
        let mut samples = lock(&self.samples);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns the samples as a JSON array.
    pub(crate) fn history(&self) -> String {
        let mut samples = lock(&self.samples);
        format!("[{}]", samples.make_contiguous().join(","))
    }

    /// Takes a slot for a stream of events; `None` if no slot is free.
    pub(crate) fn open_stream(self: &Arc<Self>) -> Option<EventStreamSlot> {
        let taken = self.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |streams| {
            (streams < EVENT_STREAMS_MAX).then_some(streams + 1)
        });
        taken.is_ok().then(|| EventStreamSlot(Arc::clone(self)))
    }
}

impl EventStreamSlot {
    /// Returns the page.
    pub(crate) fn page(&self) -> &LivePage {
        &self.0
    }
}

impl Drop for EventStreamSlot {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{LivePage, SAMPLES_MAX};

    #[test]
    fn first_data_cannot_end_the_script() {
        let page = LivePage::new("<script>const first = null /* first data */;</script>".to_owned(), || {
            "{\"user\":\"</script>\"}".to_owned()
        });
        let expected =
            "<script>const first = {\"history\":[],\"status\":{\"user\":\"\\u003c/script>\"}};</script>";
        assert_eq!(page.html(), expected);
    }

    #[test]
    fn the_history_keeps_the_newest_samples() {
        let page = LivePage::new(String::new(), String::new);
        assert_eq!(page.history(), "[]");
        for number in 0..=SAMPLES_MAX {
            page.add_sample(number.to_string());
        }
        let history = page.history();
        assert!(history.starts_with("[1,2,") && history.ends_with(&format!(",{SAMPLES_MAX}]")), "{history}");
    }
}
