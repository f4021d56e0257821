//! What is said of tables: elements of arrays, secondary indexes, column groups.

use super::*;
use heddledb::{Row, Scan};
use std::ops::ControlFlow::{Break, Continue};

#[procedure]
fn shelves(tx: &mut impl Transaction, id: u32, side: usize) -> Result<i64> {
    use heddledb::Row as Everything;
    const BOTH: (Column<Shelf, i64>, Column<Shelf, i64>) = (Shelf::left, Shelf::right);
    let side = Shelf::SIDES[side];
    let all = tx.get_columns(id, (Shelf::quantity, (side, Shelf::SIDES)))?;
    let (left, right) = tx.get_columns(id, BOTH)?.ok_or_else(no_account)?;
    tx.set_columns(id, side, left + right)?;
    let row = Shelf { id: id + 1, ..tx.get_columns(id, Row::<Shelf>::new())?.ok_or_else(no_account)? };
    tx.upsert(row)?;
    let _: Everything<Shelf> = Row::new();
    Ok(all.map_or(0, |(quantity, (one, [left, right]))| quantity + one + left + right))
}

#[test]
fn an_element_of_an_array_may_be_any() {
    assert_eq!(
        declared::<Shelves>(),
        [
            "read   shelf cols quantity left right",
            "read   shelf cols left right",
            "update shelf cols left right",
            "read   shelf",
            "insert shelf reads id quantity left right",
        ]
    );
    let declaration = Declaration::of::<Shelves>();
    assert_eq!(declaration.sites()[2].writes, 0b110);
    let mut session = database();
    assert_eq!(run::<Shelves>(&mut session, (1, 1)).unwrap(), 5 + 3 + 2 + 3);
    let row = session.run(|tx| tx.get::<Shelf>(2)).unwrap();
    assert_eq!(row, Some(Shelf { id: 2, quantity: 5, left: 2, right: 5 }));
}

#[procedure]
fn people(tx: &mut impl Transaction, last: Text<8>) -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    tx.scan_index(Scan::<ByName>::prefix((last,)), |_, id| {
        ids.push(id);
        Continue(())
    })?;
    tx.scan_index(Scan::<ByName>::all().limit(1), |_, _| Break(()))?;
    let first = tx.find_key::<ByName>((last, Text::truncated("Ada")))?;
    let by_email = tx.find::<ByEmail>(Text::truncated("Cy@Dow"))?;
    if let (Some(id), Some(person)) = (first, by_email) {
        tx.update_columns(id, Person::first, |_| ())?;
        tx.add(Person::visits, person.id, 1)?;
    }
    tx.scan(Scan::<Person>::all(), |person| {
        ids.push(person.id);
        Continue(())
    })?;
    let rows = tx.collect(Scan::<Person>::range(2..))?;
    tx.first::<Person>(Scan::all())?;
    ids.push(tx.collect(Scan::<ByName>::prefix((last,)))?.len() as u32);
    tx.page(Scan::<ByName>::all().limit(1))?;
    tx.scan_columns(Scan::range(..3), Person::visits, |_, _| Continue(()))?;
    for row in rows {
        tx.delete::<Person>(row.id)?;
    }
    Ok(ids)
}

#[test]
fn secondary_indexes_are_part_of_their_table() {
    let all = "reads id first last email visits";
    assert_eq!(
        declared::<People>(),
        [
            "scan   person by idx person.ByName cols first last",
            "scan   person by idx person.ByName cols first last",
            "scan   person by idx person.ByName cols first last",
            "scan   person by idx person.ByEmail",
            "if",
            // The entries move with the row, so all of it is read and written.
            &format!("update person {all}"),
            "add    person cols visits",
            "end",
            "scan   person",
            "scan   person",
            "scan   person",
            "scan   person by idx person.ByName",
            "scan   person by idx person.ByName",
            "scan   person cols visits",
            "loop",
            &format!("delete person {all}"),
            "end",
        ]
    );
    let declaration = Declaration::of::<People>();
    let sites = declaration.sites();
    assert_eq!(sites[0].reads, 0b1, "the columns of the name");
    assert_eq!((sites[3].reads, sites[4].writes, sites[5].writes), (0b111, 0b111, 0b100));
    assert!(sites[0].index.is_some() && sites[0].index == sites[2].index && sites[0].index != sites[3].index);
    assert!(sites.iter().all(|site| site.relation == sites[0].relation && site.index != Some(site.relation)));
    let mut session = database();
    let ids = run::<People>(&mut session, Text::truncated("Byron")).unwrap();
    assert_eq!(ids, [1, 2, 1, 2, 3, 2]);
    assert_eq!(session.run(|tx| tx.collect(Scan::<Person>::all())).unwrap().len(), 1);
}

#[test]
fn tables_are_described() {
    let declaration = Declaration::of::<Transfer>();
    let printed = text::print(&workload("w", [&declaration]));
    assert!(
        printed.starts_with(
            "workload w\n\
             table account key id cols owner balance limit group main id owner group money balance limit\n\
             table journal appendonly key id cols amount group main id amount\n"
        ),
        "{printed}"
    );
    assert_eq!(text::parse(&printed).map(|workload| text::print(&workload)), Ok(printed));
}
