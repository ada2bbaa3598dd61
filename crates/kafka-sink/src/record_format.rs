//! Formats of keys and values.

/// Formats of the keys and the values of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFormats {
    /// Format of keys.
    pub key: RecordFormat,
    /// Format of values.
    pub value: RecordFormat,
}

/// Format of keys or values, as a converter of Kafka Connect writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordFormat {
    /// JSON.
    #[default]
    Json,
    /// JSON with its schema in each record.
    JsonWithSchema,
    /// Avro, with the schema in a registry.
    Avro,
    /// JSON, with the schema in a registry.
    JsonSchema,
}

impl RecordFormats {
    /// Returns whether a schema registry is needed.
    pub fn need_registry(self) -> bool {
        [self.key, self.value].into_iter().any(RecordFormat::needs_registry)
    }

    /// Returns whether schemas are needed.
    pub fn need_schemas(self) -> bool {
        self != Self::default()
    }
}

impl RecordFormat {
    pub(crate) const fn needs_registry(self) -> bool {
        matches!(self, Self::Avro | Self::JsonSchema)
    }
}
