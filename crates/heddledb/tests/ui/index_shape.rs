use heddledb::Table;

#[derive(Table, Clone, Copy)]
#[table(index)]
#[table(index())]
#[table(unique(ById))]
#[table(unique(ByNothing()))]
#[table(index(ByA(a), ByB(b)))]
struct Forms {
    #[key]
    a: u64,
    b: u64,
}

#[derive(Table, Clone, Copy)]
#[table(index(Narrow(c, d, e, f, g, h)), index(Wide(c, d, e, f, g, h, i)), unique(WideUnique(c, d, e, f, g, h, i)))]
#[table(index(A(a)), index(B(b)), index(C(c)), index(D(d)))]
struct Parts {
    #[key]
    a: u8,
    #[key]
    b: u8,
    c: u8,
    d: u8,
    e: u8,
    f: u8,
    g: u8,
    h: u8,
    i: u8,
}

fn main() {}
