//! `bintide.GtidSet`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use binlog::gtid::{Gtid, GtidSet as Gtids};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::{PyResult, pyclass, pymethods};

/// Immutable set of GTIDs of MySQL.
///
/// `|`, `&` and `-` are union, intersection and difference, `<=` and `<` test for subsets, and `in` for one GTID.
/// `str()` gives the text that a server shows.
///
/// >>> served = GtidSet("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-100")
/// >>> str(served - GtidSet("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-98"))
/// '3e11fa47-71ca-11e1-9e33-c80aa9429562:99-100'
#[pyclass(frozen, module = "bintide")]
#[derive(Debug)]
pub(crate) struct GtidSet {
    gtids: Gtids,
}

impl GtidSet {
    /// Returns the set.
    pub(crate) const fn set(&self) -> &Gtids {
        &self.gtids
    }
}

#[pymethods]
impl GtidSet {
    /// Parses the text of a set.
    #[new]
    #[pyo3(signature = (text = ""))]
    pub(crate) fn new(text: &str) -> PyResult<Self> {
        match text.parse() {
            Ok(gtids) => Ok(Self { gtids }),
            Err(error) => Err(PyValueError::new_err(format!("not a GTID set: {error}"))),
        }
    }

    fn __or__(&self, other: &Self) -> Self {
        Self { gtids: self.gtids.union(&other.gtids) }
    }

    fn __and__(&self, other: &Self) -> Self {
        Self { gtids: self.gtids.intersection(&other.gtids) }
    }

    fn __sub__(&self, other: &Self) -> Self {
        Self { gtids: self.gtids.difference(&other.gtids) }
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.gtids == other.gtids
    }

    fn __le__(&self, other: &Self) -> bool {
        self.gtids.is_subset(&other.gtids)
    }

    fn __lt__(&self, other: &Self) -> bool {
        self.gtids.is_subset(&other.gtids) && self.gtids != other.gtids
    }

    fn __ge__(&self, other: &Self) -> bool {
        other.__le__(self)
    }

    fn __gt__(&self, other: &Self) -> bool {
        other.__lt__(self)
    }

    fn __contains__(&self, gtid: &str) -> PyResult<bool> {
        match gtid.parse::<Gtid>() {
            Ok(gtid) => Ok(self.gtids.contains(gtid)),
            Err(error) => Err(PyValueError::new_err(format!("not a GTID: {error}"))),
        }
    }

    fn __bool__(&self) -> bool {
        !self.gtids.is_empty()
    }

    /// Returns the number of transactions. A set can have more than `len()` is able to return.
    fn count(&self) -> u128 {
        self.gtids.count()
    }

    /// Returns whether the sets have a common transaction.
    fn intersects(&self, other: &Self) -> bool {
        self.gtids.intersects(&other.gtids)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.gtids.to_string().hash(&mut hasher);
        hasher.finish()
    }

    fn __str__(&self) -> String {
        self.gtids.to_string()
    }

    fn __repr__(&self) -> String {
        format!("GtidSet({:?})", self.gtids.to_string())
    }

    /// Makes the set picklable.
    fn __getnewargs__(&self) -> (String,) {
        (self.gtids.to_string(),)
    }
}
