//! What rows hold. A loaded row is a hash of its key, and a written text follows from its writer's tag. So a check
//! can recognise a torn, lost or misplaced write, and loading needs no seed.

use super::schema::{ATTRIBUTES, Article, COMMENT_ATTRIBUTES, Comment, TEXT_LENGTH, User};
use crate::random::mix;
use heddledb::Text;

/// Letters that a word makes, four bits each.
const LETTERS: usize = 16;

/// The text with that tag: it begins with the tag, and what follows is a hash of it.
pub(super) fn text(tag: u64) -> Text<TEXT_LENGTH> {
    let mut letters = [0; TEXT_LENGTH];
    let mut word = tag;
    for chunk in letters.chunks_mut(LETTERS) {
        for (place, letter) in chunk.iter_mut().enumerate() {
            *letter = b'a' + (word >> (4 * place) & 15) as u8;
        }
        word = mix(word);
    }
    Text::truncated(std::str::from_utf8(&letters).unwrap_or_default())
}

/// The tag of a text, if it is the text of one.
pub(super) fn tag(found: &Text<TEXT_LENGTH>) -> Option<u64> {
    let letters = found.as_bytes().first_chunk::<LETTERS>()?;
    let word =
        letters.iter().rev().fold(0, |word, letter| word << 4 | u64::from(letter.wrapping_sub(b'a') & 15));
    (*found == text(word)).then_some(word)
}

/// The tag of what is loaded as column `column` of a row.
fn loaded_tag(row: u64, column: u64) -> u64 {
    mix(mix(row) ^ column)
}

/// Attributes that follow from a tag.
fn attributes<const COUNT: usize>(tag: u64) -> [u64; COUNT] {
    std::array::from_fn(|number| tag.wrapping_add(number as u64))
}

/// A user as loaded.
pub(super) fn user(id: u32) -> User {
    let tag = |column| loaded_tag(u64::from(id), column);
    let [
        attr01,
        attr02,
        attr03,
        attr04,
        attr05,
        attr06,
        attr07,
        attr08,
        attr09,
        attr10,
        attr11,
        attr12,
        attr13,
        attr14,
        attr15,
    ] = attributes::<ATTRIBUTES>(tag(4));
    User {
        id,
        first_name: text(tag(0)),
        last_name: text(tag(1)),
        password: text(tag(2)),
        email: text(tag(3)),
        attr01,
        attr02,
        attr03,
        attr04,
        attr05,
        attr06,
        attr07,
        attr08,
        attr09,
        attr10,
        attr11,
        attr12,
        attr13,
        attr14,
        attr15,
    }
}

/// An article as loaded.
pub(super) fn article(id: u32, num_comments: u32) -> Article {
    let tag = |column| loaded_tag(u64::from(id), column);
    let [
        attr01,
        attr02,
        attr03,
        attr04,
        attr05,
        attr06,
        attr07,
        attr08,
        attr09,
        attr10,
        attr11,
        attr12,
        attr13,
        attr14,
        attr15,
    ] = attributes::<ATTRIBUTES>(tag(7));
    Article {
        id,
        title: text(tag(5)),
        text: text(tag(6)),
        num_comments,
        attr01,
        attr02,
        attr03,
        attr04,
        attr05,
        attr06,
        attr07,
        attr08,
        attr09,
        attr10,
        attr11,
        attr12,
        attr13,
        attr14,
        attr15,
    }
}

/// The comment that a user writes with that tag, whose text is at hand.
#[inline]
pub(super) fn comment(article: u32, index: u32, user: u32, tag: u64, text: Text<TEXT_LENGTH>) -> Comment {
    let [attr01, attr02, attr03, attr04, attr05, attr06, attr07, attr08, attr09, attr10] =
        attributes::<COMMENT_ATTRIBUTES>(tag);
    Comment {
        article,
        index,
        user,
        text,
        attr01,
        attr02,
        attr03,
        attr04,
        attr05,
        attr06,
        attr07,
        attr08,
        attr09,
        attr10,
    }
}

/// A comment as loaded, by any of `users`.
pub(super) fn loaded_comment(article: u32, index: u32, users: u32) -> Comment {
    let key = u64::from(article) << 32 | u64::from(index);
    let (tag, user) = (loaded_tag(key, 8), mix(loaded_tag(key, 9)) % u64::from(users));
    comment(article, index, user as u32, tag, text(tag))
}

/// How many comments articles have at first: Zipf-distributed over 0 to 999 with exponent 2, so 61 % have none,
/// and the mean is 3.6. A table of shares, because the sampler [`Zipf`](crate::ycsb::zipf::Zipf) needs an
/// exponent below 1.
#[derive(Debug)]
pub(super) struct Counts {
    /// By count, the share of the articles that have so many or fewer.
    shares: Box<[f64]>,
    /// No article has more.
    cap: u32,
}

impl Counts {
    /// One more than the highest count.
    const COUNTS: u32 = 1000;
    /// Comments of an article on average, rounded up.
    pub const MEAN: usize = 4;

    pub fn new(cap: u32) -> Self {
        let weight = |count: u32| 1.0 / (f64::from(count) + 1.0).powi(2);
        let all: f64 = (0..Self::COUNTS).map(weight).sum();
        let mut sum = 0.0;
        let share = |count| {
            sum += weight(count);
            sum / all
        };
        Self { shares: (0..Self::COUNTS).map(share).collect(), cap }
    }

    /// Of an article.
    pub fn of(&self, article: u32) -> u32 {
        let share = (mix(loaded_tag(u64::from(article), 10)) >> 11) as f64 / (1u64 << 53) as f64;
        let count = self.shares.partition_point(|up_to| *up_to <= share) as u32;
        count.min(Self::COUNTS - 1).min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_tell_their_tags() {
        for word in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            let text = text(word);
            assert_eq!((text.as_bytes().len(), tag(&text)), (TEXT_LENGTH, Some(word)));
            let mut torn = text.as_bytes().to_vec();
            torn[99] ^= 1;
            assert_eq!(tag(&Text::truncated(std::str::from_utf8(&torn).unwrap())), None);
        }
        assert_eq!(tag(&Text::EMPTY), None);
        assert_eq!(tag(&Text::truncated("short")), None);
    }

    #[test]
    fn rows_follow_from_their_keys() {
        assert_eq!(user(3), user(3));
        assert_ne!(user(3).last_name, user(4).last_name);
        assert_ne!(user(3).first_name, user(3).last_name);
        assert_eq!(article(3, 1).title, article(3, 2).title);
        let comment = loaded_comment(3, 1, 200);
        assert_eq!((comment.article, comment.index), (3, 1));
        assert!(comment.user < 200 && tag(&comment.text) == Some(comment.attr01));
        assert_ne!(comment.text, loaded_comment(1, 3, 200).text);
    }

    /// Computed exactly: 60.8 % have none, 15.2 % have one, the mean is 3.55. Few articles hold most of the comments,
    /// so the mean varies more.
    #[test]
    fn counts_are_those_of_zipf() {
        let counts = Counts::new(1000);
        let articles = 1_000_000;
        let (mut none, mut one, mut sum, mut most) = (0u32, 0u32, 0u64, 0);
        for article in 0..articles {
            let count = counts.of(article);
            none += u32::from(count == 0);
            one += u32::from(count == 1);
            sum += u64::from(count);
            most = most.max(count);
        }
        let share = |count: u32| f64::from(count) / f64::from(articles);
        assert!((share(none) - 0.6083).abs() < 0.002, "{none}");
        assert!((share(one) - 0.1521).abs() < 0.002, "{one}");
        let mean = sum as f64 / f64::from(articles);
        assert!((mean - 3.55).abs() < 0.1, "{mean}");
        assert!(mean < Counts::MEAN as f64 && (900..1000).contains(&most), "{most}");
        assert!((0..1000).all(|article| Counts::new(2).of(article) == counts.of(article).min(2)));
    }
}
