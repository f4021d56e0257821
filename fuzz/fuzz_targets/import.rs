//! What `heddle import` reads: a byte for the format, then the text.

#![no_main]

use heddledb::table::dynamic::{ColumnType, TableDefinition};

// It is part of a program, and so in no library.
#[allow(dead_code)]
#[path = "../../crates/heddle/src/database/text.rs"]
mod text;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((flags, bytes)) = input.split_first() else { return };
    let table = TableDefinition::builder("t")
        .key("word", ColumnType::String)
        .max(7)
        .column("free", ColumnType::ByteString.optional())
        .column("name", ColumnType::Text(8).optional())
        .column("number", ColumnType::I128)
        .column("part", ColumnType::F64)
        .column("state", ColumnType::enumeration(ColumnType::U8, [("On", 1), ("Off", 0)]))
        .index("ByFree", [("free", 9)])
        .build()
        .expect("the table is one");
    let format = if flags & 1 == 0 { text::Format::Csv } else { text::Format::Jsonl };
    for row in text::read(format, table, bytes).unwrap_or_default() {
        table.relation().key_of(&row).expect("there is room for what was read");
    }
});
