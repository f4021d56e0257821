//! What TPC-C can be told.

use super::DISTRICTS;
use std::fmt;
use std::str::FromStr;

/// The share of each transaction type, in percent, in the order of [`Kind`](super::input::Kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix(pub [u8; 5]);

impl Mix {
    /// The standard mix.
    pub const FULL: Self = Self([45, 43, 4, 4, 4]);
    /// New-Order and Payment, half each.
    pub const NP: Self = Self([50, 50, 0, 0, 0]);
    /// New-Order only.
    pub const NEW_ORDER: Self = Self([100, 0, 0, 0, 0]);
    /// Payment only.
    pub const PAYMENT: Self = Self([0, 100, 0, 0, 0]);

    const NAMED: [(&'static str, Self); 4] =
        [("full", Self::FULL), ("np", Self::NP), ("new-order", Self::NEW_ORDER), ("payment", Self::PAYMENT)];
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Self::NAMED.iter().find(|(_, mix)| mix == self) {
            return f.pad(name);
        }
        f.pad(&self.0.map(|percent| percent.to_string()).join("/"))
    }
}

impl FromStr for Mix {
    type Err = String;

    /// A name, or five percentages as in `45/43/4/4/4`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, mix)) = Self::NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(*mix);
        }
        let shares: Vec<u8> = text.split('/').map_while(|share| share.parse().ok()).collect();
        let sum: u32 = shares.iter().map(|share| u32::from(*share)).sum();
        match shares.try_into() {
            Ok(shares) if sum == 100 => Ok(Self(shares)),
            _ => Err(format!(
                "`{text}` is no mix; give full, np, new-order, payment, or five percentages that add up to 100, \
                 as in 45/43/4/4/4"
            )),
        }
    }
}

/// How workers choose the warehouse of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Worker k always uses warehouse k mod warehouses + 1.
    Home,
    /// A random one each time.
    Random,
}

impl Binding {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Random => "random",
        }
    }
}

impl FromStr for Binding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Home, Self::Random]
            .into_iter()
            .find(|binding| binding.name() == text)
            .ok_or_else(|| format!("`{text}` is no binding; give home or random"))
    }
}

/// The standard form, or that of a published implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The specification.
    Spec,
    /// DBx1000: Payment and New-Order only, nothing is inserted, no rollback.
    Dbx1000,
    /// STOv2: order ids come from a counter outside the transactions, so that the district row is
    /// not contended and aborted attempts leave gaps; no rollback; Stock-Level scans an empty
    /// range, as its bounds are exchanged there; Delivery starts its scan at the last order that
    /// was delivered.
    Sto,
}

impl Mode {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Dbx1000 => "dbx1000",
            Self::Sto => "sto",
        }
    }

    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Dbx1000 => "dbx1000 (no inserts, no rollback, New-Order and Payment only)",
            Self::Sto => {
                "sto (order ids from a counter outside the transactions, no rollback, Stock-Level scans an empty \
                 range, Delivery remembers where to start)"
            }
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Spec, Self::Dbx1000, Self::Sto]
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| format!("`{text}` is no mode; give spec, dbx1000 or sto"))
    }
}

/// How many rows there are. Smaller than [`Scale::FULL`] for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Customers of a district, and HISTORY rows.
    pub customers: u16,
    /// Items, and stock rows of a warehouse.
    pub items: u32,
    /// Orders of a district at first; seven tenths are delivered.
    pub orders: u32,
}

impl Scale {
    /// The standard: about 100 MB for each warehouse.
    pub const FULL: Self = Self { customers: 3000, items: 100_000, orders: 3000 };
    /// For tests.
    pub const TINY: Self = Self { customers: 30, items: 1000, orders: 30 };

    /// How many of the first orders of a district are delivered.
    pub(crate) const fn delivered(self) -> u32 {
        (self.orders as u64 * 7 / 10) as u32
    }

    pub(super) const fn districts(warehouses: u16) -> usize {
        warehouses as usize * DISTRICTS as usize
    }
}

/// The parameters of [`Tpcc`](super::Tpcc).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Warehouses.
    pub warehouses: u16,
    /// Shares of the transaction types.
    pub mix: Mix,
    /// How workers choose warehouses.
    pub binding: Binding,
    /// Percentage of order lines that another warehouse supplies.
    pub remote_item_pct: u32,
    /// Percentage of payments by customers of another warehouse.
    pub remote_payment_pct: u32,
    /// Percentage of New-Orders that roll back.
    pub rollback_pct: u32,
    /// Rows.
    pub scale: Scale,
    /// Payment adds to W_YTD and D_YTD with [`Transaction::add`](heddledb::Transaction::add), which reads nothing, so that
    /// payments do not conflict on them. Within the specification, as Payment returns neither.
    /// Otherwise it reads and writes them.
    pub commutative: bool,
    /// Delivery adds to C_BALANCE and C_DELIVERY_CNT with [`Transaction::add`](heddledb::Transaction::add), which reads nothing, and puts
    /// that off where the protocol does (DBX-TC §3.2). Within the specification, as Delivery returns neither. Otherwise it
    /// reads and writes them.
    pub delivery_adds: bool,
    /// Delivery looks for a district's oldest order from the last one known to be delivered, which is
    /// remembered outside the transactions after each commit, as the published implementations do.
    /// Off: from the district's first.
    pub delivery_hint: bool,
    /// Order-Status asks for a district's last order instead of a customer's, among those that write (IC3 §6.5).
    /// Then the only procedures are those that the mix has.
    pub last_order_status: bool,
    /// New-Order, Payment and Delivery defer what they change, and are no procedures.
    pub deferred: bool,
    /// Percentage of New-Orders that read and write at once all the same (DRP's wild transactions).
    pub wild_pct: u32,
    /// New-Order looks its items up first, so that it knows whether it gives up before it comes to what others want. Off: after
    /// the warehouse and the district, as in the standard's text.
    pub items_first: bool,
    /// New-Order looks its items up first, comes to what all want behind the stocks, and enters the order and its lines last: under a
    /// protocol that chops calls in pieces of their own, for which a Delivery waits. With [`Self::delivery_adds`].
    pub orders_last: bool,
    /// The standard form or a published deviation.
    pub mode: Mode,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            warehouses: 1,
            mix: Mix::FULL,
            binding: Binding::Home,
            remote_item_pct: 1,
            remote_payment_pct: 15,
            rollback_pct: 1,
            scale: Scale::FULL,
            commutative: true,
            delivery_adds: false,
            delivery_hint: true,
            last_order_status: false,
            deferred: false,
            wild_pct: 0,
            items_first: false,
            orders_last: false,
            mode: Mode::Spec,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_read_as_they_print() {
        for mix in [Mix::FULL, Mix::NP, Mix::NEW_ORDER, Mix::PAYMENT, Mix([10, 20, 30, 40, 0])] {
            assert_eq!(mix.to_string().parse(), Ok(mix));
        }
        for wrong in ["", "45/43/4/4", "45/43/4/4/5", "full/", "100/0/0/0/0/0"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }
}
