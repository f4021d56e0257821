//! Declarations: what follows from them, and that a body is held to its own.

use super::*;
use heddledb_analysis::{Options, analyse};

#[test]
fn pieces_follow_from_the_bodies() {
    #[procedure]
    fn pay(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<()> {
        tx.update_columns(id, Account::balance, |balance| *balance -= amount)?;
        tx.update_columns(1, Shelf::quantity, |quantity| *quantity += 1)
    }

    #[procedure]
    fn refund(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<()> {
        tx.update_columns(1, Shelf::quantity, |quantity| *quantity -= 1)?;
        tx.update_columns(id, Account::balance, |balance| *balance += amount)?;
        tx.insert(Journal { id, amount })
    }

    let pieces = |procedures: &[Declaration]| {
        let analysis = analyse(&workload("w", procedures), &Options::default());
        let of_type =
            |one: &heddledb_analysis::analysis::TypeAnalysis| (one.pieces.len(), one.conflict_pieces());
        analysis.types.iter().map(of_type).collect::<Vec<_>>()
    };
    let (pay, refund) = (Declaration::of::<Pay>(), Declaration::of::<Refund>());
    // Alone, each is cut at every access. Together they go opposite ways.
    assert_eq!(pieces(std::slice::from_ref(&pay)), [(2, 2)]);
    assert_eq!(pieces(std::slice::from_ref(&refund)), [(3, 2)]);
    assert_eq!(pieces(&[pay, refund]), [(1, 1), (2, 1)]);
}

#[test]
fn a_declaration_by_hand_is_as_good() {
    let mut by_hand = Declaration::new("transfer");
    by_hand.get(Account::balance);
    by_hand.update(Account::balance);
    by_hand.add(Account::balance);
    by_hand.insert::<Journal>();
    let derived = Declaration::of::<Transfer>();
    assert_eq!((by_hand.sites(), by_hand.transaction()), (derived.sites(), derived.transaction()));
    by_hand.set_readonly(true);
    assert!(by_hand.readonly() && !by_hand.transaction().on_snapshot(), "it writes");
}

#[test]
#[should_panic(expected = "procedure `transfer` does not do at site 0 what it declares")]
fn another_access_than_declared_is_noticed() {
    let mut session = database();
    let mut wrong = Declaration::new("transfer");
    wrong.get(Account::limit);
    let _ = session.run(|tx| transfer(&mut Checked::new(tx, wrong.clone()), 1, 2, 30));
}

#[test]
#[should_panic(expected = "procedure `transfer` accesses account outside its sites")]
fn an_access_outside_all_sites_is_noticed() {
    let mut session = database();
    let _ = session.run(|tx| Checked::of::<Transfer>(tx).get::<Account>(1));
}

#[test]
#[should_panic(expected = "procedure `strays` does not do at site 0 what it declares")]
fn every_call_is_held_to_what_its_own_procedure_declares() {
    struct Strays;
    impl Procedure for Strays {
        const NAME: &'static str = "strays";
        const SITES: u16 = 1;
        type Arguments<'a> = bool;
        type Output = ();
        fn declare(declaration: &mut Declaration) {
            declaration.get_row::<Account>();
        }
        fn run<T: Transaction>(tx: &mut T, strays: &bool) -> Result<()> {
            match strays {
                true => tx.at(0).delete::<Account>(1).map(|_| ()),
                false => tx.at(0).get::<Account>(1).map(|_| ()),
            }
        }
    }
    let db = Database::builder().table::<Account>(2).table::<Journal>(1);
    let db = db.procedure::<Strays>().procedure::<Transfer>().open().unwrap();
    let mut session = db.session().unwrap();
    let account = |id| Account { id, owner: 1, balance: 100, limit: 0 };
    session.run(|tx| [1, 2].into_iter().try_for_each(|id| tx.insert(account(id)))).unwrap();
    session.call(Strays, false).unwrap();
    session.call(Transfer, (1, 2, 30)).unwrap();
    session.call(Strays, false).unwrap();
    let _ = session.call(Strays, true);
}

#[test]
#[should_panic(expected = "procedure `by_hand` declares 1 sites and says that it has 2")]
fn a_wrong_number_of_sites_is_noticed() {
    struct ByHand;
    impl Procedure for ByHand {
        const NAME: &'static str = "by_hand";
        const SITES: u16 = 2;
        type Arguments<'a> = ();
        type Output = ();
        fn declare(declaration: &mut Declaration) {
            declaration.get_row::<Account>();
        }
        fn run<T: Transaction>(_: &mut T, (): &()) -> Result<()> {
            Ok(())
        }
    }
    Declaration::of::<ByHand>();
}
