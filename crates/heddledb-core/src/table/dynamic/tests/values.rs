//! Values from and to the Rust types.

use super::Value;
use crate::Text;
use crate::table::dynamic::WrongType;
use std::cmp::Reverse;
use std::fmt::Debug;

#[track_caller]
fn there_and_back<V>(value: V, displayed: &str)
where
    V: Clone + Debug + PartialEq + Into<Value> + TryFrom<Value, Error = WrongType>,
    Option<V>: TryFrom<Value, Error = WrongType>,
{
    let dynamic: Value = value.clone().into();
    assert_eq!(dynamic.to_string(), displayed);
    assert_eq!(V::try_from(dynamic.clone()), Ok(value.clone()));
    assert_eq!(Option::<V>::try_from(dynamic.clone()), Ok(Some(value.clone())));
    assert_eq!(Value::from(Some(value)), dynamic);
    assert_eq!(Option::<V>::try_from(Value::Null), Ok(None));
    assert!(V::try_from(Value::Null).is_err());
}

#[test]
fn rust_types_are_values() {
    there_and_back(200u8, "200");
    there_and_back(u16::MAX, "65535");
    there_and_back(7u32, "7");
    there_and_back(u64::MAX, "18446744073709551615");
    there_and_back(-1i8, "-1");
    there_and_back(-300i16, "-300");
    there_and_back(-70_000i32, "-70000");
    there_and_back(i64::MIN, "-9223372036854775808");
    there_and_back(1u128 << 64, "18446744073709551616");
    there_and_back(-(1i128 << 64), "-18446744073709551616");
    there_and_back(std::time::Duration::from_millis(1500), "1.5s");
    there_and_back(true, "true");
    there_and_back(-1.5f32, "-1.5");
    there_and_back(0.25f64, "0.25");
    there_and_back(*b"\x00\xFFa", "0x00ff61");
    there_and_back(vec![1u8, 2], "0x0102");
    there_and_back("zwölf".to_owned(), "zwölf");
    there_and_back(Text::<8>::new("ada").unwrap(), "ada");

    assert_eq!(Value::from(None::<u8>), Value::Null);
    assert_eq!(Value::Null.to_string(), "null");
    assert_eq!(Value::from(Reverse(3u8)), Value::U8(3));
    assert_eq!(Reverse::<u8>::try_from(&Value::U8(3)), Ok(Reverse(3)));
    assert_eq!(<&[u8]>::try_from(&Value::from(&[1u8][..])), Ok(&[1u8][..]));
    assert_eq!(format!("{:>5}|{:<5}|", Value::U8(3), Value::from("x")), "    3|x    |");
}

#[test]
fn wrong_types_are_named() {
    fn wrong<V: TryFrom<Value, Error = WrongType> + Debug>(value: impl Into<Value>) -> String {
        V::try_from(value.into()).unwrap_err().to_string()
    }
    assert_eq!(wrong::<u8>(5i32), "expected u8, given 5 (i32)");
    assert_eq!(wrong::<Option<Text<2>>>("abc"), r#"expected Option<Text<2>>, given "abc" (text of 3 bytes)"#);
    assert_eq!(wrong::<[u8; 2]>([1, 2, 3]), "expected [u8; 2], given 3 bytes");
    assert_eq!(wrong::<Vec<u8>>(Value::Null), "expected [u8], given null");
    let long = "x".repeat(30);
    assert_eq!(
        wrong::<bool>(long.as_str()),
        r#"expected bool, given "xxxxxxxxxxxxxxxxxxxxxxxx".. (text of 30 bytes)"#
    );
}
