//! Conversion of days to dates.

/// Returns year, month and day of a day number since 1970-01-01. In Howard Hinnant's algorithm, years begin in March
/// (<https://howardhinnant.github.io/date_algorithms.html>).
pub fn civil_date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::civil_date;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(19_675), (2023, 11, 14));
        assert_eq!(civil_date(11_016), (2000, 2, 29));
        assert_eq!(civil_date(5479), (1985, 1, 1));
        assert_eq!(civil_date(-6575), (1952, 1, 1));
    }
}
