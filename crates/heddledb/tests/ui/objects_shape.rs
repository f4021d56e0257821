use heddledb::objects::{Element, TBox, TMap};
use heddledb::Objects;

#[derive(Objects)]
enum Kinds {
    One(TBox<u64>),
}

#[derive(Objects)]
struct Two(TBox<u64>, TBox<u64>);

#[derive(Objects)]
struct Of<V> {
    hits: TBox<V>,
}

#[derive(Objects)]
#[objects(name = "")]
struct Nameless {
    hits: TBox<u64>,
}

#[derive(Objects)]
#[objects(hash)]
struct Wrong {
    #[hash]
    hits: TBox<u64>,
    #[objects(name = "other")]
    stock: TMap<u64, u64>,
}

#[derive(Element, Clone, Copy)]
struct Empty;

#[derive(Element, Clone, Copy)]
struct Grouped {
    #[group]
    value: u64,
}

fn main() {}
