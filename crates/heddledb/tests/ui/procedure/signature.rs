use heddledb::{ReadTransaction, Result, Transaction, procedure};

struct Bank;

impl Bank {
    #[procedure]
    fn of_a_type(&self, tx: &mut impl Transaction) -> Result<()> {
        Ok(())
    }
}

#[procedure(fast)]
fn with_arguments(tx: &mut impl Transaction) -> Result<()> {
    Ok(())
}

#[procedure]
struct NotAFunction;

#[procedure]
fn without_parameters() -> Result<()> {
    Ok(())
}

#[procedure]
fn by_value(tx: impl Transaction) -> Result<()> {
    Ok(())
}

#[procedure]
fn of_one_type(tx: &mut heddledb::Txn) -> Result<()> {
    Ok(())
}

#[procedure]
fn of_any_type<T: Transaction, V: Clone>(tx: &mut T, value: V) -> Result<()> {
    Ok(())
}

#[procedure]
fn of_any_size<const N: usize>(tx: &mut impl Transaction, values: [u8; N]) -> Result<()> {
    Ok(())
}

#[procedure]
fn named_lifetime<'x>(tx: &mut impl Transaction, text: &'x str) -> Result<()> {
    Ok(())
}

#[procedure]
fn more_bounds(tx: &mut (impl Transaction + Send)) -> Result<()> {
    Ok(())
}

#[procedure]
fn changes_arguments(tx: &mut impl Transaction, sum: &mut u64) -> Result<()> {
    Ok(())
}

#[procedure]
fn without_a_type(tx: &mut impl Transaction, name: impl AsRef<str>) -> Result<()> {
    Ok(())
}

#[procedure]
fn returns_nothing(tx: &mut impl Transaction) {}

#[procedure]
fn returns_a_number(tx: &mut impl Transaction) -> u64 {
    0
}

#[procedure]
fn returns_a_borrow(tx: &mut impl ReadTransaction, text: &str) -> Result<&str> {
    Ok(text)
}

#[procedure]
async fn later(tx: &mut impl Transaction) -> Result<()> {
    Ok(())
}

#[procedure]
fn Camel(tx: &mut impl Transaction) -> Result<()> {
    Ok(())
}

fn main() {}
