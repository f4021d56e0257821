use heddledb::Table;

#[derive(Table, Clone, Copy)]
struct Keyless {
    id: u64,
}

#[derive(Table, Clone, Copy)]
struct GroupedKey {
    #[key]
    #[group(hot)]
    id: u64,
}

#[derive(Table, Clone, Copy)]
struct NumberedKey {
    #[key(1)]
    id: u64,
}

#[derive(Table, Clone, Copy)]
struct LongKey {
    #[key]
    a: u8,
    #[key]
    b: u8,
    #[key]
    c: u8,
    #[key]
    d: u8,
    #[key]
    e: u8,
    #[key]
    f: u8,
    #[key]
    g: u8,
    #[key]
    h: u8,
    #[key]
    i: u8,
}

fn main() {}
