use heddledb::Table;

#[derive(Table, Clone, Copy)]
#[table(index(ByEmail(emial)))]
#[table(index(ByAge(birthday)))]
#[table(index(ByNameTwice(name, name)))]
#[table(index(ByName(name)), unique(ByName(email)))]
struct Customer {
    #[key]
    id: u64,
    name: u64,
    email: u64,
}

fn main() {}
