use heddledb::{Table, Text};

#[derive(Table, Clone, Copy)]
struct Page {
    #[key]
    id: u64,
    text: Text<1000000>,
}

fn main() {}
