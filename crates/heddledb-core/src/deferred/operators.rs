//! Memory for the operators and results of one plan: values of any `Copy` type, one behind the other in a buffer that
//! grows and is used again.
//!
//! The only unsafe code of the deferred language. Each entry keeps the type that it was made for, and a value is written or
//! read only as that type: so whatever number a caller comes with, it gets a value of the type that it asks for, or none.

use std::any::TypeId;
use std::mem::MaybeUninit;

/// A piece of the buffer, as aligned as a value may be.
type Piece = MaybeUninit<u128>;

/// Values of any types, by the numbers in whose order they were added.
#[derive(Default)]
pub struct Store {
    entries: Vec<Entry>,
    buffer: Vec<Piece>,
}

struct Entry {
    /// What it is for.
    of: TypeId,
    /// Its first piece of the buffer. It has as many as a value of its type takes.
    first: usize,
    /// A value has been written.
    is_known: bool,
}

impl Store {
    /// Forgets all entries, and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.buffer.clear();
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Room for a value that is not known yet.
    pub fn reserve<V: Copy + Send + 'static>(&mut self) -> u32 {
        const { assert!(align_of::<V>() <= align_of::<Piece>(), "a deferred value is aligned to 16 bytes at most") }
        let number = u32::try_from(self.entries.len()).expect("a plan has fewer than 2^32 values");
        let first = self.buffer.len();
        self.entries.push(Entry { of: TypeId::of::<V>(), first, is_known: false });
        self.buffer.resize(first + size_of::<V>().div_ceil(size_of::<Piece>()), MaybeUninit::uninit());
        number
    }

    /// Whether an entry has its value.
    pub fn is_known(&self, number: u32) -> bool {
        self.entries.get(number as usize).is_some_and(|entry| entry.is_known)
    }

    /// Gives an entry its value.
    ///
    /// # Panics
    /// Where there is no such entry, or it is for values of another type.
    pub fn set<V: Copy + Send + 'static>(&mut self, number: u32, value: V) {
        let entry = &mut self.entries[number as usize];
        assert!(entry.of == TypeId::of::<V>(), "an entry is given a value of the type that it was made for");
        let pieces = &mut self.buffer[entry.first..];
        assert!(
            size_of_val(pieces) >= size_of::<V>(),
            "an entry's pieces are in the buffer as long as the entry is"
        );
        // SAFETY: the pieces from the entry's first on are as many bytes as `V` takes (just asserted), in memory that we
        // borrow alone; they are aligned as `Piece`, which is enough for `V` (asserted when the entry was made).
        unsafe { pieces.as_mut_ptr().cast::<V>().write(value) };
        entry.is_known = true;
    }

    /// The value of an entry, if it has one and it is of this type.
    pub fn get<V: Copy + Send + 'static>(&self, number: u32) -> Option<V> {
        let entry = self.entries.get(number as usize)?;
        if !entry.is_known || entry.of != TypeId::of::<V>() {
            return None;
        }
        let pieces = &self.buffer[entry.first..];
        assert!(
            size_of_val(pieces) >= size_of::<V>(),
            "an entry's pieces are in the buffer as long as the entry is"
        );
        // SAFETY: the entry is for values of type `V` and known, so `set` has written one there, whose bytes only `set`
        // with the same type replaces, and growing moves as they are; aligned as there. `V` is `Copy`, so a copy
        // of its bytes is a value.
        Some(unsafe { pieces.as_ptr().cast::<V>().read() })
    }
}

#[cfg(test)]
mod tests {
    use super::Store;

    #[test]
    fn values_come_back_as_they_were_while_the_buffer_grows() {
        static SHARED: [u8; 3] = [7, 8, 9];
        let mut store = Store::default();
        for round in 0..3_u64 {
            store.clear();
            let mut made = Vec::new();
            for step in 0..50 {
                let word = store.reserve::<u64>();
                let (odd, nothing, wide) =
                    (store.reserve::<(u8, u32, bool)>(), store.reserve::<()>(), store.reserve::<u128>());
                let (shared, list) = (store.reserve::<&'static [u8]>(), store.reserve::<[u16; 9]>());
                let closure = move |x: u64| x + step + round;
                fn keep<F: Fn(u64) -> u64 + Copy + Send + 'static>(
                    store: &mut Store,
                    f: F,
                ) -> (u32, fn(&Store, u32) -> u64) {
                    let number = store.reserve::<F>();
                    store.set(number, f);
                    (number, |store, number| store.get::<F>(number).expect("it was set")(100))
                }
                let kept = keep(&mut store, closure);
                store.set(word, step * round);
                store.set(odd, (1_u8, step as u32, true));
                store.set(nothing, ());
                store.set(wide, u128::MAX - u128::from(step));
                store.set(shared, &SHARED[1..]);
                store.set(list, [step as u16; 9]);
                made.push((step, word, odd, nothing, wide, shared, list, kept));
            }
            for (step, word, odd, nothing, wide, shared, list, (closure, call)) in made {
                assert_eq!(store.get(word), Some(step * round));
                assert_eq!(store.get(odd), Some((1_u8, step as u32, true)));
                assert_eq!(store.get(nothing), Some(()));
                assert_eq!(store.get(wide), Some(u128::MAX - u128::from(step)));
                assert_eq!(store.get(shared), Some(&SHARED[1..]));
                assert_eq!(store.get(list), Some([step as u16; 9]));
                assert_eq!(call(&store, closure), 100 + step + round);
            }
        }
    }

    #[test]
    fn a_wrong_type_or_number_gets_nothing() {
        let mut store = Store::default();
        let number = store.reserve::<u64>();
        assert!(!store.is_known(number));
        assert_eq!(store.get::<u64>(number), None);
        store.set(number, 5_u64);
        assert_eq!(
            (store.get::<u64>(number), store.get::<i64>(number), store.get::<[u64; 2]>(number)),
            (Some(5), None, None)
        );
        assert_eq!(store.get::<u64>(number + 1), None);
        store.clear();
        assert_eq!(store.get::<u64>(number), None);
    }

    #[test]
    #[should_panic(expected = "of the type that it was made for")]
    fn a_value_of_another_type_is_not_written() {
        let mut store = Store::default();
        let number = store.reserve::<u8>();
        store.set(number, [0_u64; 4]);
    }
}
