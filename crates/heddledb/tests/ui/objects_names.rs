use heddledb::Objects;
use heddledb::objects::{Element, TMap};

#[derive(Element, Clone, Copy)]
struct Item {
    key: u64,
    price: u64,
}

#[derive(Objects)]
struct Shop {
    stock: TMap<u64, Item>,
}

fn main() {}
