//! Arguments and results as bytes.

use super::Procedure;
use crate::error::{Misuse, Result};
use postcard::Error as Fault;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::type_name;

/// A procedure whose arguments and result can be written as bytes, so that it can be called by its name: every
/// [`Procedure`] whose types implement serde's traits is one. With the feature `postcard`.
///
/// The bytes are in the [postcard format](https://postcard.jamesmunns.com/wire-format): arguments one after another,
/// as are the fields of a struct; unsigned integers of 16 bits and more as variable-length integers, signed ones
/// the same after zigzag; texts and lists behind their length; options behind a 0 or 1. They do not name their
/// types, so both sides must agree on them. Bytes that the other side wrote for other types may be refused or
/// decode to something else, but never cause a panic or undefined behaviour.
///
/// Arguments that borrow are decoded without a copy where serde can: `&str` and `&[u8]`. Other slices cannot be
/// decoded, nor can types without serde's traits: such a procedure is registered and called by its type only.
///
/// Where the bytes come from somebody who is not trusted, take no recursive types (nesting is not limited, so the
/// stack may overflow) and no lists of `()` (their length costs nothing to write, and time to read).
///
/// ```
/// use heddledb::procedure::NamedProcedure;
/// use heddledb::{Database, Result, Table, Transaction, procedure};
///
/// #[derive(Table, Clone, Copy)]
/// struct Account { #[key] id: u64, balance: i64 }
///
/// #[procedure]
/// fn deposit(tx: &mut impl Transaction, account: u64, amount: i64) -> Result<i64> {
///     tx.update_columns(account, Account::balance, |balance| { *balance += amount; *balance })
/// }
///
/// let db = Database::builder().named_procedure::<Deposit>().open()?;
/// let mut session = db.session()?;
/// session.run(|tx| tx.insert(Account { id: 7, balance: 100 }))?;
///
/// let arguments = Deposit::encode_arguments(&(7, -30))?;
/// assert_eq!(arguments, [7, 59]);
/// let result = session.call_named("deposit", &arguments)?;
/// assert_eq!(Deposit::decode_output(&result)?, 70);
/// # Ok::<(), heddledb::Error>(())
/// ```
pub trait NamedProcedure: Procedure {
    /// The bytes of arguments. One allocation that grows.
    ///
    /// # Errors
    /// [`Misuse::Unencodable`] where a type's `Serialize` refuses, or gives a list without a length.
    fn encode_arguments(arguments: &Self::Arguments<'_>) -> Result<Vec<u8>>;

    /// The arguments in `bytes`, all of which they must take.
    ///
    /// # Errors
    /// [`Misuse::Undecodable`].
    fn decode_arguments(bytes: &[u8]) -> Result<Self::Arguments<'_>>;

    /// The bytes of a result. One allocation that grows.
    ///
    /// # Errors
    /// [`Misuse::Unencodable`], as for arguments.
    fn encode_output(output: &Self::Output) -> Result<Vec<u8>>;

    /// The result in `bytes`, all of which it must take.
    ///
    /// # Errors
    /// [`Misuse::Undecodable`].
    fn decode_output(bytes: &[u8]) -> Result<Self::Output>;
}

impl<Q: Procedure> NamedProcedure for Q
where
    for<'a> Q::Arguments<'a>: Serialize + Deserialize<'a>,
    Q::Output: Serialize + DeserializeOwned,
{
    fn encode_arguments(arguments: &Self::Arguments<'_>) -> Result<Vec<u8>> {
        encode::<Q, _>("arguments", arguments)
    }

    fn decode_arguments(bytes: &[u8]) -> Result<Self::Arguments<'_>> {
        decode::<Q, _>("arguments", bytes)
    }

    fn encode_output(output: &Self::Output) -> Result<Vec<u8>> {
        encode::<Q, _>("result", output)
    }

    fn decode_output(bytes: &[u8]) -> Result<Self::Output> {
        decode::<Q, _>("result", bytes)
    }
}

/// Appends the bytes of arguments.
#[doc(hidden)]
pub fn encode_arguments<Q: Procedure, T: Serialize>(arguments: &T, out: &mut Vec<u8>) -> Result<()> {
    let before = std::mem::take(out);
    *out = postcard::to_extend(arguments, before).map_err(|fault| unencodable::<Q, T>("arguments", fault))?;
    Ok(())
}

/// The arguments in `bytes`, all of which they must take.
#[doc(hidden)]
pub fn decode_arguments<'a, Q: Procedure, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    decode::<Q, _>("arguments", bytes)
}

fn encode<Q: Procedure, T: Serialize>(part: &'static str, value: &T) -> Result<Vec<u8>> {
    Ok(postcard::to_allocvec(value).map_err(|fault| unencodable::<Q, T>(part, fault))?)
}

fn unencodable<Q: Procedure, T>(part: &'static str, fault: Fault) -> Misuse {
    Misuse::Unencodable { procedure: Q::NAME, part, given: type_name::<T>(), why: words(fault).into() }
}

fn decode<'a, Q: Procedure, T: Deserialize<'a>>(part: &'static str, bytes: &'a [u8]) -> Result<T> {
    let refused =
        |why: String| Misuse::Undecodable { procedure: Q::NAME, part, expected: type_name::<T>(), why };
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => {
            let (over, all) = (rest.len(), bytes.len());
            Err(refused(format!("{over} of {all} bytes are left over")).into())
        }
        Err(fault) => Err(refused(words(fault).into()).into()),
    }
}

fn words(fault: Fault) -> &'static str {
    match fault {
        Fault::DeserializeUnexpectedEnd => "the bytes end too early",
        Fault::DeserializeBadVarint => "an integer is too large for its type",
        Fault::DeserializeBadBool => "a bool is neither 0 nor 1",
        Fault::DeserializeBadChar => "a character is none",
        Fault::DeserializeBadUtf8 => "a text is not UTF-8",
        Fault::DeserializeBadOption => "an option is neither 0 nor 1",
        Fault::SerializeSeqLengthUnknown => "a list does not know its length",
        Fault::WontImplement => "the format describes no types, so one that asks for them cannot be read",
        Fault::SerdeSerCustom | Fault::SerdeDeCustom => "a value was refused by its type",
        _ => "it does not fit the format",
    }
}
