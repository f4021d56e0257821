//! The random functions of TPC-C (clauses 2.1.6, 4.3.2 and 4.3.3).

use heddledb::Text;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt};
use std::ops::RangeInclusive;

/// C of the last names while loading.
const C_LAST_LOAD: u32 = 157;
/// C of the last names while running: 66 more, which lies within the [65, 119] that clause 2.1.6.1
/// asks for and is neither 96 nor 112.
const C_LAST_RUN: u32 = 223;
const C_CUSTOMER: u32 = 259;
const C_ITEM: u32 = 7911;

/// The non-uniform random function of clause 2.1.6.
fn nurand(rng: &mut SmallRng, a: u32, c: u32, range: RangeInclusive<u32>) -> u32 {
    let (low, high) = (*range.start(), *range.end());
    let bits = rng.random_range(0..=a) | rng.random_range(range);
    (bits + c) % (high - low + 1) + low
}

/// A customer number of `customers`.
pub(super) fn customer(rng: &mut SmallRng, customers: u16) -> u16 {
    nurand(rng, 1023, C_CUSTOMER, 1..=u32::from(customers)) as u16
}

/// An item number of `items`.
pub(super) fn item(rng: &mut SmallRng, items: u32) -> u32 {
    nurand(rng, 8191, C_ITEM, 1..=items)
}

/// How many last names occur: 1000, or one per customer in a smaller database.
pub(super) fn last_names(customers: u16) -> u32 {
    u32::from(customers.min(1000))
}

/// A last name as loaded for customers beyond the first thousand.
pub(super) fn last_name_load(rng: &mut SmallRng, customers: u16) -> Text<16> {
    last_name(nurand(rng, 255, C_LAST_LOAD, 0..=last_names(customers) - 1))
}

/// A last name as searched for.
pub(super) fn last_name_run(rng: &mut SmallRng, customers: u16) -> Text<16> {
    last_name(nurand(rng, 255, C_LAST_RUN, 0..=last_names(customers) - 1))
}

/// The last name with number 0 to 999: one syllable for each digit.
pub(super) fn last_name(number: u32) -> Text<16> {
    const SYLLABLES: [&[u8]; 10] =
        [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];
    let mut buffer = [0; 16];
    let mut end = 0;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[digit as usize];
        buffer[end..end + syllable.len()].copy_from_slice(syllable);
        end += syllable.len();
    }
    ascii(&buffer[..end])
}

/// Text of ASCII bytes.
pub(super) fn ascii<const N: usize>(bytes: &[u8]) -> Text<N> {
    Text::truncated(std::str::from_utf8(bytes).unwrap_or_default())
}

fn letters<const N: usize>(rng: &mut SmallRng, length: RangeInclusive<usize>, alphabet: &[u8]) -> Text<N> {
    let length = rng.random_range(length);
    let mut buffer = [0; N];
    for chunk in buffer[..length].chunks_mut(4) {
        // Sixteen random bits choose each letter: the bias is below 1 in 1000.
        let mut bits = rng.next_u64();
        for letter in chunk {
            *letter = alphabet[((bits & 0xFFFF) as usize * alphabet.len()) >> 16];
            bits >>= 16;
        }
    }
    ascii(&buffer[..length])
}

/// An a-string: letters and digits, of random length.
pub(super) fn a_string<const N: usize>(rng: &mut SmallRng, length: RangeInclusive<usize>) -> Text<N> {
    letters(rng, length, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
}

/// An n-string: digits.
pub(super) fn n_string<const N: usize>(rng: &mut SmallRng, length: RangeInclusive<usize>) -> Text<N> {
    letters(rng, length, b"0123456789")
}

/// Two capital letters.
pub(super) fn state(rng: &mut SmallRng) -> Text<2> {
    letters(rng, 2..=2, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

/// Four random digits and 11111.
pub(super) fn zip(rng: &mut SmallRng) -> Text<9> {
    let mut buffer = *b"000011111";
    buffer[..4].copy_from_slice(n_string::<4>(rng, 4..=4).padded());
    ascii(&buffer)
}

/// I_DATA or S_DATA: 26 to 50 characters, a tenth with "ORIGINAL" at a random place.
pub(super) fn data(rng: &mut SmallRng) -> Text<50> {
    let text: Text<50> = a_string(rng, 26..=50);
    if rng.random_range(0..10) != 0 {
        return text;
    }
    let mut bytes = *text.padded();
    let at = rng.random_range(0..=text.as_bytes().len() - ORIGINAL.len());
    bytes[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    ascii(&bytes[..text.as_bytes().len()])
}

const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// Whether I_DATA or S_DATA has "ORIGINAL" in it.
pub(super) fn is_original(data: &Text<50>) -> bool {
    data.padded().windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    #[test]
    fn names_are_syllables() {
        assert_eq!(last_name(0).as_str(), "BARBARBAR");
        assert_eq!(last_name(371).as_str(), "PRICALLYOUGHT");
        assert_eq!(last_name(999).as_str(), "EINGEINGEING");
        let names: std::collections::BTreeSet<_> = (0..1000).map(last_name).collect();
        assert_eq!(names.len(), 1000);
    }

    /// P(low k bits all set) of `rand(0, A) | rand(x, y)` is about (3/4)^k: far from uniform.
    #[test]
    fn nurand_is_in_range_and_skewed() {
        let mut rng = stream(1, 0);
        let draws = 200_000;
        let mut counts = vec![0u32; 3001];
        for _ in 0..draws {
            counts[usize::from(customer(&mut rng, 3000))] += 1;
        }
        assert_eq!(counts[0], 0);
        let most = *counts.iter().max().unwrap();
        assert!(most > 4 * draws / 3000, "the most frequent customer was drawn {most} times");
        assert!(counts[1..].iter().filter(|count| **count == 0).count() < 600);

        for _ in 0..10_000 {
            assert!((1..=100_000).contains(&item(&mut rng, 100_000)));
            assert!((1..=7).contains(&item(&mut rng, 7)));
        }
    }

    /// The exact distribution by enumeration, against draws.
    #[test]
    fn nurand_matches_its_definition() {
        let (a, c, low, high) = (15u32, 5u32, 1u32, 20u32);
        let mut exact = [0f64; 21];
        for x in 0..=a {
            for y in low..=high {
                exact[(((x | y) + c) % (high - low + 1) + low) as usize] +=
                    1.0 / f64::from((a + 1) * (high - low + 1));
            }
        }
        let mut rng = stream(2, 0);
        let draws = 400_000;
        let mut drawn = [0f64; 21];
        for _ in 0..draws {
            drawn[nurand(&mut rng, a, c, low..=high) as usize] += 1.0 / f64::from(draws);
        }
        for (value, (exact, drawn)) in exact.iter().zip(drawn).enumerate() {
            assert!((exact - drawn).abs() < 0.004, "{value}: exact {exact}, drawn {drawn}");
        }
    }

    #[test]
    fn run_names_exist_when_loaded() {
        let mut rng = stream(3, 0);
        for customers in [1u16, 30, 1000, 3000] {
            let loaded: Vec<_> = (0..last_names(customers)).map(last_name).collect();
            for _ in 0..2000 {
                assert!(loaded.contains(&last_name_run(&mut rng, customers)));
                assert!(loaded.contains(&last_name_load(&mut rng, customers)));
            }
        }
    }

    #[test]
    fn texts_have_their_form() {
        let mut rng = stream(4, 0);
        let mut originals = 0;
        for _ in 0..10_000 {
            let text: Text<16> = a_string(&mut rng, 8..=16);
            assert!((8..=16).contains(&text.as_str().len()));
            assert!(text.as_str().bytes().all(|b| b.is_ascii_alphanumeric()));
            let digits: Text<16> = n_string(&mut rng, 16..=16);
            assert!(digits.as_str().len() == 16 && digits.as_str().bytes().all(|b| b.is_ascii_digit()));
            assert!(zip(&mut rng).as_str().ends_with("11111") && zip(&mut rng).as_str().len() == 9);
            assert_eq!(state(&mut rng).as_str().len(), 2);
            let data = data(&mut rng);
            assert!((26..=50).contains(&data.as_str().len()));
            assert_eq!(is_original(&data), data.as_str().contains("ORIGINAL"));
            originals += u32::from(is_original(&data));
        }
        assert!((900..1100).contains(&originals), "{originals} of 10000");
    }
}
