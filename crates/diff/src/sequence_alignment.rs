//! Order of sequences: alignment by their elements, and elements that are out of order.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// Aligns two sequences. Returns the pairs of indexes of equal elements, in the order of both.
///
/// First aligns as many elements as possible that occur once in both sequences and are in the same order. Then, in both
/// directions from these elements, aligns equal elements until the first difference. Time is `n log n`, memory is
/// linear.
pub(crate) fn align<T: Copy + Eq + Hash>(a: &[T], b: &[T]) -> Vec<[u32; 2]> {
    let mut pairs = Vec::new();
    let (mut from_a, mut from_b) = (0, 0);
    let ends = [a.len() as u32, b.len() as u32];
    for [to_a, to_b] in anchors(a, b).into_iter().chain([ends]) {
        let (gap_a, gap_b) = (from_a..to_a as usize, from_b..to_b as usize);
        align_gap(a, b, gap_a, gap_b, &mut pairs);
        if [to_a, to_b] != ends {
            pairs.push([to_a, to_b]);
        }
        (from_a, from_b) = (to_a as usize + 1, to_b as usize + 1);
    }
    pairs
}

/// Returns pairs of elements that occur once in both sequences: as many as possible in the same order.
fn anchors<T: Copy + Eq + Hash>(a: &[T], b: &[T]) -> Vec<[u32; 2]> {
    let mut occurrences: HashMap<T, [Occurrence; 2]> = HashMap::with_capacity(a.len());
    for (side, sequence) in [a, b].into_iter().enumerate() {
        for (index, element) in sequence.iter().enumerate() {
            let [ref mut of_a, ref mut of_b] = *occurrences.entry(*element).or_default();
            let occurrence = if side == 0 { of_a } else { of_b };
            *occurrence = match occurrence {
                Occurrence::Never => Occurrence::Once(index as u32),
                _ => Occurrence::Often,
            };
        }
    }
    let once = a.iter().filter_map(|element| match occurrences.get(element) {
        Some([Occurrence::Once(at), Occurrence::Once(other)]) => Some([*at, *other]),
        _ => None,
    });
    let pairs: Vec<[u32; 2]> = once.collect();
    longest_increasing(&pairs.iter().map(|[_, other]| *other).collect::<Vec<_>>())
        .into_iter()
        .filter_map(|index| pairs.get(index as usize).copied())
        .collect()
}

/// Occurrence of an element in a sequence.
#[derive(Clone, Copy, Debug, Default)]
enum Occurrence {
    #[default]
    Never,
    Once(u32),
    Often,
}

/// Aligns the equal elements at the start and at the end of two ranges.
fn align_gap<T: Eq>(
    a: &[T],
    b: &[T],
    mut gap_a: Range<usize>,
    mut gap_b: Range<usize>,
    pairs: &mut Vec<[u32; 2]>,
) {
    while !gap_a.is_empty() && !gap_b.is_empty() && a[gap_a.start] == b[gap_b.start] {
        pairs.push([gap_a.start as u32, gap_b.start as u32]);
        (gap_a.start, gap_b.start) = (gap_a.start + 1, gap_b.start + 1);
    }
    let first = pairs.len();
    while !gap_a.is_empty() && !gap_b.is_empty() && a[gap_a.end - 1] == b[gap_b.end - 1] {
        (gap_a.end, gap_b.end) = (gap_a.end - 1, gap_b.end - 1);
        pairs.push([gap_a.end as u32, gap_b.end as u32]);
    }
    pairs[first..].reverse();
}

/// Returns the indexes of a longest increasing subsequence.
pub(crate) fn longest_increasing(numbers: &[u32]) -> Vec<u32> {
    // For each length, the index of the smallest number that ends a subsequence of this length.
    let mut ends: Vec<u32> = Vec::new();
    let mut before: Vec<u32> = Vec::with_capacity(numbers.len());
    for (index, number) in numbers.iter().enumerate() {
        let length = ends.partition_point(|end| numbers[*end as usize] < *number);
        before.push(length.checked_sub(1).map_or(u32::MAX, |last| ends[last]));
        match ends.get_mut(length) {
            Some(end) => *end = index as u32,
            None => ends.push(index as u32),
        }
    }
    let mut found = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        found.push(index);
        next = before.get(index as usize).copied().filter(|before| *before != u32::MAX);
    }
    found.reverse();
    found
}

/// Returns the smallest number of elements that must move for the sequence to increase.
pub(crate) fn out_of_order(numbers: &[u32]) -> u64 {
    let mut ends: Vec<u32> = Vec::new();
    for number in numbers {
        let length = ends.partition_point(|end| end < number);
        match ends.get_mut(length) {
            Some(end) => *end = *number,
            None => ends.push(*number),
        }
    }
    (numbers.len() - ends.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::{align, longest_increasing, out_of_order};

    /// Checks the aligned elements of two words; capital letters mark them in the first word.
    fn check(a: &str, b: &str, expected: &str) {
        let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        let pairs = align(&a, &b);
        let mut shown = a.clone();
        for [at, other] in &pairs {
            assert_eq!(a[*at as usize], b[*other as usize]);
            shown[*at as usize].make_ascii_uppercase();
        }
        assert!(pairs.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] < pair[1][1]), "{pairs:?}");
        assert_eq!(shown.into_iter().collect::<String>(), expected);
    }

    #[test]
    fn sequences_are_aligned() {
        check("", "", "");
        check("abc", "", "abc");
        check("abc", "abc", "ABC");
        check("abcde", "cde", "abCDE");
        check("cde", "abcdefg", "CDE");
        check("abcde", "abxde", "ABcDE");
        check("abcde", "abde", "ABcDE");
        check("aaaa", "aaa", "AAAa");
        check("xaay", "xay", "XAaY");
        check("abcd", "acbd", "AbCD");
        check("paaqaar", "paqaar", "PAaQAAR");
        check("abab", "baba", "abab");
    }

    #[test]
    fn order() {
        let check = |numbers: &[u32], longest: &[u32], moved| {
            assert_eq!(longest_increasing(numbers), longest, "{numbers:?}");
            assert_eq!(out_of_order(numbers), moved, "{numbers:?}");
        };
        check(&[], &[], 0);
        check(&[7], &[0], 0);
        check(&[1, 2, 3], &[0, 1, 2], 0);
        check(&[2, 1], &[1], 1);
        check(&[5, 1, 2, 3, 4], &[1, 2, 3, 4], 1);
        check(&[1, 3, 2, 4], &[0, 2, 3], 1);
        check(&[3, 2, 1], &[2], 2);
    }
}
