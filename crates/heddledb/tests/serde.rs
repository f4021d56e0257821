//! Rows as JSON, and back.

use heddledb::table::dynamic::{ColumnType, TableDefinition, Value};
use heddledb::{Database, ReadTransaction, RowScan, Scan, Table, Text, Transaction};
use serde::{Deserialize, Serialize};

#[derive(Table, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Account {
    #[key]
    id: u64,
    owner: Text<8>,
    limit: Option<i64>,
}

#[test]
fn a_row_goes_to_json_and_back() {
    let db = Database::in_memory();
    let mut session = db.session().unwrap();
    let rows = [(1, "ada", None), (2, "bø \"x\"", Some(-5))];
    let row = |(id, owner, limit)| Account { id, owner: Text::new(owner).unwrap(), limit };
    session.run(|tx| rows.iter().try_for_each(|of| tx.insert(row(*of)))).unwrap();
    let page = session.run(|tx| tx.page(Scan::<Account>::all().limit(1))).unwrap();
    let json = serde_json::to_string(&page).unwrap();
    assert_eq!(json, r#"{"rows":[{"id":1,"owner":"ada","limit":null}],"next":1}"#);
    let read = session.run(|tx| tx.collect(Scan::<Account>::all())).unwrap();
    let json = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Account>>(&json).unwrap(), read);
}

#[test]
fn a_text_that_does_not_fit_is_refused() {
    let told = |json| serde_json::from_str::<Text<4>>(json).unwrap_err().to_string();
    assert!(told("\"abcde\"").contains("5 bytes does not fit a column of 4"), "{}", told("\"abcde\""));
    assert!(told("\"a\\u0000\"").contains("NUL"), "{}", told("\"a\\u0000\""));
    assert!(told("7").contains("text of at most 4 bytes"), "{}", told("7"));
}

#[test]
fn a_row_of_values_is_a_map_of_its_columns() {
    let table = TableDefinition::builder("mixed")
        .key("id", ColumnType::U32)
        .column("name", ColumnType::Text(8))
        .column("raw", ColumnType::Bytes(2))
        .column("gone", ColumnType::I64.optional())
        .column("ratio", ColumnType::F64)
        .column("open", ColumnType::Bool)
        .build()
        .unwrap();
    let db = Database::in_memory();
    let mixed = db.define(table, 1).unwrap();
    let mut session = db.session().unwrap();
    let row: [Value; 6] =
        [7u32.into(), "ada".into(), Value::Bytes(vec![1, 2]), Value::Null, 0.5.into(), true.into()];
    session.run(|tx| tx.rows(&mixed)?.insert(&row)).unwrap();
    let page = session.run(|tx| tx.rows(&mixed)?.page(RowScan::all())).unwrap();
    assert_eq!(
        serde_json::to_string(&page).unwrap(),
        r#"{"rows":[{"id":7,"name":"ada","raw":[1,2],"gone":null,"ratio":0.5,"open":true}],"next":null}"#
    );
}
