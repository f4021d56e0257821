//! Tests that run under every protocol.

/// Makes a test of each `bodies::name`, under all protocols that may have so many sessions.
macro_rules! under_every_protocol {
    ($($(#[$attribute:meta])* $name:ident, $sessions:literal;)*) => {
        mod visitors {
            $(#[allow(non_camel_case_types)] pub struct $name;)*
        }
        $(
            impl heddledb::protocol::Visitor for visitors::$name {
                type Output = ();
                fn visit<P: heddledb::Protocol>(self, options: P::Options) {
                    bodies::$name::<P>(options);
                }
            }
            $(#[$attribute])*
            #[test]
            fn $name() {
                let able = heddledb::protocol::Kind::ALL.iter().filter(|kind| kind.sessions_max() >= $sessions);
                able.for_each(|kind| kind.visit(visitors::$name));
            }
        )*
    };
}
