use heddledb::{Database, Table, Transaction};

#[derive(Table, Clone)]
struct Named {
    #[key]
    name: u64,
    id: &'static str,
}

#[derive(Table, Clone, Copy)]
struct Keyed {
    #[key]
    id: f64,
    value: u64,
}

#[derive(Clone, Copy)]
struct Row {
    id: u64,
}

fn main() {
    let mut session = Database::in_memory().session().unwrap();
    session.run(|tx| tx.insert(Row { id: 1 })).unwrap();
}
