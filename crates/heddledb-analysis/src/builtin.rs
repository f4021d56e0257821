//! Texts that come with the crate: inputs, by name. Their results are computed.

/// A text by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// What to call it by.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// The text.
    pub text: &'static str,
}

macro_rules! builtin {
    ($name:literal, $about:literal) => {
        Builtin { name: $name, about: $about, text: include_str!(concat!("../workloads/", $name, ".txt")) }
    };
}

/// All texts.
pub const ALL: &[Builtin] = &[
    builtin!("tpcc", "TPC-C: New-Order, Payment, Delivery, and IC3's last-order-status"),
    builtin!("tpcc-spec", "TPC-C's New-Order in the order of its specification: a merge in two types"),
    builtin!("tpcc-fused", "TPC-C with Delivery's loop in one, as in code derived from IC3"),
    builtin!("tpce", "TPC-E: the four types that write"),
    builtin!("micro", "IC3's microbenchmark: ten tables, always in the same order"),
    builtin!("micro-reversed", "the same beside a type that goes backwards: a single piece is left"),
    builtin!("smallbank", "SmallBank"),
    builtin!("articles", "Articles: a counter around an insert"),
    builtin!("figure1a", "IC3 figure 1a and 2: two tables, each read and then written"),
    builtin!("figure1b", "IC3 figure 1b: a dependency over three types"),
    builtin!("figure3", "IC3 figure 3 and 4: two tables in opposite orders, then a third"),
    builtin!("figure5", "IC3 figure 5: what an optimistic constraint lets through"),
    builtin!("figure6", "IC3 figure 6 and 7: a rendezvous piece"),
    builtin!("figure9", "IC3 figure 9 and 10: a new type forces a merge in an old one"),
];

/// The text of that name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|one| one.name == name)
}
