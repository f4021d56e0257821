//! What `#[derive(Table)]` generates: layouts, keys, indexes, column constants.

use heddledb::table::WordsCopy;
use heddledb::table::dynamic::{TableBuilder, TableDefinition};
use heddledb::table::{
    ColumnType, ColumnValue, Columns, Group, Index, Key, RANK, Relation, Span, Structure, decode_key,
    encode_key,
};
use heddledb::{Table, Text};

/// The 64-bit words of a row that is stored over words of `fill`.
fn stored<T: Table>(row: &T, fill: u64) -> Vec<u64> {
    let mut words = vec![fill; T::LAYOUT.words];
    row.store(&mut WordsCopy::new(0, &mut words));
    words
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The bytes of a row of zeros that storing all ones into one column changes.
fn place<C: Columns>(column: C, value: C::Value) -> (usize, usize) {
    let mut words = vec![0; C::Table::LAYOUT.words];
    column.store(&value, &mut WordsCopy::new(0, &mut words));
    let bytes = bytes(&words);
    let changed = |byte: &u8| *byte != 0;
    let (first, last) = (bytes.iter().position(changed).unwrap(), bytes.iter().rposition(changed).unwrap());
    (first, last + 1)
}

/// Every column type.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
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
}

const EVERYTHING: Everything = Everything {
    id: 0x0123_4567_89AB_CDEF,
    a: 0xFE,
    b: 0xFEDC,
    c: 0xFEDC_BA98,
    d: -2,
    e: -300,
    f: -70_000,
    g: i64::MIN + 1,
    h: u128::MAX - 5,
    i: true,
    j: -1.5,
    k: f64::MIN_POSITIVE,
    l: [1, 2, 255],
    m: [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 255],
    n: Text::EMPTY,
    o: Text::EMPTY,
    p: Some(u64::MAX),
    q: None,
    r: None,
    s: false,
    t: Some(-1),
};

#[test]
fn rows_survive_store_and_load() {
    let full = Everything {
        n: Text::new("abcde").unwrap(),
        o: Text::new("zwölf Boxkämpfer").unwrap(),
        q: Some(0),
        r: Some(Text::new("neunzehn").unwrap()),
        ..EVERYTHING
    };
    let negated = Everything { i: false, s: true, p: None, t: None, ..full };
    for row in [EVERYTHING, full, negated] {
        for fill in [0, u64::MAX, 0xA5A5_A5A5_A5A5_A5A5] {
            let mut words = stored(&row, fill);
            assert_eq!(Everything::load(&WordsCopy::new(0, &mut words)), row);
        }
    }
}

#[test]
fn columns_read_alone_what_the_row_stored() {
    let mut words = stored(&EVERYTHING, u64::MAX);
    let words = WordsCopy::new(0, &mut words);
    let columns = (Everything::h, Everything::l, Everything::p, Everything::s, Everything::t);
    let expected = (EVERYTHING.h, EVERYTHING.l, EVERYTHING.p, EVERYTHING.s, EVERYTHING.t);
    assert_eq!(columns.load(&words), expected);
    assert_eq!(columns.groups(), 0b11);
}

#[test]
fn an_array_of_columns_is_all_of_them() {
    let columns = [Packed::small, Packed::tail];
    assert_eq!((columns.groups(), columns.ordinals()), (0b1, 0b100_0001));
    assert_eq!(columns.span(0), Span { start: 0, end: 3 });
    let mut words = vec![0; Packed::LAYOUT.words];
    let mut copy = WordsCopy::new(0, &mut words);
    columns.store(&[1, 2], &mut copy);
    assert_eq!((columns, Packed::tail).load(&copy), ([1, 2], 2));
}

#[test]
fn any_bits_give_a_row() {
    for fill in [0, u64::MAX, 0xA5A5_A5A5_A5A5_A5A5] {
        let mut words = vec![fill; Everything::LAYOUT.words];
        let row = Everything::load(&WordsCopy::new(0, &mut words));
        assert_eq!(row.a, fill as u8);
    }
}

/// Groups between columns of `main`, named out of alphabetical order.
#[derive(Table, Clone, Copy)]
#[table(name = "packed", hash, append_only)]
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

#[test]
fn columns_lie_in_their_groups() {
    let group = |name, start, end| Group { name, span: Span { start, end }, rank: RANK, held: false };
    assert_eq!(Packed::LAYOUT.groups, [group("main", 0, 4), group("zeta", 4, 7), group("alpha", 7, 8)]);
    assert_eq!((Packed::LAYOUT.name, Packed::LAYOUT.words), ("packed", 8));
    assert_eq!(place(Packed::small, u8::MAX), (0, 1));
    assert_eq!(place(Packed::id, u32::MAX), (4, 8));
    assert_eq!(place(Packed::text, Text::new("123456789").unwrap()), (8, 17));
    assert_eq!(place(Packed::tail, u8::MAX), (17, 18));
    assert_eq!(place(Packed::last, u64::MAX), (24, 32));
    assert_eq!(place(Packed::flag, true), (32, 33));
    assert_eq!(place(Packed::half, u16::MAX), (34, 36));
    assert_eq!(place(Packed::wide, u128::MAX), (40, 56));
    assert_eq!(place(Packed::counter, u64::MAX), (56, 64));
}

#[test]
fn columns_know_their_place() {
    assert_eq!(Packed::half.name(), "half");
    assert_eq!(
        [Packed::id.group(), Packed::last.group(), Packed::wide.group(), Packed::counter.group()],
        [0, 0, 1, 2]
    );
    assert_eq!(Packed::wide.span(1), Span { start: 5, end: 7 });
    assert_eq!((Packed::half, Packed::counter).ordinals(), 0b1_1000);
    assert_eq!(
        Packed::COLUMN_NAMES,
        ["small", "flag", "id", "counter", "half", "text", "tail", "wide", "last"]
    );
    assert_eq!(Packed::KEY_COLUMNS, 0b100);
    assert_eq!(Packed::INDEXED, 0);
    assert_eq!(Packed::COLUMN_GROUPS, [0, 1, 0, 2, 1, 0, 0, 1, 0]);
    const { assert!(Packed::APPEND_ONLY && !CustomerRow::APPEND_ONLY) };
}

#[test]
fn the_row_and_its_columns_store_alike() {
    let row = Packed {
        small: 1,
        flag: true,
        id: 2,
        counter: 3,
        half: 4,
        text: Text::new("five").unwrap(),
        tail: 6,
        wide: 7 << 64,
        last: 8,
    };
    let mut words = vec![0; Packed::LAYOUT.words];
    let mut copy = WordsCopy::new(0, &mut words);
    Packed::wide.store(&row.wide, &mut copy);
    (Packed::small, Packed::flag, Packed::id, Packed::counter).store(&(1, true, 2, 3), &mut copy);
    (Packed::half, Packed::text, Packed::tail, Packed::last).store(&(4, row.text, 6, 8), &mut copy);
    assert_eq!(words, stored(&row, 0));
}

/// A composite key with indexes over it.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByName(w_id, d_id, last, first)))]
#[table(unique(ByEmail(email)), unique(ByPlace(zip, street)), index(BySince(since)), hash)]
pub struct CustomerRow {
    #[key]
    w_id: u16,
    since: Day,
    #[key]
    d_id: u8,
    /// Not next to the others.
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

type Day = i32;

fn customer(c_id: u32, last: &str) -> CustomerRow {
    CustomerRow {
        w_id: 3,
        since: -5,
        d_id: 7,
        c_id,
        first: Text::new("Ada").unwrap(),
        last: Text::new(last).unwrap(),
        email: Text::new("ada@example.org").unwrap(),
        balance: 10,
        zip: 1234,
        street: *b"Hauptg",
    }
}

fn key_type<R: Relation<Key = K>, K: Key>(_: K) {}

#[test]
fn keys_are_tuples_in_order_of_declaration() {
    let row = customer(0x0102_0304, "Byron");
    key_type::<CustomerRow, (u16, u8, u32)>(row.key());
    key_type::<Packed, u32>(1);
    assert_eq!(row.key(), (3, 7, 0x0102_0304));
    let words: <CustomerRow as Relation>::Words = encode_key(&row.key());
    assert_eq!(words, [0x0003_0701_0203_0400]);
    assert_eq!(decode_key::<(u16, u8, u32)>(&words), row.key());
    assert_eq!(CustomerRow::KEY_COLUMNS, 0b1101);
    assert_eq!(CustomerRow::LAYOUT.name, "customer_row");
    assert_eq!(
        [CustomerRow::STRUCTURE, Packed::STRUCTURE, Everything::STRUCTURE],
        [Structure::Hash, Structure::Hash, Structure::Ordered]
    );
}

#[test]
fn index_entries() {
    let row = customer(9, "Byron");
    // Not unique: the columns, then the parts of the primary key.
    assert_eq!(ByName::entry(&row), (3, 7, row.last, row.first, 9));
    assert_eq!(BySince::entry(&row), (-5, 3, 7, 9));
    // Unique: the columns.
    assert_eq!(ByEmail::entry(&row), row.email);
    assert_eq!(ByPlace::entry(&row), (1234, row.street));
    assert_eq!(
        [ByName::UNIQUE, BySince::UNIQUE, ByEmail::UNIQUE, ByPlace::UNIQUE],
        [false, false, true, true]
    );

    let entry: <ByName as Relation>::Words = encode_key(&ByName::entry(&row));
    assert_eq!(entry.len(), (2 + 1 + 8 + 4 + 2 + 1 + 4usize).div_ceil(8));
    let later: <ByName as Relation>::Words = encode_key(&ByName::entry(&customer(1, "Lovelace")));
    let next: <ByName as Relation>::Words = encode_key(&ByName::entry(&customer(10, "Byron")));
    assert!(entry < next && next < later);
}

#[test]
fn index_relations() {
    fn shape<I: Index<Table = CustomerRow>>() -> (&'static str, Structure, usize, &'static [Group]) {
        (I::LAYOUT.name, I::STRUCTURE, I::LAYOUT.words, I::LAYOUT.groups)
    }
    // The row of an index is the primary key: 7 bytes, one word.
    let groups: &[Group] =
        &[Group { name: "main", span: Span { start: 0, end: 1 }, rank: RANK, held: false }];
    assert_eq!(shape::<ByName>(), ("customer_row.ByName", Structure::Ordered, 1, groups));
    assert_eq!(shape::<ByEmail>(), ("customer_row.ByEmail", Structure::Ordered, 1, groups));
    // since, first, last, email, zip, street and the indexed key columns w_id, d_id.
    assert_eq!(CustomerRow::INDEXED, 0b11_0111_0111);
    assert_eq!([ByName::INDEXED, BySince::INDEXED, ByPlace::INDEXED], [0b11_0101, 0b10, 0b11_0000_0000]);

    fn columns<I: Index<Columns = C>, C: Key>() {}
    columns::<BySince, i32>();
    columns::<ByPlace, (u32, [u8; 6])>();
    fn indexes<T: Table<Indexes = I>, I>() {}
    indexes::<CustomerRow, (ByName, ByEmail, ByPlace, BySince)>();
    indexes::<Packed, ()>();
}

#[test]
fn slots_are_one_per_relation() {
    let slots =
        [CustomerRow::definition(), Packed::definition(), ByName::definition(), ByEmail::definition()]
            .map(std::ptr::from_ref);
    for (index, slot) in slots.iter().enumerate() {
        assert!(!slots[..index].contains(slot));
    }
    assert!(std::ptr::eq(ByName::definition(), ByName::definition()));
}

/// A column type of the user's.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Celsius(f32);

impl ColumnValue for Celsius {
    const TYPE: ColumnType = f32::TYPE;
    fn load(source: &impl heddledb::table::Words, offset: usize) -> Self {
        Self(ColumnValue::load(source, offset))
    }
    fn store(&self, target: &mut impl heddledb::table::WordsMut, offset: usize) {
        self.0.store(target, offset);
    }
}

#[test]
fn unusual_names_and_types() {
    // In a function, with raw names, a type that names `Self`, and fields that are called like the
    // generated code's variables.
    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(index(ByType(r#type)))]
    struct Reading {
        #[key]
        source: [u8; Self::WIDTH],
        r#type: u8,
        #[group(r#dyn)]
        target: Celsius,
        row: u8,
    }
    impl Reading {
        const WIDTH: usize = 2;
    }
    let reading = Reading { source: *b"ab", r#type: 1, target: Celsius(36.6), row: 2 };
    let mut words = stored(&reading, 0);
    assert_eq!(Reading::load(&WordsCopy::new(0, &mut words)), reading);
    assert_eq!(Reading::r#type.name(), "type");
    assert_eq!(Reading::LAYOUT.groups[1].name, "dyn");
    assert_eq!(ByType::entry(&reading), (1, *b"ab"));
}

mod visibility {
    #[derive(super::Table, Clone, Copy)]
    #[table(unique(BySecret(secret)))]
    pub(super) struct Hidden {
        #[key]
        pub(super) id: u64,
        secret: u64,
    }

    pub(super) const HIDDEN: Hidden = Hidden { id: 1, secret: 2 };
}

#[test]
fn columns_and_indexes_are_as_visible_as_the_struct() {
    assert_eq!(visibility::Hidden::secret.name(), "secret");
    assert_eq!(visibility::HIDDEN.id, 1);
    assert_eq!(visibility::BySecret::entry(&visibility::HIDDEN), 2);
}

#[test]
fn the_engine_runs_on_derived_tables() -> heddledb::Result<()> {
    use heddledb::{ReadTransaction, Transaction};

    let db = heddledb::Database::in_memory();
    let mut session = db.session()?;
    let (byron, lovelace) = (customer(9, "Byron"), customer(1, "Lovelace"));
    let lovelace = CustomerRow { since: 3, email: Text::EMPTY, zip: 9, ..lovelace };
    session.run(|tx| {
        tx.insert(byron)?;
        tx.insert(lovelace)
    })?;
    session.run(|tx| tx.add(CustomerRow::balance, byron.key(), 5))?;
    session.run(|tx| {
        tx.update_columns(byron.key(), (CustomerRow::balance, CustomerRow::since), |(_, since)| *since = 4)
    })?;
    session.run(|tx| {
        let expected = CustomerRow { balance: 15, since: 4, ..byron };
        assert_eq!(tx.get::<CustomerRow>(byron.key())?, Some(expected));
        assert_eq!(tx.find::<ByEmail>(byron.email)?, Some(expected));
        assert_eq!(tx.find::<BySince>(4)?, Some(expected));
        assert_eq!(tx.find_key::<BySince>(-5)?, None);
        assert_eq!(tx.find::<ByPlace>((9, lovelace.street))?, Some(lovelace));
        Ok(())
    })
}

#[test]
fn ranks_are_those_of_the_table_or_of_the_group() {
    #[derive(Table, Clone)]
    #[table(rank = 7, index(ByOwner(owner)))]
    struct Ranked {
        #[key]
        id: u64,
        owner: u64,
        #[group(hot)]
        hits: u64,
        #[group(hot, rank = 200)]
        misses: u64,
        #[group(cold)]
        other: u64,
    }
    #[derive(Table, Clone)]
    #[table(held)]
    struct Held {
        #[key]
        id: u64,
        #[group(hot)]
        hits: u64,
    }
    let ranks = |groups: &[Group]| groups.iter().map(|group| group.rank).collect::<Vec<_>>();
    assert_eq!(ranks(Ranked::LAYOUT.groups), [7, 200, 7]);
    assert_eq!(ranks(ByOwner::LAYOUT.groups), [RANK]);
    assert!(Held::LAYOUT.groups.iter().all(|group| group.held), "all groups of a table are held");
    assert!(Ranked::LAYOUT.groups.iter().all(|group| !group.held));

    let of_table = || TableDefinition::builder("ranked").rank(7).key("id", ColumnType::U64);
    let columns = || of_table().column("owner", ColumnType::U64).column("hits", ColumnType::U64).group("hot");
    let defined = columns().group_rank("hot", 200).held().build().unwrap();
    assert_eq!(ranks(defined.relation().layout().groups), [7, 200]);
    assert!(defined.relation().layout().groups.iter().all(|group| group.held));
    let other = columns().build().unwrap();
    assert_eq!(ranks(other.relation().layout().groups), [7, 7]);
    assert_eq!(defined.relation().schema(), other.relation().schema(), "ranks are not stored");
    let told = |table: TableBuilder| table.build().unwrap_err().to_string();
    assert!(
        told(columns().group_rank("cold", 1))
            .contains("there is no group `cold` to give a rank; there are `main`, `hot`")
    );
    assert!(told(columns().group_rank("hot", 1).group_rank("hot", 2)).contains("has a rank already"));
}

#[test]
fn lengths_may_be_constants_of_any_name() {
    const PARTS: usize = 3;
    const TEXT: usize = 20;
    const DEFINITION: usize = 4;

    #[derive(Table, Clone, Copy)]
    #[table(index(ByCode(code)))]
    struct Document {
        #[key]
        id: Text<DEFINITION>,
        code: Text<PARTS>,
        body: Text<TEXT>,
    }
    assert!(Document::SCHEMA.contains("20"), "{}", Document::SCHEMA);
    assert_eq!(Document::definition().key_words, 1);
    assert_eq!(ByCode::STRUCTURE, Structure::Ordered);
}
