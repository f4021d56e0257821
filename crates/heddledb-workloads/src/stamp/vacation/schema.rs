//! Vacation's objects.

use heddledb::Objects;
use heddledb::objects::{Element, TMap};

/// What can be reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// A car.
    #[default]
    Car,
    /// A flight.
    Flight,
    /// A room.
    Room,
}

impl Type {
    /// All, in the order in which they are reserved.
    pub const ALL: [Self; 3] = [Self::Car, Self::Flight, Self::Room];

    /// The key of an offer: those of all types are in one map.
    pub const fn key(self, id: u64) -> (u8, u64) {
        (self as u8, id)
    }
}

/// What there is of a car, flight or room.
#[derive(Element, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// How many are reserved.
    pub used: i64,
    /// How many are not.
    pub free: i64,
    /// How many there are.
    pub total: i64,
    /// What one costs.
    pub price: i64,
}

/// The travel agency.
#[derive(Objects)]
pub struct Agency {
    /// By type and number. STAMP has a map for each type; nothing that is done goes through one.
    #[hash]
    pub(super) offers: TMap<(u8, u64), Offer>,
    /// By number: how many offers a customer holds.
    #[hash]
    pub(super) customers: TMap<u64, i64>,
    /// What customers hold, and its price: by customer, type and number.
    pub(super) held: TMap<(u64, u8, u64), i64>,
}
