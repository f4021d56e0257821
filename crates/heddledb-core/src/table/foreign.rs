//! Column types of other crates, each behind the feature of its crate's name.
//!
//! Whatever bits a torn copy has, some value is read. None of them can be had from rows that were written.

use super::column_type::ColumnType;
use super::column_value::ColumnValue;
#[cfg(any(feature = "jiff", feature = "uuid"))]
use super::key::{Key, KeyReader, KeyWriter};
use crate::words::{Words, WordsMut};

/// A column type that is stored as a pair of integers, the more significant one in the first 8 bytes, and ordered like
/// the pair as a key.
#[cfg(feature = "jiff")]
macro_rules! pairs {
    ($($t:ty, $name:ident: $high:ty, $low:ty; $to:expr; $from:expr;)*) => {$(
        impl ColumnValue for $t {
            const TYPE: ColumnType = ColumnType::$name;
            fn load(source: &impl Words, offset: usize) -> Self {
                $from(<$high>::load(source, offset), <$low>::load(source, offset + 8))
            }
            fn store(&self, target: &mut impl WordsMut, offset: usize) {
                let (high, low): ($high, $low) = $to(*self);
                high.store(target, offset);
                low.store(target, offset + 8);
            }
        }

        impl Key for $t {
            const BYTES: usize = Self::TYPE.bytes();
            fn write(&self, out: &mut KeyWriter<'_>) {
                let pair: ($high, $low) = $to(*self);
                pair.write(out);
            }
            fn read(input: &mut KeyReader<'_>) -> Self {
                let (high, low) = <($high, $low)>::read(input);
                $from(high, low)
            }
        }
    )*};
}

/// A column type that is stored, and as a key ordered, as one integer.
#[cfg(feature = "jiff")]
macro_rules! integers {
    ($($t:ty, $name:ident: $integer:ty; $to:expr; $from:expr;)*) => {$(
        impl ColumnValue for $t {
            const TYPE: ColumnType = ColumnType::$name;
            fn load(source: &impl Words, offset: usize) -> Self {
                $from(<$integer>::load(source, offset))
            }
            fn store(&self, target: &mut impl WordsMut, offset: usize) {
                let integer: $integer = $to(*self);
                integer.store(target, offset);
            }
        }

        impl Key for $t {
            const BYTES: usize = Self::TYPE.bytes();
            fn write(&self, out: &mut KeyWriter<'_>) {
                let integer: $integer = $to(*self);
                integer.write(out);
            }
            fn read(input: &mut KeyReader<'_>) -> Self {
                $from(<$integer>::read(input))
            }
        }
    )*};
}

#[cfg(feature = "jiff")]
mod with_jiff {
    use super::{ColumnType, ColumnValue, Key, KeyReader, KeyWriter, Words, WordsMut};
    use crate::table::column_value::NANOSECONDS_MAX;
    use jiff::civil::{Date, DateTime, Time};
    use jiff::{SignedDuration, Timestamp};

    pairs! {
        Timestamp, Timestamp: i64, i32;
            |moment: Timestamp| (moment.as_second(), moment.subsec_nanosecond());
            |second, nanosecond| Timestamp::new(second, fraction(nanosecond)).unwrap_or_default();
        SignedDuration, SignedDuration: i64, i32;
            |duration: SignedDuration| (duration.as_secs(), duration.subsec_nanos());
            |seconds, nanoseconds| signed(seconds, fraction(nanoseconds));
    }

    integers! {
        Date, Date: i32; packed; unpacked;
        Time, Time: u64; nanosecond_of_day; at_nanosecond;
    }

    /// The nanosecond of the day lies before the date, in a word of its own; in a key the date is first.
    impl ColumnValue for DateTime {
        const TYPE: ColumnType = ColumnType::DateTime;
        fn load(source: &impl Words, offset: usize) -> Self {
            Self::from_parts(Date::load(source, offset + 8), Time::load(source, offset))
        }
        fn store(&self, target: &mut impl WordsMut, offset: usize) {
            self.time().store(target, offset);
            self.date().store(target, offset + 8);
        }
    }

    impl Key for DateTime {
        const BYTES: usize = Self::TYPE.bytes();
        fn write(&self, out: &mut KeyWriter<'_>) {
            (self.date(), self.time()).write(out);
        }
        fn read(input: &mut KeyReader<'_>) -> Self {
            let (date, time) = <(Date, Time)>::read(input);
            Self::from_parts(date, time)
        }
    }

    /// Nanoseconds of the sign of their seconds, which are no second.
    fn fraction(nanoseconds: i32) -> i32 {
        nanoseconds.clamp(-(NANOSECONDS_MAX as i32), NANOSECONDS_MAX as i32)
    }

    /// A duration of two parts, which have the same sign unless they were torn: then the fraction does not count.
    fn signed(seconds: i64, nanoseconds: i32) -> SignedDuration {
        let alike = seconds.signum() * i64::from(nanoseconds.signum()) >= 0;
        SignedDuration::new(seconds, if alike { nanoseconds } else { 0 })
    }

    /// Year, month and day, from high to low: ordered like the dates.
    fn packed(date: Date) -> i32 {
        i32::from(date.year()) << 9 | i32::from(date.month()) << 5 | i32::from(date.day())
    }

    fn unpacked(packed: i32) -> Date {
        let (year, month, day) = (packed >> 9, packed >> 5 & 15, packed & 31);
        i16::try_from(year)
            .ok()
            .and_then(|year| Date::new(year, month as i8, day as i8).ok())
            .unwrap_or_default()
    }

    const SECOND: u64 = 1_000_000_000;

    fn nanosecond_of_day(time: Time) -> u64 {
        let hours = u64::from(time.hour().unsigned_abs());
        let minutes = hours * 60 + u64::from(time.minute().unsigned_abs());
        let seconds = minutes * 60 + u64::from(time.second().unsigned_abs());
        seconds * SECOND + u64::from(time.subsec_nanosecond().unsigned_abs())
    }

    fn at_nanosecond(nanoseconds: u64) -> Time {
        let seconds = nanoseconds / SECOND;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let within_day = i8::try_from(hour).ok();
        let time = within_day
            .and_then(|hour| Time::new(hour, minute as i8, second as i8, (nanoseconds % SECOND) as i32).ok());
        time.unwrap_or_default()
    }
}

#[cfg(feature = "uuid")]
mod with_uuid {
    use super::{ColumnType, ColumnValue, Key, KeyReader, KeyWriter, Words, WordsMut};
    use uuid::Uuid;

    impl ColumnValue for Uuid {
        const TYPE: ColumnType = ColumnType::Uuid;
        fn load(source: &impl Words, offset: usize) -> Self {
            Self::from_bytes(<[u8; 16]>::load(source, offset))
        }
        fn store(&self, target: &mut impl WordsMut, offset: usize) {
            self.as_bytes().store(target, offset);
        }
    }

    /// In the order of the bytes, which for version 7 is that of the times.
    impl Key for Uuid {
        const BYTES: usize = Self::TYPE.bytes();
        fn write(&self, out: &mut KeyWriter<'_>) {
            self.as_u128().write(out);
        }
        fn read(input: &mut KeyReader<'_>) -> Self {
            Self::from_u128(u128::read(input))
        }
    }
}

#[cfg(feature = "rust_decimal")]
mod with_rust_decimal {
    use super::{ColumnType, ColumnValue, Words, WordsMut};
    use rust_decimal::Decimal;

    /// The low 64 bits of the digits, then their high 32 bits, the number of decimal places, and the sign. No key: equal
    /// numbers, as 1.0 and 1.00, have different bits.
    impl ColumnValue for Decimal {
        const TYPE: ColumnType = ColumnType::Decimal;
        fn load(source: &impl Words, offset: usize) -> Self {
            let (low, high) = (u64::load(source, offset), u64::load(source, offset + 8));
            let places = (high >> 32) as u32 & 0xFF;
            let (negative, fits) = (high >> 40 & 1 == 1, places <= Self::MAX_SCALE);
            let places = if fits { places } else { 0 };
            Self::from_parts(low as u32, (low >> 32) as u32, high as u32, negative, places)
        }
        fn store(&self, target: &mut impl WordsMut, offset: usize) {
            let digits = self.mantissa().unsigned_abs();
            let form = u64::from(self.scale()) << 32 | u64::from(self.is_sign_negative()) << 40;
            (digits as u64).store(target, offset);
            ((digits >> 64) as u64 | form).store(target, offset + 8);
        }
    }
}
