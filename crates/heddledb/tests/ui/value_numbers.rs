use heddledb::Table;
use heddledb::table::ColumnValue;

#[derive(Clone, Copy, ColumnValue)]
enum Answer {
    Found = 200,
    NotFound = 404,
}

#[derive(Table, Clone, Copy)]
struct Page {
    #[key]
    id: u64,
    answer: Answer,
}

fn main() {}
