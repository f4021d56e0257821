use heddledb::table::ColumnValue;
use heddledb::Table;

#[derive(Clone, ColumnValue)]
struct Name(String);

#[derive(Table, Clone)]
#[table(index(ByOwner(owner)), unique(ByToken(token(max = 64))))]
struct Unstated {
    #[key]
    name: String,
    owner: Option<String>,
    token: Vec<u8>,
}

#[derive(Table, Clone)]
#[table(index(ByOwner2(owner(40))))]
struct Misspelt {
    #[key(min = 4)]
    name: String,
    owner: String,
}

#[derive(Table, Clone)]
struct Fixed {
    #[key(max = 4)]
    id: u64,
    value: u64,
}

#[derive(Table, Clone)]
struct Around {
    #[key]
    name: Name,
    value: u64,
}

#[derive(Table, Clone)]
struct TooWide {
    #[key(max = 40)]
    first: String,
    #[key(max = 40)]
    last: String,
}

fn main() {}
