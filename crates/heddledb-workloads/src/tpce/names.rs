//! Names of people, companies and securities, each made of a number, and what Trade-Update does to them.

use super::schema::Symbol;
use heddledb::Text;
use std::fmt::Arguments;
use std::io::Write;

/// A text that is formatted in place; what does not fit is cut off.
fn text<const N: usize>(arguments: Arguments<'_>) -> Text<N> {
    let mut buffer = [0; N];
    let mut rest = &mut buffer[..];
    // A write to a slice that is full is cut off.
    let _ = rest.write_fmt(arguments);
    let unused = rest.len();
    ascii(&buffer[..N - unused])
}

/// Text of ASCII bytes; of others, none.
fn ascii<const N: usize>(bytes: &[u8]) -> Text<N> {
    Text::truncated(std::str::from_utf8(bytes).unwrap_or_default())
}

/// C_TAX_ID.
pub(super) fn owner_tax_id(c_id: u32) -> Text<20> {
    text(format_args!("C{c_id:09}"))
}

/// AP_TAX_ID of the person `number` who may act for an account beside its owner.
pub(super) fn person_tax_id(ca_id: u32, number: u8) -> Text<20> {
    text(format_args!("P{ca_id:09}-{number}"))
}

/// First and last name of a customer.
pub(super) fn owner_name(c_id: u32) -> (Text<20>, Text<25>) {
    (text(format_args!("Given{c_id}")), text(format_args!("Owner{c_id}")))
}

/// First and last name of a person who may act for an account.
pub(super) fn person_name(ca_id: u32, number: u8) -> (Text<20>, Text<25>) {
    (text(format_args!("Given{number}")), text(format_args!("Agent{ca_id}")))
}

/// CA_NAME.
pub(super) fn account_name(ca_id: u32) -> Text<50> {
    text(format_args!("Account {ca_id}"))
}

/// B_NAME.
pub(super) fn broker_name(b_id: u32) -> Text<49> {
    text(format_args!("Broker {b_id}"))
}

/// TX_ID.
pub(super) fn tax_rate_id(number: u32) -> Text<4> {
    text(format_args!("T{number:03}"))
}

/// TX_NAME.
pub(super) fn tax_rate_name(number: u32) -> Text<50> {
    text(format_args!("Tax {number}"))
}

/// CO_NAME.
pub(super) fn company_name(co_id: u32) -> Text<60> {
    text(format_args!("Company {co_id}"))
}

/// S_ISSUE of a company's `number`-th security.
pub(super) fn issue(number: u32) -> Text<6> {
    text(format_args!("ISSUE{number}"))
}

/// S_NAME.
pub(super) fn security_name(s_symb: Symbol) -> Text<70> {
    text(format_args!("Security {s_symb}"))
}

/// T_EXEC_NAME.
pub(super) fn exec_name(first: &Text<20>, last: &Text<25>) -> Text<49> {
    text(format_args!("{first}{PLAIN}{last}"))
}

/// What stands between the names of T_EXEC_NAME, as entered and as corrected once.
const PLAIN: &str = "   ";
const CROSSED: &str = " X ";

/// T_EXEC_NAME as Trade-Update corrects it; twice gives the same again.
pub(super) fn exec_name_corrected(name: &Text<49>) -> Text<49> {
    swapped(name, PLAIN, CROSSED)
}

/// Whether T_EXEC_NAME was corrected an odd number of times.
pub(super) fn exec_name_is_corrected(name: &Text<49>) -> bool {
    name.as_str().contains(CROSSED)
}

/// SE_CASH_TYPE.
pub(super) fn cash_type(is_cash: bool) -> Text<40> {
    Text::truncated(if is_cash { "Cash Account" } else { "Margin Account" })
}

/// SE_CASH_TYPE as Trade-Update corrects it; twice gives the same again.
pub(super) fn cash_type_corrected(cash_type: &Text<40>) -> Text<40> {
    Text::truncated(match cash_type.as_str() {
        "Cash Account" => "Cash",
        "Cash" => "Cash Account",
        "Margin Account" => "Margin",
        _ => "Margin Account",
    })
}

/// CT_NAME.
pub(super) fn cash_name(type_name: &Text<12>, quantity: i32, security: &Text<70>) -> Text<100> {
    text(format_args!("{type_name} {quantity} {SHARES} of {security}"))
}

const SHARES: &str = "shares";
const CAPITAL_SHARES: &str = "Shares";

/// CT_NAME as Trade-Update corrects it; twice gives the same again.
pub(super) fn cash_name_corrected(name: &Text<100>) -> Text<100> {
    swapped(name, SHARES, CAPITAL_SHARES)
}

/// The text with the first `a` replaced by `b`, or else the first `b` by `a`. Both are as long.
fn swapped<const N: usize>(text: &Text<N>, a: &str, b: &str) -> Text<N> {
    let mut bytes = *text.padded();
    let old = text.as_str();
    let place = old.find(a).map(|at| (at, b)).or_else(|| old.find(b).map(|at| (at, a)));
    if let Some((at, new)) = place {
        bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
    }
    let length = text.as_bytes().len();
    ascii(&bytes[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_go_forth_and_back() {
        let name = exec_name(&Text::truncated("Ada"), &Text::truncated("Xerxes"));
        assert_eq!(name.as_str(), "Ada   Xerxes");
        let corrected = exec_name_corrected(&name);
        assert_eq!(corrected.as_str(), "Ada X Xerxes");
        assert!(exec_name_is_corrected(&corrected) && !exec_name_is_corrected(&name));
        assert_eq!(exec_name_corrected(&corrected), name);

        for is_cash in [true, false] {
            let plain = cash_type(is_cash);
            assert_ne!(cash_type_corrected(&plain), plain);
            assert_eq!(cash_type_corrected(&cash_type_corrected(&plain)), plain);
        }

        let name = cash_name(&Text::truncated("Market-Buy"), 100, &Text::truncated("Security 7"));
        assert_eq!(name.as_str(), "Market-Buy 100 shares of Security 7");
        let corrected = cash_name_corrected(&name);
        assert_eq!(corrected.as_str(), "Market-Buy 100 Shares of Security 7");
        assert_eq!(cash_name_corrected(&corrected), name);
    }

    #[test]
    fn names_fit_and_differ() {
        let widest = u32::MAX;
        assert_eq!(company_name(widest).as_str(), "Company 4294967295");
        assert_eq!(person_tax_id(7, 2).as_str(), "P000000007-2");
        assert_ne!(owner_tax_id(7), owner_tax_id(70));
        assert_eq!(
            (issue(0).as_str(), issue(1).as_str(), tax_rate_id(319).as_str()),
            ("ISSUE0", "ISSUE1", "T319")
        );
        let (first, last) = person_name(widest, 2);
        assert_eq!(exec_name(&first, &last).as_str(), "Given2   Agent4294967295");
    }
}
