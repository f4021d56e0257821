use heddledb::objects::{Element, TBox, TList, TMap, TQueue};
use heddledb::{Database, Objects};

#[derive(Clone, Copy, Default)]
struct Job {
    id: u64,
}

#[derive(Objects)]
struct NoObject {
    hits: u64,
}

#[derive(Objects)]
struct NoElement {
    jobs: TQueue<Job>,
}

#[derive(Objects)]
struct Lasting {
    name: TBox<&'static str>,
}

#[derive(Objects)]
struct NoKey {
    stock: TMap<f64, u64>,
}

#[derive(Element, Clone, Copy)]
struct Seat {
    price: Vec<u64>,
}

#[derive(Objects)]
struct Guests {
    names: TList<String>,
}

fn main() {
    let mut session = Database::in_memory().session().unwrap();
    session.defer(|tx| Guests::names.look(tx, 1)).unwrap();
    Database::builder().objects::<Job>();
}
