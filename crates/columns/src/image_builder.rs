//! Building of the structs `before` and `after`.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{ArrayRef, StructArray};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use binlog::{DecodeError, RowChange, RowField, RowImage, Value};

use crate::change_schema::{ChangeSchema, exact_text_fields};
use crate::columns_error::EventFailure;
use crate::value_builder::{AppendResult, ValueBuilder, ValueScratch, check_size};

/// Builder of one struct of images, and of the columns beside it.
#[derive(Debug)]
pub(crate) struct ImageBuilder {
    fields: Fields,
    /// For each column of the table, its index in `values`.
    indexes: Box<[Option<usize>]>,
    values: Vec<ValueBuilder>,
    nulls: NullBufferBuilder,
    /// Names of the columns that the log omits.
    omitted: ListBuilder<StringBuilder>,
    /// Texts of the values that their arrays cannot hold.
    exact: MapBuilder<StringBuilder, StringBuilder>,
    /// Rows without this image that are not in the arrays yet.
    pending_nulls: usize,
    /// Rows with whole images and exact values that are not in `omitted` and `exact` yet.
    pending_whole: usize,
    scratch: ValueScratch,
}

/// Arrays of one struct of images.
pub(crate) struct ImageArrays {
    pub(crate) image: ArrayRef,
    pub(crate) omitted: ArrayRef,
    pub(crate) exact: ArrayRef,
}

/// A JSON column with changes instead of a document, which the log does not contain.
pub(crate) struct MissingDocument {
    /// Name of the column.
    pub(crate) column: String,
}

/// Reason why an image cannot be appended.
pub(crate) enum ImageRefusal {
    Event(EventFailure),
    MissingDocument(MissingDocument),
}

impl<F: Into<EventFailure>> From<F> for ImageRefusal {
    fn from(failure: F) -> Self {
        Self::Event(failure.into())
    }
}

impl ImageBuilder {
    pub(crate) fn new(schema: &ChangeSchema) -> Self {
        let [keys, values] = exact_text_fields();
        let text = || StringBuilder::with_capacity(0, 0);
        let exact = MapBuilder::with_capacity(None, text(), text(), 0);
        let name_field = Arc::new(Field::new_list_field(DataType::Utf8, false));
        Self {
            fields: schema.image_fields(),
            indexes: schema.indexes.clone(),
            values: schema.columns.iter().cloned().map(ValueBuilder::new).collect(),
            nulls: NullBufferBuilder::new(0),
            omitted: ListBuilder::with_capacity(text(), 0).with_field(name_field),
            exact: exact.with_keys_field(Arc::new(keys)).with_values_field(Arc::new(values)),
            pending_nulls: 0,
            pending_whole: 0,
            scratch: ValueScratch::default(),
        }
    }

    /// Returns the bytes of variable size in the arrays.
    pub(crate) const fn bytes(&self) -> usize {
        self.scratch.bytes
    }

    /// Appends a row without this image.
    pub(crate) const fn append_null(&mut self) {
        self.pending_nulls += 1;
    }

    /// Appends an image of a row.
    pub(crate) fn append(
        &mut self,
        image: &RowImage<'_, '_>,
        row: &RowChange<'_, '_>,
    ) -> Result<(), ImageRefusal> {
        self.put_pending_nulls()?;
        let (mut next, mut has_omitted, mut has_exact) = (0, false, false);
        for field in image.fields() {
            let Some(Some(index)) = self.indexes.get(field.index()).copied() else { continue };
            if index > next {
                has_omitted = true;
                self.omit(next..index)?;
            }
            next = index + 1;
            let appended = match field.is_partial() {
                // The value is not moved: a copy would wait until all of its parts are stored.
                false => match &field.value() {
                    Ok(value) => self.values[index].append(value, &mut self.scratch),
                    Err(error) => Err(*error),
                },
                true => self.append_partial(&field, row, index)?,
            };
            if appended.map_err(|error| error.within(field.offset()))? == AppendResult::Inexact {
                has_exact = true;
                self.put_exact(index)?;
            }
        }
        let count = self.values.len();
        if count > next {
            has_omitted = true;
            self.omit(next..count)?;
        }
        match has_omitted || has_exact {
            true => {
                self.omitted.append(has_omitted);
                self.exact.append(has_exact).map_err(arrow_failure)?;
            }
            false => self.pending_whole += 1,
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends the document of a JSON column of which the log may have only the changes.
    #[cold]
    fn append_partial(
        &mut self,
        field: &RowField<'_, '_>,
        row: &RowChange<'_, '_>,
        index: usize,
    ) -> Result<Result<AppendResult, DecodeError>, ImageRefusal> {
        let value = &mut self.values[index];
        match row.document_after(field.index())? {
            Some(bytes) => {
                Ok(value.append(&Value::Json(binlog::JsonDocument::new(&bytes)), &mut self.scratch))
            }
            None if field.bytes().is_none() => Ok(value.append(&Value::Null, &mut self.scratch)),
            None => {
                let column = value.name().to_owned();
                Err(ImageRefusal::MissingDocument(MissingDocument { column }))
            }
        }
    }

    /// Appends null to columns that the image does not have.
    fn omit(&mut self, indexes: std::ops::Range<usize>) -> Result<(), EventFailure> {
        self.put_pending_whole()?;
        for column in &mut self.values[indexes] {
            column.append_nulls(1);
            self.scratch.bytes += column.name().len();
            self.omitted.values().append_value(column.name());
        }
        Ok(())
    }

    fn put_exact(&mut self, index: usize) -> Result<(), ImageRefusal> {
        self.put_pending_whole()?;
        let text = String::from_utf8_lossy(&self.scratch.text);
        // The offsets of Arrow's texts are 32-bit numbers.
        check_size(self.exact.values().values_slice().len().saturating_add(text.len()))?;
        self.exact.keys().append_value(self.values[index].name());
        self.scratch.bytes += text.len() + self.values[index].name().len();
        self.exact.values().append_value(text);
        Ok(())
    }

    fn put_pending_nulls(&mut self) -> Result<(), EventFailure> {
        let count = std::mem::take(&mut self.pending_nulls);
        if count > 0 {
            self.values.iter_mut().for_each(|column| column.append_nulls(count));
            self.nulls.append_n_nulls(count);
            // The columns beside the image are null, too.
            self.pending_whole += count;
        }
        Ok(())
    }

    fn put_pending_whole(&mut self) -> Result<(), EventFailure> {
        let count = std::mem::take(&mut self.pending_whole);
        if count > 0 {
            self.omitted.append_nulls(count);
            self.exact.append_nulls(count).map_err(arrow_failure)?;
        }
        Ok(())
    }

    /// Returns the arrays of `rows` rows, and starts others.
    pub(crate) fn finish(&mut self, rows: usize) -> Result<ImageArrays, ArrowError> {
        let put = self.put_pending_nulls().and_then(|()| self.put_pending_whole());
        put.map_err(|_| ArrowError::InvalidArgumentError("maps without entries".to_owned()))?;
        self.scratch.bytes = 0;
        let arrays = self.values.iter_mut().map(ValueBuilder::finish);
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_, _>>()?;
        let nulls = self.nulls.finish();
        let image = StructArray::try_new_with_length(self.fields.clone(), arrays, nulls, rows)?;
        Ok(ImageArrays {
            image: Arc::new(image),
            omitted: Arc::new(self.omitted.finish()),
            exact: Arc::new(self.exact.finish()),
        })
    }
}

fn arrow_failure(error: ArrowError) -> EventFailure {
    EventFailure::Corrupt(error.to_string())
}
