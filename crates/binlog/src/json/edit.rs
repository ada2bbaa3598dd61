//! JSON documents in an editable form. Only the containers on changed paths are expanded.

use std::borrow::Cow;

use super::chunked_list::ChunkedList;
use super::path::JsonPathLeg;
use super::{FieldWidth, JsonContainer, JsonDocument, JsonPart};
use crate::error::{DecodeError, DecodeReason};

/// A JSON value, stored or expanded. Offsets in a container are relative to its start, so that stored values can be
/// moved unchanged.
#[derive(Clone, Debug)]
pub(super) enum DocumentNode<'a> {
    /// A value in stored form, without trailing bytes.
    Stored(JsonPart<'a>),
    /// Elements of an array.
    Array(ChunkedList<DocumentNode<'a>>),
    /// Members of an object, sorted by the size of the name, then by its bytes.
    Object(ChunkedList<(Cow<'a, [u8]>, DocumentNode<'a>)>),
}

impl<'a> DocumentNode<'a> {
    pub(super) fn of_document(document: JsonDocument<'a>) -> Result<Self, DecodeError> {
        const NULL: JsonPart<'static> = JsonPart { type_code: 4, bytes: &[0], offset: 0 };
        match document.part()? {
            Some(part) => part.trim().map(Self::Stored),
            None => Ok(Self::Stored(NULL)),
        }
    }

    /// Replaces the value at `path`; returns false if there is none.
    pub(super) fn replace(&mut self, path: &[JsonPathLeg], value: Self) -> Result<bool, DecodeError> {
        let Some(target) = self.find(path)? else { return Ok(false) };
        *target = value;
        Ok(true)
    }

    /// Inserts `value` at `path`; returns false if there is no such position, or if it already has a value.
    pub(super) fn insert(&mut self, path: &[JsonPathLeg], value: Self) -> Result<bool, DecodeError> {
        let Some((last, path)) = path.split_last() else { return Ok(false) };
        let Some(parent) = self.find(path)? else { return Ok(false) };
        parent.expand()?;
        match (parent, last) {
            (Self::Object(members), JsonPathLeg::Name(name)) => match search_member(members, name) {
                Ok(_) => return Ok(false),
                Err(index) => members.insert(index, (Cow::Owned(name.clone()), value)),
            },
            (Self::Array(values), JsonPathLeg::Index(index)) => {
                values.insert((*index).min(values.len()), value)
            }
            (Self::Array(values), JsonPathLeg::FromLast(index)) => {
                values.insert(values.len().saturating_sub(index + 1), value);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Removes the value at `path`; returns false if there is none.
    pub(super) fn remove(&mut self, path: &[JsonPathLeg]) -> Result<bool, DecodeError> {
        let Some((last, path)) = path.split_last() else { return Ok(false) };
        let Some(parent) = self.find(path)? else { return Ok(false) };
        parent.expand()?;
        match (parent, last) {
            (Self::Object(members), JsonPathLeg::Name(name)) => match search_member(members, name) {
                Ok(index) => members.remove(index),
                Err(_) => return Ok(false),
            },
            (Self::Array(values), leg) => match leg.index(values.len()) {
                Some(index) => values.remove(index),
                None => return Ok(false),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn find(&mut self, path: &[JsonPathLeg]) -> Result<Option<&mut Self>, DecodeError> {
        let mut node = self;
        for leg in path {
            node.expand()?;
            node = match (node, leg) {
                (Self::Object(members), JsonPathLeg::Name(name)) => match search_member(members, name) {
                    Ok(index) => match members.get_mut(index) {
                        Some((_, value)) => value,
                        None => return Ok(None),
                    },
                    Err(_) => return Ok(None),
                },
                (Self::Array(values), leg) => {
                    match leg.index(values.len()).and_then(|index| values.get_mut(index)) {
                        Some(value) => value,
                        None => return Ok(None),
                    }
                }
                // A value that is no array acts as an array of itself.
                (single, JsonPathLeg::Index(0) | JsonPathLeg::FromLast(0)) => single,
                _ => return Ok(None),
            };
        }
        Ok(Some(node))
    }

    /// Expands a stored container by one level.
    fn expand(&mut self) -> Result<(), DecodeError> {
        let Self::Stored(part) = self else { return Ok(()) };
        if part.type_code > 3 {
            return Ok(());
        }
        let container = JsonContainer::new(part)?;
        let parts = ContainerParts { container, unused: container.bytes.len(), index: 0 };
        *self = match container.is_object {
            true => Self::Object(parts.collect::<Result<_, _>>()?),
            false => Self::Array(parts.map(|part| part.map(|(_, node)| node)).collect::<Result<_, _>>()?),
        };
        Ok(())
    }

    /// Encodes the document: its type, then its value.
    pub(super) fn encode_document(&self) -> Result<Vec<u8>, DecodeError> {
        let (type_code, value) = self.encode()?;
        let mut out = Vec::with_capacity(1 + value.len());
        out.push(type_code);
        out.extend_from_slice(&value);
        Ok(out)
    }

    fn encode(&self) -> Result<(u8, Cow<'a, [u8]>), DecodeError> {
        match self {
            Self::Stored(part) => Ok((part.type_code, Cow::Borrowed(part.bytes))),
            Self::Array(values) => {
                let values = values.iter().map(Self::encode).collect::<Result<Vec<_>, _>>()?;
                encode_container(None, &values)
            }
            Self::Object(members) => {
                let names: Vec<&[u8]> = members.iter().map(|(name, _)| &**name).collect();
                let values =
                    members.iter().map(|(_, value)| value.encode()).collect::<Result<Vec<_>, _>>()?;
                encode_container(Some(&names), &values)
            }
        }
    }
}

impl JsonPathLeg {
    /// Returns the index in an array of `count` values.
    fn index(&self, count: usize) -> Option<usize> {
        match self {
            Self::Name(_) => None,
            Self::Index(index) => Some(*index).filter(|index| *index < count),
            Self::FromLast(index) => count.checked_sub(1)?.checked_sub(*index),
        }
    }
}

/// Searches for a name: `Ok` with its index, or `Err` with the index to insert it at.
fn search_member(
    members: &ChunkedList<(Cow<'_, [u8]>, DocumentNode<'_>)>,
    name: &[u8],
) -> Result<usize, usize> {
    members.search_by(|(member, _)| (member.len(), &**member).cmp(&(name.len(), name)))
}

/// Iterator over the values of a container, with their names.
struct ContainerParts<'a> {
    container: JsonContainer<'a>,
    /// Bytes that no value has used yet. Overlapping values would be copied again and again.
    unused: usize,
    index: usize,
}

impl<'a> ContainerParts<'a> {
    fn part(&mut self, index: usize) -> Result<(Cow<'a, [u8]>, DocumentNode<'a>), DecodeError> {
        let name = if self.container.is_object { self.container.name(index)? } else { &[] };
        let part = self.container.part(index)?.trim()?;
        let entry = self.container.entry_size();
        let own = if self.container.width.stores_inline(part.type_code) { 0 } else { part.bytes.len() };
        self.unused = self.unused.checked_sub(entry + name.len() + own).ok_or_else(|| {
            let (found, expected) = (part.offset as u64, "a value that overlaps no other");
            DecodeError::new(part.offset, DecodeReason::Unexpected { field: "JSON offset", found, expected })
        })?;
        Ok((Cow::Borrowed(name), DocumentNode::Stored(part)))
    }
}

impl<'a> Iterator for ContainerParts<'a> {
    type Item = Result<(Cow<'a, [u8]>, DocumentNode<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.index;
        self.index += 1;
        (index < self.container.len()).then(|| self.part(index))
    }
}

impl JsonPart<'_> {
    /// Removes the bytes after the value.
    fn trim(self) -> Result<Self, DecodeError> {
        let size = self.size()?;
        match self.bytes.get(..size) {
            Some(bytes) => Ok(Self { bytes, ..self }),
            None => {
                let found = self.bytes.len();
                Err(DecodeError::new(self.offset, DecodeReason::Short { expected: size as u64, found }))
            }
        }
    }
}

type EncodedValue<'a> = (u8, Cow<'a, [u8]>);

/// Encodes with small fields if possible, else with large ones, like servers.
fn encode_container<'a>(
    names: Option<&[&[u8]]>,
    values: &[EncodedValue<'_>],
) -> Result<EncodedValue<'a>, DecodeError> {
    let base = if names.is_some() { 0 } else { 2 };
    for (type_code, width) in [(base, FieldWidth::Small), (base + 1, FieldWidth::Large)] {
        if let Some(bytes) = encode_as(width, names, values) {
            return Ok((type_code, Cow::Owned(bytes)));
        }
    }
    Err(DecodeError::new(0, DecodeReason::Unsupported { what: "a JSON document of 4 GiB or more" }))
}

/// Returns `None` if the container does not fit fields of this width.
fn encode_as(width: FieldWidth, names: Option<&[&[u8]]>, values: &[EncodedValue<'_>]) -> Option<Vec<u8>> {
    let is_own = |value: &EncodedValue<'_>| !width.stores_inline(value.0);
    let name_entry = if names.is_some() { width.size() + 2 } else { 0 };
    let entries = values.len() * (name_entry + 1 + width.size());
    let names = names.unwrap_or_default();
    let names_size: usize = names.iter().map(|name| name.len()).sum();
    let values_size: usize = values.iter().filter(|value| is_own(value)).map(|(_, bytes)| bytes.len()).sum();
    let names_start = 2 * width.size() + entries;
    let values_start = names_start + names_size;
    let size = values_start + values_size;
    if size > width.max() {
        return None;
    }
    let mut out = Vec::with_capacity(size);
    width.put(&mut out, values.len());
    width.put(&mut out, size);
    let mut start = names_start;
    for name in names {
        width.put(&mut out, start);
        out.extend_from_slice(&u16::try_from(name.len()).ok()?.to_le_bytes());
        start += name.len();
    }
    for value in values {
        out.push(value.0);
        if is_own(value) {
            width.put(&mut out, start);
            start += value.1.len();
        } else {
            let field = value.1.iter().rev().fold(0, |field, byte| field << 8 | usize::from(*byte));
            width.put(&mut out, field);
        }
    }
    names.iter().for_each(|name| out.extend_from_slice(name));
    values.iter().filter(|value| is_own(value)).for_each(|(_, bytes)| out.extend_from_slice(bytes));
    Some(out)
}
