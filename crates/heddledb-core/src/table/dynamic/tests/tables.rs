//! The tables that are declared both ways.

use super::{ColumnType, TableDefinition, assert_alike};
use crate::table::dynamic::TableBuilder;
use crate::table::{ColumnValue, Key};
use crate::{Table, Text};
use ColumnType as Ty;
use std::cmp::Reverse;
use std::time::Duration;

/// One test for each table, and all definitions.
macro_rules! declared_both_ways {
    ($($test:ident: $table:ty = $name:literal $definition:expr;)*) => {
        $(
            #[test]
            fn $test() {
                let define: fn(TableBuilder) -> TableBuilder = $definition;
                let defined = define(TableDefinition::builder($name)).build().unwrap();
                assert_alike::<$table>(defined);
                let of = TableDefinition::of::<$table>().unwrap();
                assert_eq!(of.relation().layout(), defined.relation().layout());
                assert_eq!(of.indexes().len(), defined.indexes().len());
                for (index, defined) in of.indexes().iter().zip(defined.indexes()) {
                    assert_eq!(index.relation().schema(), defined.relation().schema());
                    assert_eq!(index.name(), defined.name());
                }
            }
        )*

        pub fn all() -> Vec<&'static TableDefinition> {
            let definitions: &[(&str, fn(TableBuilder) -> TableBuilder)] = &[$(($name, $definition)),*];
            let build = |(name, define): &(&str, fn(TableBuilder) -> TableBuilder)| {
                define(TableDefinition::builder(*name)).build().unwrap()
            };
            definitions.iter().map(build).collect()
        }
    };
}

declared_both_ways! {
    one_key_and_nothing_else: Lone = "lone" |t| t.key("id", Ty::U64);

    every_type: Everything = "everything" |t| t
        .key("id", Ty::U64)
        .column("a", Ty::U8)
        .column("b", Ty::U16)
        .column("c", Ty::U32)
        .column("d", Ty::I8)
        .column("e", Ty::I16)
        .column("f", Ty::I32)
        .column("g", Ty::I64)
        .column("h", Ty::U128)
        .column("i", Ty::Bool)
        .column("j", Ty::F32)
        .column("k", Ty::F64)
        .column("l", Ty::Bytes(3))
        .column("m", Ty::Bytes(11))
        .column("n", Ty::Text(5))
        .column("o", Ty::Text(20))
        .column("p", Ty::U64.optional())
        .column("q", Ty::U16.optional())
        .column("r", Ty::Text(9).optional())
        .column("s", Ty::Bool).group("other")
        .column("t", Ty::I64.optional()).group("other")
        .column("u", Ty::Bytes(8).optional())
        .column("v", Ty::U128.optional())
        .column("w", Ty::I128)
        .column("x", Ty::Duration)
        .column("y", Ty::Duration.optional());

    types_of_ones_own: Ticket = "ticket" |t| t
        .key("event", Ty::Text(3).optional())
        .key("seat", Ty::U32)
        .column("status", Ty::enumeration(Ty::U8, [("Open", 0), ("Held", 1), ("Sold", 7)]))
        .column("class", Ty::enumeration(Ty::I16, [("Stalls", -300), ("Balcony", 300), ("type", 301)]).optional())
        .column("open_for", Ty::Duration)
        .column("price", Ty::I128.optional())
        .column("sold", Ty::U64.optional().reversed())
        .index("ByStatus", ["status", "class"])
        .index("ByPrice", ["price", "open_for"])
        .index("BySold", ["sold"]);

    groups_out_of_order: Packed = "packed" |t| t
        .hash()
        .append_only()
        .column("small", Ty::U8)
        .column("flag", Ty::Bool).group("zeta")
        .key("id", Ty::U32)
        .column("counter", Ty::U64).group("alpha")
        .column("half", Ty::U16).group("zeta")
        .column("text", Ty::Text(9))
        .column("tail", Ty::U8)
        .column("wide", Ty::U128).group("zeta")
        .column("last", Ty::U64).group("main");

    composite_key_and_indexes: Customer = "customer" |t| t
        .key("w_id", Ty::U16)
        .column("since", Ty::I32)
        .key("d_id", Ty::U8)
        .key("c_id", Ty::U32)
        .column("first", Ty::Text(4))
        .column("last", Ty::Text(8))
        .column("email", Ty::Text(20))
        .column("balance", Ty::I64).group("hot")
        .column("zip", Ty::U32)
        .column("street", Ty::Bytes(6))
        .index("ByName", ["w_id", "d_id", "last", "first"])
        .unique("ByEmail", ["email"])
        .unique("ByPlace", ["zip", "street"])
        .index("BySince", ["since"])
        .hash();

    signed_keys: Temperature = "temperature" |t| t
        .key("station", Ty::I8)
        .key("shelf", Ty::I16)
        .key("place", Ty::I32)
        .key("time", Ty::I64)
        .column("degrees", Ty::F64);

    text_keys: Word = "a word, in a language" |t| t
        .key("language", Ty::Text(3))
        .key("word", Ty::Text(21))
        .column("count", Ty::U64).group("counts")
        .column("last", Ty::I64.optional()).group("counts");

    descending_keys: Post = "post" |t| t
        .key("forum", Ty::U16)
        .key("time", Ty::I64.reversed())
        .key("author", Ty::Text(5).reversed())
        .column("edited", Ty::U32.reversed().optional())
        .column("score", Ty::I32.reversed())
        .column("title", Ty::Text(40))
        .index("ByScore", ["score"])
        .unique("ByTitle", ["title", "author"]);

    bytes_keys: Blob = "blob" |t| t
        .hash()
        .key("digest", Ty::Bytes(32))
        .column("size", Ty::U32)
        .column("mark", Ty::Bytes(5))
        .index("ByMark", ["mark", "size"]);

    wide_keys: Flow = "flow" |t| t
        .key("source", Ty::U128)
        .key("target", Ty::U128)
        .key("port", Ty::U16)
        .key("inward", Ty::Bool)
        .column("bytes", Ty::U64).group("counts")
        .column("seen", Ty::I64).group("times")
        .unique("ByPort", ["port", "inward", "source", "target"]);

    eight_words_of_key: Widest = "widest" |t| t
        .key("a", Ty::U8)
        .key("b", Ty::Text(55))
        .key("c", Ty::U64)
        .column("d", Ty::U8)
        .index("ByC", ["c", "b"]);

    eight_parts: Parts = "parts" |t| t
        .key("a", Ty::U8).key("b", Ty::U8).key("c", Ty::U8).key("d", Ty::I8)
        .key("e", Ty::U8.reversed()).key("f", Ty::Bool).key("g", Ty::Bytes(2)).key("h", Ty::U64)
        .index("ByH", ["h"])
        .index("ByE", ["e", "a"]);

    six_indexes: Indexed = "indexed" |t| t
        .key("id", Ty::U64)
        .column("a", Ty::U8)
        .column("b", Ty::I16)
        .column("c", Ty::Text(7)).group("text")
        .column("d", Ty::Bool)
        .index("A", ["a"])
        .index("B", ["b", "id"])
        .unique("C", ["c"])
        .index("D", ["d", "c", "b", "a"])
        .unique("E", ["id"])
        .unique("F", ["d", "id"]);

    key_behind_other_columns: Late = "late" |t| t
        .column("hot", Ty::I64).group("hot")
        .column("flags", Ty::Bytes(1))
        .column("note", Ty::Text(64).optional()).group("cold")
        .key("id", Ty::I32)
        .column("price", Ty::F32.optional()).group("hot");

    keywords_as_names: Reading = "reading" |t| t
        .key("source", Ty::Bytes(2))
        .column("type", Ty::U8)
        .column("target", Ty::F32).group("dyn")
        .index("ByType", ["type"]);
}

#[derive(Table, Clone, Copy)]
struct Lone {
    #[key]
    id: u64,
}

#[derive(Table, Clone, Copy)]
struct Everything {
    #[key]
    id: u64,
    a: u8,
    b: u16,
    c: u32,
    d: i8,
    e: i16,
    f: i32,
    g: i64,
    h: u128,
    i: bool,
    j: f32,
    k: f64,
    l: [u8; 3],
    m: [u8; 11],
    n: Text<5>,
    o: Text<20>,
    p: Option<u64>,
    q: Option<u16>,
    r: Option<Text<9>>,
    #[group(other)]
    s: bool,
    #[group(other)]
    t: Option<i64>,
    u: Option<[u8; 8]>,
    v: Option<u128>,
    w: i128,
    x: Duration,
    y: Option<Duration>,
}

#[derive(Table, Clone, Copy)]
#[table(hash, append_only)]
struct Packed {
    small: u8,
    #[group(zeta)]
    flag: bool,
    #[key]
    id: u32,
    #[group(alpha)]
    counter: u64,
    #[group(zeta)]
    half: u16,
    text: Text<9>,
    tail: u8,
    #[group(zeta)]
    wide: u128,
    #[group(main)]
    last: u64,
}

#[derive(Table, Clone, Copy)]
#[table(index(ByName(w_id, d_id, last, first)), unique(ByEmail(email)))]
#[table(unique(ByPlace(zip, street)), index(BySince(since)), hash)]
struct Customer {
    #[key]
    w_id: u16,
    since: i32,
    #[key]
    d_id: u8,
    #[key]
    c_id: u32,
    first: Text<4>,
    last: Text<8>,
    email: Text<20>,
    #[group(hot)]
    balance: i64,
    zip: u32,
    street: [u8; 6],
}

#[derive(Table, Clone, Copy)]
struct Temperature {
    #[key]
    station: i8,
    #[key]
    shelf: i16,
    #[key]
    place: i32,
    #[key]
    time: i64,
    degrees: f64,
}

#[derive(Table, Clone, Copy)]
#[table(name = "a word, in a language")]
struct Word {
    #[key]
    language: Text<3>,
    #[key]
    word: Text<21>,
    #[group(counts)]
    count: u64,
    #[group(counts)]
    last: Option<i64>,
}

#[derive(Table, Clone, Copy)]
#[table(index(ByScore(score)), unique(ByTitle(title, author)))]
struct Post {
    #[key]
    forum: u16,
    #[key]
    time: Reverse<i64>,
    #[key]
    author: Reverse<Text<5>>,
    edited: Option<Reverse<u32>>,
    score: Reverse<i32>,
    title: Text<40>,
}

#[derive(Table, Clone, Copy)]
#[table(hash, index(ByMark(mark, size)))]
struct Blob {
    #[key]
    digest: [u8; 32],
    size: u32,
    mark: [u8; 5],
}

#[derive(Table, Clone, Copy)]
#[table(unique(ByPort(port, inward, source, target)))]
struct Flow {
    #[key]
    source: u128,
    #[key]
    target: u128,
    #[key]
    port: u16,
    #[key]
    inward: bool,
    #[group(counts)]
    bytes: u64,
    #[group(times)]
    seen: i64,
}

#[derive(Table, Clone, Copy)]
#[table(index(ByC(c, b)))]
struct Widest {
    #[key]
    a: u8,
    #[key]
    b: Text<55>,
    #[key]
    c: u64,
    d: u8,
}

#[derive(Table, Clone, Copy)]
#[table(index(ByH(h)), index(ByE(e, a)))]
struct Parts {
    #[key]
    a: u8,
    #[key]
    b: u8,
    #[key]
    c: u8,
    #[key]
    d: i8,
    #[key]
    e: Reverse<u8>,
    #[key]
    f: bool,
    #[key]
    g: [u8; 2],
    #[key]
    h: u64,
}

#[derive(Table, Clone, Copy)]
#[table(index(A(a)), index(B(b, id)), unique(C(c)), index(D(d, c, b, a)), unique(E(id)), unique(F(d, id)))]
struct Indexed {
    #[key]
    id: u64,
    a: u8,
    b: i16,
    #[group(text)]
    c: Text<7>,
    d: bool,
}

#[derive(Table, Clone, Copy)]
struct Late {
    #[group(hot)]
    hot: i64,
    flags: [u8; 1],
    #[group(cold)]
    note: Option<Text<64>>,
    #[key]
    id: i32,
    #[group(hot)]
    price: Option<f32>,
}

#[derive(Table, Clone, Copy)]
#[table(index(ByType(r#type)))]
struct Reading {
    #[key]
    source: [u8; 2],
    r#type: u8,
    #[group(r#dyn)]
    target: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, ColumnValue, Key)]
struct Seat(u32);

#[derive(Clone, Copy, Debug, PartialEq, ColumnValue, Key)]
struct EventCode {
    text: Text<3>,
}

#[derive(Clone, Copy, Debug, PartialEq, ColumnValue, Key)]
enum Status {
    Open,
    Held,
    Sold = 7,
}

#[derive(Clone, Copy, Debug, PartialEq, ColumnValue, Key)]
#[repr(i16)]
#[expect(non_camel_case_types, reason = "a raw name")]
enum Class {
    Stalls = -300,
    Balcony = 300,
    r#type,
}

#[derive(Table, Clone, Copy)]
#[table(index(ByStatus(status, class)), index(ByPrice(price, open_for)), index(BySold(sold)))]
struct Ticket {
    #[key]
    event: Option<EventCode>,
    #[key]
    seat: Seat,
    status: Status,
    class: Option<Class>,
    open_for: Duration,
    price: Option<i128>,
    sold: Reverse<Option<u64>>,
}

#[test]
fn values_of_ones_own_are_values() {
    use super::Value;
    assert_eq!(Value::from(Seat(4)), Value::U32(4));
    assert_eq!(Seat::try_from(&Value::U32(4)), Ok(Seat(4)));
    assert_eq!(Value::from(Class::r#type), "type".into());
    assert_eq!(Class::try_from(&"Balcony".into()), Ok(Class::Balcony));
    let wrong = Status::try_from(&"Gone".into()).unwrap_err().to_string();
    assert_eq!(wrong, r#"expected Status, given "Gone" (text of 4 bytes)"#);
    let wrong = Seat::try_from(&Value::U64(4)).unwrap_err().to_string();
    assert_eq!(wrong, "expected u32, given 4 (u64)");
}

#[test]
fn a_schema_text_gives_the_definition_again() {
    for table in all() {
        let indexes: Vec<(&str, &str)> =
            table.indexes().iter().map(|index| (index.name(), index.relation().schema())).collect();
        let again = TableDefinition::of_schema(table.name(), table.relation().schema(), &indexes).unwrap();
        assert_eq!(again.relation().layout(), table.relation().layout());
        let types = |table: &'static TableDefinition| table.columns().iter().map(|column| column.ty());
        assert!(types(again).eq(types(table)), "{}", table.relation().schema());
    }
}
