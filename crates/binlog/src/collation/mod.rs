//! Collations by their numbers in logs.

mod table;

use std::borrow::Cow;

use crate::charset::Charset;
use crate::format::Flavour;

/// A collation: a character set and its rules of comparison.
///
/// ```
/// use bintide_binlog::{Charset, Collation, Flavour};
///
/// let collation = Collation::new(255, Flavour::MySql).unwrap();
/// assert_eq!(collation.name(), "utf8mb4_0900_ai_ci");
/// assert_eq!(collation.charset(), Charset::Utf8mb4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Collation {
    id: u16,
    charset: Charset,
    name: CollationName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CollationName {
    Fixed(&'static str),
    /// Name built from the tailoring and three bits.
    Uca1400 {
        tailoring: &'static str,
        bits: u16,
    },
}

/// First number of MariaDB's collations of Unicode 14.
const UCA1400_FIRST: u16 = 2048;

impl Collation {
    /// Returns the collation with this number in logs of this flavour.
    pub fn new(id: u16, flavour: Flavour) -> Option<Self> {
        let mysql = || fixed(table::MYSQL, id);
        match flavour {
            Flavour::MySql => mysql(),
            Flavour::MariaDb if id >= UCA1400_FIRST => uca1400(id),
            Flavour::MariaDb => fixed(table::MARIADB, id).or_else(mysql),
        }
    }

    /// Returns the value of `SET character_set_client` for the collation number of a logged statement: the number, or
    /// the character set's name where MariaDB rejects its own numbers.
    ///
    /// ```
    /// use bintide_binlog::Collation;
    ///
    /// assert_eq!(Collation::client_setting(255), "255");
    /// assert_eq!(Collation::client_setting(2304), "utf8mb4");
    /// ```
    pub fn client_setting(id: u16) -> Cow<'static, str> {
        match uca1400(id) {
            Some(collation) => Cow::Borrowed(collation.charset.name()),
            None => Cow::Owned(id.to_string()),
        }
    }

    /// Returns all collations of MySQL, by number.
    pub fn all() -> impl Iterator<Item = Self> {
        table::MYSQL.iter().map(|&(id, charset, name)| Self { id, charset, name: CollationName::Fixed(name) })
    }

    /// Returns the number.
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// Returns the character set.
    pub const fn charset(&self) -> Charset {
        self.charset
    }

    /// Returns the name.
    pub fn name(&self) -> Cow<'static, str> {
        match self.name {
            CollationName::Fixed(name) => Cow::Borrowed(name),
            CollationName::Uca1400 { tailoring, bits } => {
                let padding = if bits & 4 == 0 { "" } else { "_nopad" };
                let accents = if bits & 2 == 0 { "_ai" } else { "_as" };
                let case = if bits & 1 == 0 { "_ci" } else { "_cs" };
                Cow::Owned([self.charset.name(), "_uca1400", tailoring, padding, accents, case].concat())
            }
        }
    }

    /// Returns true for PAD SPACE collations, which ignore trailing spaces in comparisons.
    pub fn pads(&self) -> bool {
        match self.name {
            CollationName::Fixed(name) => {
                name != "binary" && !name.contains("_0900_") && !name.contains("_nopad_")
            }
            CollationName::Uca1400 { bits, .. } => bits & 4 == 0,
        }
    }
}

fn fixed(entries: &[table::CollationEntry], id: u16) -> Option<Collation> {
    let index = entries.binary_search_by_key(&id, |entry| entry.0).ok()?;
    let (id, charset, name) = *entries.get(index)?;
    Some(Collation { id, charset, name: CollationName::Fixed(name) })
}

// bits  field, high bits first
//    8  character set, from UCA1400_FIRST on
//    5  tailoring
//    1  trailing spaces are significant
//    1  accents are significant
//    1  case is significant
fn uca1400(id: u16) -> Option<Collation> {
    let parts = id.checked_sub(UCA1400_FIRST)?;
    let charset = *table::UCA1400_CHARSETS.get(usize::from(parts >> 8))?;
    let tailoring = (*table::UCA1400_TAILORINGS.get(usize::from(parts >> 3 & 0x1f))?)?;
    Some(Collation { id, charset, name: CollationName::Uca1400 { tailoring, bits: parts & 7 } })
}

#[cfg(test)]
mod tests {
    use super::Collation;
    use crate::format::Flavour;

    fn check(id: u16, flavour: Flavour, expected: Option<&str>) {
        let name = Collation::new(id, flavour).map(|collation| collation.name());
        assert_eq!(name.as_deref(), expected, "{id} {flavour:?}");
    }

    #[test]
    fn ids_have_names() {
        check(8, Flavour::MySql, Some("latin1_swedish_ci"));
        check(8, Flavour::MariaDb, Some("latin1_swedish_ci"));
        check(245, Flavour::MySql, Some("utf8mb4_croatian_ci"));
        check(245, Flavour::MariaDb, Some("utf8mb4_croatian_mysql561_ci"));
        check(608, Flavour::MySql, None);
        check(608, Flavour::MariaDb, Some("utf8mb4_croatian_ci"));
        check(1270, Flavour::MariaDb, Some("utf8mb4_unicode_520_nopad_ci"));
        check(2048, Flavour::MariaDb, Some("utf8mb3_uca1400_ai_ci"));
        check(2310, Flavour::MariaDb, Some("utf8mb4_uca1400_nopad_as_ci"));
        check(3271, Flavour::MariaDb, Some("utf32_uca1400_croatian_nopad_as_cs"));
        check(3272, Flavour::MariaDb, None);
        check(65535, Flavour::MariaDb, None);
        check(0, Flavour::MySql, None);
        check(324, Flavour::MySql, None);
    }

    #[test]
    fn tables_are_sorted() {
        let mut ids: Vec<u16> = Collation::all().map(|collation| collation.id()).collect();
        assert!(ids.is_sorted());
        ids.dedup();
        assert_eq!(ids.len(), 286);
    }

    #[test]
    fn charsets_name_their_default() {
        for charset in crate::charset::Charset::all() {
            let default = Collation::new(charset.default_collation(), Flavour::MySql);
            assert_eq!(default.map(|default| default.charset()), Some(charset));
        }
    }
}
