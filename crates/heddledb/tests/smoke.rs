use heddledb::*;
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByValue(value)), unique(ByName(name)))]
struct Row { #[key] a: u16, #[key] b: u32, value: i64, #[group(text)] name: Text<12>, #[group(hot)] count: u64 }
#[test]
fn smoke() {
    let db = Database::in_memory();
    let mut s = db.session().unwrap();
    s.run(|tx| { for i in 0..100u32 { tx.insert(Row{a: (i%3) as u16, b: i, value: i as i64, name: Text::truncated(&format!("n{i}")), count: 0})?; } Ok(()) }).unwrap();
    let rows = s.run(|tx| tx.collect(Scan::<Row>::prefix((1u16,)))).unwrap();
    assert_eq!(rows.len(), 33);
    s.run(|tx| tx.add(Row::count, (1, 1), 5)).unwrap();
    s.run(|tx| tx.set_columns((1, 1), (Row::count, ), (7u64,))).unwrap();
    s.run(|tx| tx.update::<Row, _>((1,1), |r| r.value = 1000)).unwrap();
    assert_eq!(s.run(|tx| tx.find::<ByValue>(1000)).unwrap().unwrap().count, 7);
    assert!(s.run(|tx| tx.find::<ByValue>(1)).unwrap().is_none());
    assert_eq!(s.run(|tx| tx.find::<ByName>(Text::truncated("n1"))).unwrap().unwrap().count, 7);
    let e = s.run(|tx| tx.insert(Row{a:9,b:9,value:1,name:Text::truncated("n5"),count:0})).unwrap_err();
    println!("{e}");
    assert!(s.run(|tx| tx.get::<Row>((9,9))).unwrap().is_none());
}
