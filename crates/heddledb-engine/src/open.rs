//! Opening a database under a protocol that is known at run time: where a [`Choice`] becomes a static type.

use crate::db;
use crate::error::{Misuse, Result};
use crate::kind::{Choice, Executor, Times};
use crate::protocol::drp::Drp;
use crate::protocol::dta::Dta;
use crate::protocol::hekaton::Hekaton;
use crate::protocol::htm::Htm;
use crate::protocol::ic3::Ic3;
use crate::protocol::locking::Locking;
use crate::protocol::silo::Silo;
use crate::protocol::tictoc::{Packed, TicToc, WithHistory};
use crate::protocol::unprotected::Unprotected;
use crate::seam::Engine;
use crate::settings::Settings;
use crate::sync::htm;
use std::sync::Arc;

/// Opens a database.
///
/// # Errors
/// As `Builder::open`.
pub fn open(choice: Choice, settings: Settings) -> Result<Arc<dyn Engine>> {
    let name = choice.name();
    match choice {
        Choice::Unprotected(options) => db::open::<Unprotected>(name, options, settings),
        Choice::Silo(options) => db::open::<Silo>(name, options, settings),
        Choice::TicToc(options) => match options.times {
            Times::TwoWords => db::open::<TicToc>(name, options, settings),
            Times::WithHistory => db::open::<TicToc<WithHistory>>(name, options, settings),
            Times::Packed => db::open::<TicToc<Packed>>(name, options, settings),
        },
        Choice::Locking(options) => db::open::<Locking>(name, options, settings),
        Choice::Dta(options) => db::open::<Dta>(name, options, settings),
        Choice::Hekaton(options) => db::open::<Hekaton>(name, options, settings),
        Choice::Drp(options) => db::open::<Drp>(name, options, settings),
        Choice::Htm(options) => {
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
        Choice::Ic3(options) => db::open::<Ic3>(name, options, settings),
        #[cfg(feature = "example")]
        Choice::OneWriter(options) => {
            db::open::<crate::protocol::one_writer::OneWriter>(name, options, settings)
        }
        // What a build of the other crates has more of than this one: an example.
        _ => Err(Misuse::Option(format!("this build of the engine is without {name}")).into()),
    }
}
