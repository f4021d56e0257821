//! What the fuzz targets of values and schemas call, and the tests that run them on random input.

use super::dynamic::{TableDefinition, is_same_or_widened};
use super::{Logged, UpTo, decode_key, encode_key};
use crate::values::in_words;

/// Takes bytes as the words of a row of a fixed shape with its values behind it, as recovery does, and as the words of keys.
///
/// # Panics
/// Where what was read contradicts what is written of it.
pub fn values(input: &[u8]) {
    let table = TableDefinition::of_schema(
        "t",
        "id: u32, name: String, data: Option<Vec<u8>>, g.text: Option<String>; key id, name(max=11); ordered",
        &[],
    );
    let table = table.expect("the schema is one");
    let layout = table.relation().layout();
    let mut words: Vec<u64> = in_words(input).collect();
    let is_whole = Logged(&words).is_whole(layout.words, layout.slots.iter().copied());
    words.resize(words.len().max(layout.words), 0);
    let values = table.decode_row(&Logged(&words));
    let length: usize = values.iter().map(|value| value.to_string().len()).sum();
    assert!(!is_whole || length <= 8 * input.len() + 64, "more was read than there is");
    let key = table.relation().key_in(&Logged(&words));
    assert_eq!(table.relation().decode_key(&key).len(), 2);
    for column in table.columns() {
        assert!(column.check(&column.load(&Logged(&words))).is_ok(), "what a column loads fits it");
    }
    let mut key = [0u64; 4];
    key.iter_mut().zip(&words).for_each(|(to, word)| *to = *word);
    let text: UpTo<str, 31> = decode_key(&key);
    let again: [u64; 4] = encode_key(&UpTo::<str, 31>::from(&*text));
    assert_eq!(decode_key::<UpTo<str, 31>>(&again), UpTo::from(&*text));
    let bytes: UpTo<[u8], 31> = decode_key(&key);
    assert!(bytes.len() <= 31);
}

/// Takes bytes as the schema text of a table, as a directory tells it. What is a table lives as long as the process.
///
/// # Panics
/// Where a schema that was understood has another text than it was read from.
pub fn schemas(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    let _ = is_same_or_widened(first, second);
    assert!(is_same_or_widened(first, first));
    let indexes = [("ByIt", second)];
    let indexes = if second.is_empty() { &[][..] } else { &indexes[..] };
    let Ok(table) = TableDefinition::of_schema("t", first, indexes) else { return };
    assert_eq!(table.relation().schema(), first);
    let layout = table.relation().layout();
    if layout.words > 1 << 16 {
        return;
    }
    // What is read of no row at all is a row, and has a key.
    let words = vec![0; layout.words];
    let row = table.decode_row(&Logged(&words));
    let key = table.relation().key_of(&row).expect("what columns load fits them");
    assert_eq!(key.words().len(), table.relation().key_words());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const SCHEMAS: [&str; 4] = [
        "id: u64, owner: Text<24>, money.balance: i64; key id; ordered",
        "a: String, b: Option<Vec<u8>>; key a(max=20); hash\nunique index over b(max=40); a: String, b: Option<Vec<u8>>; key a(max=20); hash",
        "a: Reverse<Option<String>>, s: u8{Open=0,Sold=1}, x: [u8;4]; key a(max=7), x; ordered",
        "a: Reverse<u8>, b.c: f64, d: i128; key a; ordered\nindex over a; a: Reverse<u8>, b.c: f64, d: i128; key a; ordered",
    ];

    /// Texts put together from parts of others, and bytes of any kind.
    #[test]
    fn random_schemas_and_values() {
        let seed = std::env::var("HEDDLE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("HEDDLE_SEED={seed}");
        let mut random = Random::new(seed);
        for schema in SCHEMAS {
            schemas(schema.as_bytes());
            let table = TableDefinition::of_schema("t", schema.split('\n').next().unwrap(), &[]);
            assert!(table.is_ok(), "{schema}: {table:?}");
        }
        let rounds = if cfg!(miri) { 50 } else { 4_000 };
        for _ in 0..rounds {
            let mut text = SCHEMAS[random.below(4) as usize].as_bytes().to_vec();
            for _ in 0..random.below(4) {
                let other = SCHEMAS[random.below(4) as usize].as_bytes();
                let from = random.below(other.len() as u64) as usize;
                let part = &other[from..(from + random.below(12) as usize).min(other.len())];
                let at = random.below(text.len() as u64 + 1) as usize;
                let end = (at + random.below(12) as usize).min(text.len());
                text.splice(at..end, part.iter().copied());
            }
            schemas(&text);
            let bytes: Vec<u8> = (0..random.below(200))
                .map(|at| {
                    if at % 16 == 15 {
                        [0, 7, 15, 0xFF][random.below(4) as usize]
                    } else {
                        random.below(256) as u8
                    }
                })
                .collect();
            values(&bytes);
        }
    }
}
