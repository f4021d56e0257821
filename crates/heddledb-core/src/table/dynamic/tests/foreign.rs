//! Column types of other crates.

use super::{assert_alike, tables};
use crate::Table;
use crate::table::dynamic::{ColumnType as Ty, TableDefinition, Value};
#[cfg(any(feature = "jiff", feature = "uuid"))]
use crate::table::{Key, encode_key};
use proptest::prelude::*;

#[cfg(feature = "jiff")]
mod with_jiff {
    use jiff::civil::{Date, DateTime, Time};
    use jiff::{SignedDuration, Timestamp};
    use proptest::prelude::*;

    /// Any, and often the first and the last.
    pub fn timestamp() -> impl Strategy<Value = Timestamp> {
        let span = Timestamp::MIN.as_nanosecond()..=Timestamp::MAX.as_nanosecond();
        let any = span.prop_map(|nanosecond| Timestamp::from_nanosecond(nanosecond).unwrap());
        prop_oneof![8 => any, 1 => Just(Timestamp::MIN), 1 => Just(Timestamp::MAX), 1 => Just(Timestamp::UNIX_EPOCH)]
    }

    pub fn signed() -> impl Strategy<Value = SignedDuration> {
        let any = any::<(i64, i32)>().prop_map(|(seconds, nanos)| {
            let nanos = (nanos % 1_000_000_000).abs();
            SignedDuration::new(seconds, if seconds < 0 { -nanos } else { nanos })
        });
        let less = (-999_999_999i32..=0).prop_map(|nanos| SignedDuration::new(0, nanos));
        prop_oneof![8 => any, 2 => less, 1 => Just(SignedDuration::MIN), 1 => Just(SignedDuration::MAX)]
    }

    pub fn date() -> impl Strategy<Value = Date> {
        let any = (-9999i16..=9999, 1i8..=12, 1i8..=28)
            .prop_map(|(year, month, day)| Date::new(year, month, day).unwrap());
        prop_oneof![8 => any, 1 => Just(Date::MIN), 1 => Just(Date::MAX)]
    }

    pub fn time() -> impl Strategy<Value = Time> {
        let any = (0i8..24, 0i8..60, 0i8..60, 0i32..1_000_000_000)
            .prop_map(|(hour, minute, second, nanos)| Time::new(hour, minute, second, nanos).unwrap());
        prop_oneof![8 => any, 1 => Just(Time::MIN), 1 => Just(Time::MAX)]
    }

    pub fn date_time() -> impl Strategy<Value = DateTime> {
        (date(), time()).prop_map(|(date, time)| DateTime::from_parts(date, time))
    }
}

#[cfg(feature = "rust_decimal")]
fn decimal() -> impl Strategy<Value = rust_decimal::Decimal> {
    any::<(u32, u32, u32, bool)>().prop_flat_map(|(low, middle, high, negative)| {
        (0u32..=28)
            .prop_map(move |places| rust_decimal::Decimal::from_parts(low, middle, high, negative, places))
    })
}

/// Any value of one of these types.
pub fn value_of(ty: Ty) -> BoxedStrategy<Value> {
    match ty {
        #[cfg(feature = "jiff")]
        Ty::Timestamp => with_jiff::timestamp().prop_map(Value::from).boxed(),
        #[cfg(feature = "jiff")]
        Ty::SignedDuration => with_jiff::signed().prop_map(Value::from).boxed(),
        #[cfg(feature = "jiff")]
        Ty::Date => with_jiff::date().prop_map(Value::from).boxed(),
        #[cfg(feature = "jiff")]
        Ty::Time => with_jiff::time().prop_map(Value::from).boxed(),
        #[cfg(feature = "jiff")]
        Ty::DateTime => with_jiff::date_time().prop_map(Value::from).boxed(),
        #[cfg(feature = "uuid")]
        Ty::Uuid => any::<u128>().prop_map(|bits| uuid::Uuid::from_u128(bits).into()).boxed(),
        #[cfg(feature = "rust_decimal")]
        Ty::Decimal => decimal().prop_map(Value::from).boxed(),
        ty => unreachable!("{ty}"),
    }
}

/// Each of these types.
fn all() -> Vec<Ty> {
    vec![
        #[cfg(feature = "jiff")]
        Ty::Timestamp,
        #[cfg(feature = "jiff")]
        Ty::SignedDuration,
        #[cfg(feature = "jiff")]
        Ty::Date,
        #[cfg(feature = "jiff")]
        Ty::Time,
        #[cfg(feature = "jiff")]
        Ty::DateTime,
        #[cfg(feature = "uuid")]
        Ty::Uuid,
        #[cfg(feature = "rust_decimal")]
        Ty::Decimal,
    ]
}

proptest! {
    #[test]
    fn what_is_shown_is_read_back(
        (ty, value) in prop::sample::select(all()).prop_flat_map(|ty| value_of(ty).prop_map(move |value| (ty, value))),
        text in "\\PC*|[0-9.:TZPHMS+-]{0,40}",
    ) {
        prop_assert_eq!(ty.parse(&value.to_string()).unwrap(), value);
        let _ = ty.parse(&text);
    }
}

#[cfg(all(feature = "jiff", feature = "uuid", feature = "rust_decimal"))]
#[test]
fn types_of_other_crates() {
    #[derive(Table, Clone, Copy)]
    #[table(
        index(ByDay(day)),
        index(ByMoment(date_time, time)),
        unique(ByTime(time, lasted)),
        index(ByWait(wait))
    )]
    struct Log {
        #[key]
        id: uuid::Uuid,
        #[key]
        at: jiff::Timestamp,
        day: jiff::civil::Date,
        time: jiff::civil::Time,
        date_time: jiff::civil::DateTime,
        lasted: jiff::SignedDuration,
        wait: Option<jiff::Timestamp>,
        #[group(money)]
        price: rust_decimal::Decimal,
        #[group(money)]
        discount: Option<rust_decimal::Decimal>,
    }
    let log = TableDefinition::builder("log")
        .key("id", Ty::Uuid)
        .key("at", Ty::Timestamp)
        .column("day", Ty::Date)
        .column("time", Ty::Time)
        .column("date_time", Ty::DateTime)
        .column("lasted", Ty::SignedDuration)
        .column("wait", Ty::Timestamp.optional())
        .column("price", Ty::Decimal)
        .group("money")
        .column("discount", Ty::Decimal.optional())
        .group("money")
        .index("ByDay", ["day"])
        .index("ByMoment", ["date_time", "time"])
        .unique("ByTime", ["time", "lasted"])
        .index("ByWait", ["wait"])
        .build()
        .unwrap();
    assert_alike::<Log>(log);
    let schema = log.relation().schema();
    assert!(schema.starts_with(
        "id: Uuid, at: Timestamp, day: Date, time: Time, date_time: DateTime, lasted: SignedDuration, "
    ));
    assert!(tables::all().len() > 5, "the other tables are there too");
    let price = TableDefinition::builder("price").key("amount", Ty::Decimal).build().unwrap_err().to_string();
    assert!(price.contains("`Decimal` cannot be: floats and decimals have no order as keys"), "{price}");
}

/// The order of keys is that of the values.
#[cfg(any(feature = "jiff", feature = "uuid"))]
fn same_order<K: Key + Ord, const N: usize>(a: K, b: K) -> Result<(), TestCaseError> {
    let (one, two): ([u64; N], [u64; N]) = (encode_key(&a), encode_key(&b));
    prop_assert_eq!(one.cmp(&two), a.cmp(&b));
    Ok(())
}

#[cfg(feature = "jiff")]
proptest! {
    #[test]
    fn times_order_as_keys(
        moments in (with_jiff::timestamp(), with_jiff::timestamp()),
        near in (-5_000_000_000i64..5_000_000_000, -5_000_000_000i64..5_000_000_000),
        durations in (with_jiff::signed(), with_jiff::signed()),
        dates in (with_jiff::date(), with_jiff::date()),
        times in (with_jiff::time(), with_jiff::time()),
        both in (with_jiff::date_time(), with_jiff::date_time()),
    ) {
        same_order::<_, 2>(moments.0, moments.1)?;
        let near_epoch = |nanosecond: i64| jiff::Timestamp::from_nanosecond(nanosecond.into()).unwrap();
        same_order::<_, 2>(near_epoch(near.0), near_epoch(near.1))?;
        same_order::<_, 2>(durations.0, durations.1)?;
        let short = jiff::SignedDuration::from_nanos;
        same_order::<_, 2>(short(near.0), short(near.1))?;
        same_order::<_, 1>(dates.0, dates.1)?;
        same_order::<_, 1>(times.0, times.1)?;
        same_order::<_, 2>(both.0, both.1)?;
    }

    /// A torn copy has any bits.
    #[test]
    fn any_bits_give_a_time(bits: [u64; 3]) {
        use crate::table::ColumnValue;
        use crate::words::WordsCopy;
        let mut words = bits;
        let words = WordsCopy::new(0, &mut words);
        for offset in [0, 8] {
            let _ = jiff::Timestamp::load(&words, offset);
            let _ = jiff::SignedDuration::load(&words, offset);
            let _ = jiff::civil::Date::load(&words, offset);
            let _ = jiff::civil::Time::load(&words, offset);
            let _ = jiff::civil::DateTime::load(&words, offset);
        }
    }
}

#[cfg(feature = "uuid")]
proptest! {
    #[test]
    fn uuids_order_as_keys(a: u128, b: u128) {
        same_order::<_, 2>(uuid::Uuid::from_u128(a), uuid::Uuid::from_u128(b))?;
    }
}

#[cfg(feature = "rust_decimal")]
proptest! {
    /// To the last decimal place, which `==` does not look at.
    #[test]
    fn decimals_keep_their_places(value in decimal(), bits: [u64; 2]) {
        use crate::table::ColumnValue;
        use crate::words::WordsCopy;
        let mut words = bits;
        let _ = rust_decimal::Decimal::load(&WordsCopy::new(0, &mut words), 0);
        value.store(&mut WordsCopy::new(0, &mut words), 0);
        let again = rust_decimal::Decimal::load(&WordsCopy::new(0, &mut words), 0);
        prop_assert_eq!(again.to_string(), value.to_string());
    }
}
