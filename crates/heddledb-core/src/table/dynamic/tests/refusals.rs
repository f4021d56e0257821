//! What cannot be defined, and values that do not fit.

use super::{ColumnType, TableDefinition, Value};
use crate::log::PAYLOAD_WORDS_MAX;
use crate::table::column_type::ROW_WORDS_MAX;
use crate::table::dynamic::TableBuilder;
use crate::words::WordsCopy;
use crate::{Error, Misuse};
use ColumnType as Ty;

/// So that a row fits into an entry of the log, as a manifest demands.
const _: () = assert!(ROW_WORDS_MAX == PAYLOAD_WORDS_MAX / 2);

#[track_caller]
fn refused(define: impl FnOnce(TableBuilder) -> TableBuilder, why: &str) {
    match define(TableDefinition::builder("t")).build() {
        Ok(table) => panic!("{table:?} was defined, but {why}"),
        Err(Error::Misuse(misuse)) => {
            assert_eq!(*misuse, Misuse::Definition { table: "t".to_owned(), why: why.to_owned() });
        }
        Err(error) => panic!("{error}"),
    }
}

fn keyed(t: TableBuilder) -> TableBuilder {
    t.key("id", Ty::U64)
}

fn columns(t: TableBuilder, names: impl IntoIterator<Item = &'static str>) -> TableBuilder {
    names.into_iter().fold(t, |t, name| t.column(name, Ty::U8))
}

#[test]
fn names() {
    let error = TableDefinition::builder("").key("id", Ty::U64).build().unwrap_err();
    assert_eq!(error.to_string(), "table  cannot be defined: the name is empty; write one");
    for name in ["", "_", "a b", "1a", "a.b", "a,", "a;", "r#a"] {
        let why = format!(
            "`{name}` is not a valid column name; write letters, digits and `_`, with no digit first"
        );
        refused(|t| keyed(t).column(name, Ty::U8), &why);
        let why =
            format!("`{name}` is not a valid group name; write letters, digits and `_`, with no digit first");
        refused(|t| keyed(t).column("a", Ty::U8).group(name), &why);
        let why =
            format!("`{name}` is not a valid index name; write letters, digits and `_`, with no digit first");
        refused(|t| keyed(t).index(name, ["id"]), &why);
    }
    let long = "x".repeat(1025);
    refused(|t| t.key(&long, Ty::U8), "the column name has more than 1024 bytes; shorten it");
    refused(
        |t| keyed(t).index(&long[..1023], ["id"]),
        "the name, with an index's, has more than 1024 bytes; shorten it",
    );
    refused(|t| keyed(t).column("id", Ty::U8), "column `id` is declared already; give this one another name");
    refused(
        |t| keyed(t).index("A", ["id"]).unique("A", ["id"]),
        "index `A` is declared already; give this one another name",
    );
    for name in ["größe", "_a1", "fn"] {
        TableDefinition::builder(name).key(name, Ty::U64).build().unwrap();
    }
}

#[test]
fn keys() {
    refused(|t| t.column("a", Ty::U8), "it has no key; declare the columns that identify a row with `key`");
    refused(|t| t, "it has no key; declare the columns that identify a row with `key`");
    refused(
        |t| ["a", "b", "c", "d", "e", "f", "g", "h", "i"].iter().fold(t, |t, name| t.key(*name, Ty::U8)),
        "a key has at most 8 parts, and this has 9",
    );
    refused(|t| keyed(t).key("b", Ty::Text(57)), "the key has at most 64 bytes, and this has 65");
    refused(
        |t| keyed(t).column("b", Ty::Text(60)).index("ByB", ["b"]),
        "the key of index `ByB` has at most 64 bytes, and this has 68",
    );
    for ty in [Ty::F32, Ty::F64, Ty::F32.optional(), Ty::F64.reversed()] {
        let no = format!("but `{ty}` cannot be: floats and decimals have no order as keys");
        refused(|t| t.key("a", ty), &format!("column `a` is part of the key, {no}"));
        refused(
            |t| keyed(t).column("a", ty).unique("ByA", ["a"]),
            &format!("column `a` is part of the key of index `ByA`, {no}"),
        );
    }
}

#[test]
fn types() {
    for ty in [Ty::Bytes(0), Ty::Text(0), Ty::Text(0).optional()] {
        let plain = if let Ty::Option(inner) = &ty { inner } else { &ty };
        let why = format!("column `a`: `{plain}` has no bytes; remove the column");
        refused(|t| keyed(t).column("a", ty), &why);
    }
    refused(
        |t| keyed(t).column("a", Ty::Text(usize::MAX)),
        "column `a`: `Text<18446744073709551615>` is longer than a row can be, 33554432 bytes",
    );
    refused(
        |t| keyed(t).column("a", Ty::U8.optional().optional()),
        "column `a`: `Option<Option<u8>>` has an option within; a value is there or not, with nothing between",
    );
    let enumeration = |integer, variants: &[(&str, i128)], why: &str| {
        let ty = Ty::enumeration(integer, variants.iter().copied());
        refused(|t| keyed(t).column("a", ty), &format!("column `a`: {why}"));
    };
    enumeration(Ty::U8, &[], "an enum has at least one value");
    enumeration(
        Ty::U128,
        &[("A", 0)],
        "an enum is stored as an integer of at most 64 bits, and not as `u128`",
    );
    enumeration(Ty::I8, &[("A", -128), ("B", 128)], "`B` is 128, which `i8` does not have");
    enumeration(Ty::U8, &[("A", 0), ("B", 0)], "`B=0` and `A=0` are not different values");
    enumeration(Ty::U8, &[("A", 0), ("A", 1)], "`A=1` and `A=0` are not different values");
    let why =
        "`a b` is not a valid name of an enum's value; write letters, digits and `_`, with no digit first";
    enumeration(Ty::U8, &[("a b", 0)], why);
    let most = 8 * ROW_WORDS_MAX;
    refused(
        |t| keyed(t).column("a", Ty::Bytes(most)),
        "a row has at most 33554432 bytes, and this has 33554440",
    );
    TableDefinition::builder("t").key("id", Ty::U64).column("a", Ty::Bytes(most - 8)).build().unwrap();
}

#[test]
fn groups() {
    refused(|t| t.group("hot"), "group `hot` has no column; declare the column before its group");
    refused(|t| keyed(t).group("hot"), "key column `id` is always in group `main`; remove the group");
    refused(
        |t| keyed(t).column("a", Ty::U8).group("hot").group("cold"),
        "column `a` has a group already; remove one",
    );
    let grouped = |groups: usize| {
        move |t| {
            (0..groups)
                .fold(keyed(t), |t, group| t.column(format!("c{group}"), Ty::U8).group(format!("g{group}")))
        }
    };
    grouped(15)(TableDefinition::builder("t")).build().unwrap();
    refused(
        grouped(16),
        "a table has at most 16 column groups, `main` among them, and this has 17; \
         put together the columns that change together",
    );
    let many = |columns: usize| {
        move |t| (1..columns).fold(keyed(t), |t, column| t.column(format!("c{column}"), Ty::U8))
    };
    many(64)(TableDefinition::builder("t")).build().unwrap();
    refused(
        many(65),
        "a table has at most 64 columns, and this has 65; move some to a second table with the same key",
    );
}

#[test]
fn indexes() {
    refused(
        |t| columns(keyed(t), ["name", "email"]).index("ByEmail", ["emial"]),
        "index `ByEmail`: there is no column `emial`; there are `id`, `name`, `email`",
    );
    refused(
        |t| columns(keyed(t), ["name"]).index("ByName", ["name", "name"]),
        "index `ByName` has column `name` already; remove one",
    );
    refused(|t| keyed(t).index("ByNothing", [""; 0]), "index `ByNothing` has no columns; list at least one");
    let wide = |t| columns(t, ["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    refused(
        |t| wide(keyed(t)).unique("Wide", ["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
        "an index has at most 8 columns, and `Wide` has 9; list fewer",
    );
    refused(
        |t| wide(keyed(t)).index("Wide", ["a", "b", "c", "d", "e", "f", "g", "h"]),
        "the key of index `Wide` would have 9 parts, 8 columns and then 1 of the primary key, \
         but at most 8 fit; list fewer columns, or make it `unique` if no two rows share them",
    );
    refused(
        |t| ["A", "B", "C", "D", "E", "F", "G"].iter().fold(keyed(t), |t, name| t.index(*name, ["id"])),
        "a table has at most 6 indexes, and this has 7",
    );
}

#[test]
fn values_that_do_not_fit() {
    let table = TableDefinition::builder("account")
        .key("id", Ty::U64)
        .key("part", Ty::Text(3))
        .column("balance", Ty::I64)
        .column("mark", Ty::Bytes(2).optional())
        .column("status", Ty::enumeration(Ty::U8, [("Open", 0), ("Closed", 4)]))
        .unique("ByBalance", ["balance"])
        .build()
        .unwrap();
    let key = |values: &[Value]| table.encode_key(values).unwrap_err().to_string();
    assert_eq!(key(&[1i64.into(), "a".into()]), "column id of table account: expected u64, given 1 (i64)");
    assert_eq!(
        key(&[1u64.into(), "abcd".into()]),
        r#"column part of table account: expected Text<3>, given "abcd" (text of 4 bytes)"#
    );
    assert_eq!(
        key(&[1u64.into(), "a\0".into()]),
        r#"column part of table account: expected Text<3>, given "a\0" (text of 2 bytes)"#
    );
    assert_eq!(key(&[1u64.into()]), "the key of account consists of id, part; 1 values were given");
    assert_eq!(
        table.relation().prefix(&[const { Value::Null }; 3]).unwrap_err().to_string(),
        "the key prefix of account consists of id, part; 3 values were given"
    );

    let row = |values: &[Value]| {
        let mut words = [0; 8];
        table.encode_row(values, &mut WordsCopy::new(0, &mut words)).unwrap_err().to_string()
    };
    let [id, part] = [Value::U64(1), Value::from("a")];
    assert_eq!(
        row(&[id.clone(), part.clone(), 1i64.into()]),
        "the row of account consists of id, part, balance, mark, status; 3 values were given"
    );
    assert_eq!(
        row(&[id.clone(), part.clone(), Value::Null, Value::Null, "Open".into()]),
        "column balance of table account: expected i64, given null"
    );
    assert_eq!(
        row(&[id.clone(), part.clone(), 1i64.into(), [1, 2, 3].into(), "Open".into()]),
        "column mark of table account: expected Option<[u8;2]>, given 3 bytes"
    );
    assert_eq!(
        row(&[id.clone(), part.clone(), 1i64.into(), Value::Null, "Shut".into()]),
        r#"column status of table account: expected u8{Open=0,Closed=4}, given "Shut" (text of 4 bytes)"#
    );
    assert_eq!(
        table.indexes()[0].entry(&[id, part]).unwrap_err().to_string(),
        "the key of account.ByBalance consists of balance; 2 values were given"
    );
    assert!(table.index("ByBalance").is_some() && table.index("balance").is_none());
}
