//! A cache of the last text.

/// The last text and its key.
pub(crate) struct TextMemo<K> {
    key: Option<K>,
    text: Vec<u8>,
}

impl<K> Default for TextMemo<K> {
    fn default() -> Self {
        Self { key: None, text: Vec::new() }
    }
}

impl<K: PartialEq> TextMemo<K> {
    /// Returns the text for `key`; calls `write` if the key differs from the last one.
    #[inline]
    pub(crate) fn text(&mut self, key: K, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        if self.key.as_ref() != Some(&key) {
            self.text.clear();
            write(&mut self.text);
            self.key = Some(key);
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::TextMemo;

    #[test]
    fn a_text_is_made_when_its_key_changes() {
        let mut memo = TextMemo::default();
        let mut made = String::new();
        for key in [7, 7, 8, 8, 7] {
            memo.text(key, |out| {
                out.push(key);
                made.push_str(&key.to_string());
            });
            assert_eq!(memo.text(key, |_| panic!("made twice")), [key]);
        }
        assert_eq!(made, "787");
    }
}
