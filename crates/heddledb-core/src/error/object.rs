//! What a transactional object answers where an operation cannot be met.

/// An operation of a transactional object that cannot be met. It did nothing, and the transaction goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectMisuse {
    /// The object has no rows in this database yet.
    #[error(
        "object {object} was not made in this database; name its struct with `Builder::objects` when the database is opened, or \
         call `Database::make_objects`"
    )]
    NotMade {
        /// The object: the name of its table.
        object: &'static str,
    },
    /// An element behind the end of an array or a vector.
    #[error("{object} has {len} elements, and none at {index}; look at its `len`, or make it longer")]
    OutOfBounds {
        /// The object: the name of its table.
        object: &'static str,
        /// The index that was given.
        index: u64,
        /// How many elements there are.
        len: u64,
    },
    /// A number that no element of a list has, or not any more.
    #[error(
        "{object} has no element of number {number}; it was removed, or the number is one of another list"
    )]
    NoElement {
        /// The object: the name of its table.
        object: &'static str,
        /// The number that was given.
        number: u64,
    },
}
