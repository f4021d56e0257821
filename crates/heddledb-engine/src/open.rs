//! Opening a database under a protocol that is known at run time: where a [`Choice`] becomes a static type.
//!
//! Each type that is named here is a copy of the rooms above protocols, most of what there is to compile. A program that needs
//! few of them leaves out the features of the others; [`Silo`] is always there.

use crate::db;
use crate::error::{Misuse, Result};
use crate::kind::Choice;
use crate::protocol::silo::Silo;
use crate::seam::Engine;
use crate::settings::Settings;
use std::sync::Arc;

/// Opens a database.
///
/// # Errors
/// As `Builder::open`.
pub fn open(choice: Choice, settings: Settings) -> Result<Arc<dyn Engine>> {
    let name = choice.name();
    match choice {
        Choice::Silo(options) => db::open::<Silo>(name, options, settings),
        #[cfg(feature = "unprotected")]
        Choice::Unprotected(options) => {
            db::open::<crate::protocol::unprotected::Unprotected>(name, options, settings)
        }
        #[cfg(feature = "tictoc")]
        Choice::TicToc(options) => open_tictoc(name, options, settings),
        #[cfg(feature = "locking")]
        Choice::Locking(options) => db::open::<crate::protocol::locking::Locking>(name, options, settings),
        #[cfg(feature = "dta")]
        Choice::Dta(options) => db::open::<crate::protocol::dta::Dta>(name, options, settings),
        #[cfg(feature = "hekaton")]
        Choice::Hekaton(options) => db::open::<crate::protocol::hekaton::Hekaton>(name, options, settings),
        #[cfg(feature = "drp")]
        Choice::Drp(options) => db::open::<crate::protocol::drp::Drp>(name, options, settings),
        #[cfg(feature = "htm")]
        Choice::Htm(options) => open_htm(name, options, settings),
        #[cfg(feature = "ic3")]
        Choice::Ic3(options) => db::open::<crate::protocol::ic3::Ic3>(name, options, settings),
        #[cfg(feature = "example")]
        Choice::OneWriter(options) => {
            db::open::<crate::protocol::one_writer::OneWriter>(name, options, settings)
        }
        // What a feature would add, of this crate or, as an example, of others that have more than this one.
        _ => {
            let what = format!(
                "this build of `heddledb` is without {name}; switch on the feature `protocols`, or that of the protocol alone"
            );
            Err(Misuse::Option(what).into())
        }
    }
}

#[cfg(feature = "tictoc")]
fn open_tictoc(
    name: &'static str,
    options: crate::kind::TicToc,
    settings: Settings,
) -> Result<Arc<dyn Engine>> {
    use crate::kind::Times;
    use crate::protocol::tictoc::{Packed, TicToc, WithHistory};
    match options.times {
        Times::TwoWords => db::open::<TicToc>(name, options, settings),
        Times::WithHistory => db::open::<TicToc<WithHistory>>(name, options, settings),
        Times::Packed => db::open::<TicToc<Packed>>(name, options, settings),
    }
}

#[cfg(feature = "htm")]
fn open_htm(name: &'static str, options: crate::kind::Htm, settings: Settings) -> Result<Arc<dyn Engine>> {
    use crate::kind::Executor;
    use crate::protocol::htm::Htm;
    use crate::sync::htm;
    if options.executor == Executor::Hardware && !htm::MODELLED && !htm::is_available() {
        let what = "this processor executes no hardware regions (RTM), or aborts all of them; open with \
                    `Executor::Auto` or `Executor::Software`";
        return Err(Misuse::Option(what.to_owned()).into());
    }
    if options.lazy_numbers && (options.defer || !options.chopped) {
        let what = "lazy snapshot numbers are those of chopped calls that defer nothing: `Htm::lazy_numbers` goes \
                    with `chopped`, and not with `defer`";
        return Err(Misuse::Option(what.to_owned()).into());
    }
    db::open::<Htm>(name, options, settings)
}
