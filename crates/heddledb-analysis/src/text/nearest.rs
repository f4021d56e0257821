//! The nearest of some words, for suggestions.

/// The word that was probably meant: the first of those with the fewest edits, if these are few enough.
pub fn nearest<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = (length / 3).max(1);
    let ranked = among.into_iter().filter(|other| *other != word);
    let ranked = ranked.map(|other| (edits(word, other), other));
    // One letter for another is no near word, if that is all there is.
    let ranked = ranked.filter(|&(edits, other)| edits <= limit && edits < length.max(other.chars().count()));
    ranked.min_by_key(|(edits, _)| *edits).map(|(_, other)| other)
}

/// Whether two names differ by what looks like a slip of the fingers: a letter too much, too few, wrong, or
/// swapped with the next, in a part of at least five letters. `tab_a` and `tab_b`, `t1` and `t2` do not.
pub(super) fn slip(one: &str, two: &str) -> bool {
    let split = |name: &str| -> Vec<String> { name.split(['_', '-', '.', ':']).map(str::to_owned).collect() };
    let letters = |part: &str| part.chars().filter(|letter| !letter.is_ascii_digit()).collect::<String>();
    let (ones, twos) = (split(one), split(two));
    let differing: Vec<_> = ones.iter().zip(&twos).filter(|(one, two)| one != two).collect();
    ones.len() == twos.len()
        && differing.len() == 1
        && differing.iter().all(|(one, two)| {
            let (one, two) = (letters(one), letters(two));
            one.chars().count().min(two.chars().count()) >= 4
                && one.chars().count().max(two.chars().count()) >= 5
                && edits(&one, &two) == 1
        })
}

/// How many letters have to be put in, taken out, replaced, or swapped with the next.
fn edits(one: &str, two: &str) -> usize {
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
    // Far too long to be meant; and the table below stays small.
    if one.len().abs_diff(two.len()) > 8 || one.len() > 64 || two.len() > 64 {
        return usize::MAX;
    }
    let mut rows = vec![(0..=two.len()).collect::<Vec<usize>>()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=two.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != two[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == two[j - 2] && one[i - 2] == two[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        let cases =
            [("", "", 0), ("read", "raed", 1), ("read", "red", 1), ("scan", "scant", 1), ("a", "xyz", 3)];
        for (one, two, expected) in cases {
            assert_eq!((edits(one, two), edits(two, one)), (expected, expected), "{one} {two}");
        }
    }

    #[test]
    fn the_nearest_is_near() {
        assert_eq!(nearest("udpate", ["read", "update", "add"]), Some("update"));
        assert_eq!(nearest("warehouse", ["read", "update"]), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn slips_are_not_numbers_or_single_letters() {
        let slips = [("distrct", "district"), ("order_lines", "order_line"), ("item_stcok", "item_stock")];
        let names =
            [("t1", "t2"), ("table1", "table2"), ("tab_a", "tab_b"), ("order", "new_order"), ("tab", "tap")];
        assert!(slips.iter().all(|(one, two)| slip(one, two)));
        assert!(!names.iter().any(|(one, two)| slip(one, two)));
    }
}
