use heddledb::Table;

#[derive(Table, Clone, Copy)]
#[table(hashed)]
#[table(name)]
#[table(name = "")]
#[table]
#[table(hash, hash)]
#[table(append_only, append_only)]
#[table(held, held)]
#[key]
struct Options {
    #[key]
    id: u64,
}

#[derive(Table, Clone, Copy)]
struct Groups {
    #[key]
    id: u64,
    #[group]
    a: u64,
    #[group()]
    b: u64,
    #[group("hot")]
    c: u64,
    #[group(hot)]
    #[group(cold)]
    d: u64,
    #[table(hash)]
    e: u64,
}

fn main() {}
