//! Schemas of records, in the model of Kafka Connect.

/// Schema of a value, as Kafka Connect describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectSchema {
    /// Form of the value.
    pub kind: ConnectKind,
    /// True if the value may be null.
    pub is_optional: bool,
    /// Name of the type, such as `io.debezium.time.Date`.
    pub name: Option<String>,
    /// Version of the named type.
    pub version: Option<u32>,
    /// Description of the type.
    pub doc: Option<&'static str>,
    /// Parameters of the named type, in order.
    pub parameters: Vec<ConnectParameter>,
    /// Default value, as JSON.
    pub default: Option<String>,
}

/// Form of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectKind {
    /// `true` or `false`.
    Boolean,
    /// Number of 16 bits.
    Int16,
    /// Number of 32 bits.
    Int32,
    /// Number of 64 bits.
    Int64,
    /// Number in single precision.
    Float32,
    /// Number in double precision.
    Float64,
    /// Text.
    Text,
    /// Bytes, which JSON has as base64.
    Bytes,
    /// List of values.
    Array(Box<ConnectSchema>),
    /// Fields, in order.
    Struct(Vec<ConnectField>),
}

/// Field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectField {
    /// Name.
    pub name: String,
    /// Schema of its value.
    pub schema: ConnectSchema,
}

/// Parameter of a named type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectParameter {
    /// Name.
    pub name: &'static str,
    /// Value.
    pub value: String,
}

impl ConnectSchema {
    /// Returns a type without a name, whose values may not be null.
    pub const fn new(kind: ConnectKind) -> Self {
        Self {
            kind,
            is_optional: false,
            name: None,
            version: None,
            doc: None,
            parameters: Vec::new(),
            default: None,
        }
    }

    /// Returns a type with a name, in its first version.
    pub(crate) fn named(kind: ConnectKind, name: &str) -> Self {
        Self { name: Some(name.to_owned()), version: Some(1), ..Self::new(kind) }
    }

    /// Returns a struct with a name, in its first version.
    pub(crate) fn named_struct(name: &str, fields: Vec<ConnectField>) -> Self {
        Self::named(ConnectKind::Struct(fields), name)
    }

    pub(crate) const fn described(mut self, doc: &'static str) -> Self {
        self.doc = Some(doc);
        self
    }

    pub(crate) fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    pub(crate) fn parameter(mut self, name: &'static str, value: impl ToString) -> Self {
        self.parameters.push(ConnectParameter { name, value: value.to_string() });
        self
    }

    /// Names a field.
    pub(crate) fn field(self, name: &str) -> ConnectField {
        ConnectField { name: name.to_owned(), schema: self }
    }
}
