use heddledb::Table;

#[derive(Table, Clone, Copy)]
#[table(hashed)]
#[table(name)]
#[table(name = "")]
#[table]
#[table(hash, hash)]
#[table(append_only, append_only)]
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

#[derive(Table, Clone, Copy)]
#[table(rank)]
#[table(rank = 256)]
#[table(rank = 1, rank = 2)]
struct Ranks {
    #[key]
    id: u64,
    #[group(hot, rank = 3)]
    a: u64,
    #[group(hot, rank = 4)]
    b: u64,
    #[group(cold, rank = "low")]
    c: u64,
    #[group(cool, first)]
    d: u64,
}

fn main() {}
