use heddledb::Table;
use heddledb::table::{ColumnValue, Key};

#[derive(Clone, Copy, ColumnValue)]
enum Shape {
    Point,
    Circle(u64),
}

#[derive(Clone, Copy, ColumnValue)]
struct Place {
    x: i32,
    y: i32,
}

#[derive(Clone, Copy, ColumnValue)]
enum Never {}

#[derive(Clone, Copy, ColumnValue)]
#[repr(usize)]
enum Wide {
    One,
}

#[derive(Clone, Copy, ColumnValue)]
struct Id<T>(T);

#[derive(Clone, Copy, Debug, ColumnValue, Key)]
struct Price(f64);

#[derive(Clone, Copy, Debug)]
enum Plain {
    Here,
}

#[derive(Table, Clone, Copy)]
struct Row {
    #[key]
    id: u64,
    plain: Plain,
}

fn main() {}
