use heddledb::Table;

#[derive(Table, Clone, Copy)]
enum Choice {
    One,
}

#[derive(Table, Clone, Copy)]
struct Pair(u64, u64);

#[derive(Table, Clone, Copy)]
struct Nothing;

#[derive(Table, Clone, Copy)]
struct Generic<V, const N: usize> {
    #[key]
    id: u64,
    value: [V; N],
}

fn main() {}
