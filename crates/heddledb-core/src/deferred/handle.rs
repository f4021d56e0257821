//! What stands for a value that is not known yet, and lists of these.

use std::fmt;
use std::marker::PhantomData;

/// Stands for a value that will be known when the transaction's intentions are evaluated.
///
/// It belongs to the attempt in which it was made. Used in another, or outside of the condition under which it was made, it is
/// answered with a misuse.
pub struct Deferred<V> {
    pub(super) name: Name,
    value: PhantomData<fn() -> V>,
}

/// Of which attempt a value is, and which of its values.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub(super) attempt: u64,
    pub(super) number: u32,
}

impl<V> Deferred<V> {
    pub(super) fn new(name: Name) -> Self {
        Self { name, value: PhantomData }
    }
}

impl<V> Clone for Deferred<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Deferred<V> {}

impl<V> fmt::Debug for Deferred<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deferred({})", self.name.number)
    }
}

/// A value that can be kept until it is asked for: plain data.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be deferred, since it is not plain data",
    label = "not `Copy + Send`, or it borrows",
    note = "deferred values are copied: numbers, `bool`, `Text<N>`, `[u8; N]`, `Option` and tuples of these, and structs that derive `Copy`; read and change a `String` or `Vec<u8>` at once, by `get_columns` and `update_columns`"
)]
pub trait Later: Copy + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<V: Copy + Send + 'static> Later for V {}

/// A function that is run when the transaction's intentions are evaluated.
#[diagnostic::on_unimplemented(
    message = "a deferred operator captures something that cannot be copied or shared between threads",
    label = "captures what is not `Copy + Send + Sync`, or borrows",
    note = "it is kept as its bytes and run later: let it capture numbers, `Text<N>` and the like, by `move`; what it needs of a `String` or a `Vec` is worked out before"
)]
pub trait Operator: Copy + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<F: Copy + Send + Sync + 'static> Operator for F {}

/// Who knows the values.
#[doc(hidden)]
pub trait Known {
    /// The value of this name, which is known, and of this type.
    fn value<V: Copy + Send + 'static>(&self, name: Name) -> V;
}

/// What an operator is given: `()`, a [`Deferred`], an array or a tuple of up to eight.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the input of a deferred operator",
    label = "neither `()`, nor a `Deferred`, nor an array or tuple of these",
    note = "what is known now the operator captures: `move |value, ()| ..`"
)]
pub trait Inputs: Copy + Send + Sync + 'static {
    /// The values.
    type Values: Copy;
    /// Visits the names.
    #[doc(hidden)]
    fn each(&self, visit: &mut dyn FnMut(Name));
    /// The values, which are known.
    #[doc(hidden)]
    fn values(&self, known: &impl Known) -> Self::Values;
}

impl<V: Copy + Send + 'static> Inputs for Deferred<V> {
    type Values = V;
    fn each(&self, visit: &mut dyn FnMut(Name)) {
        visit(self.name);
    }
    fn values(&self, known: &impl Known) -> V {
        known.value(self.name)
    }
}

impl<I: Inputs, const N: usize> Inputs for [I; N] {
    type Values = [I::Values; N];
    fn each(&self, visit: &mut dyn FnMut(Name)) {
        self.iter().for_each(|input| input.each(visit));
    }
    fn values(&self, known: &impl Known) -> Self::Values {
        self.map(|input| input.values(known))
    }
}

/// What the body of a deferring transaction returns: `()`, a [`Deferred`], tuples, arrays and lists of these. The caller
/// gets the values.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known when the body of a deferring transaction ends, or needs not be returned by it",
    label = "neither `()`, nor a `Deferred`, nor a tuple, an array or a `Vec` of these",
    note = "a value that is known now is returned as `tx.map((), move |()| value)?`"
)]
pub trait Outcome {
    /// The values.
    type Values;
    /// Visits the names.
    #[doc(hidden)]
    fn each_name(&self, visit: &mut dyn FnMut(Name));
    /// The values, which are known.
    #[doc(hidden)]
    fn into_values(self, known: &impl Known) -> Self::Values;
}

impl<V: Copy + Send + 'static> Outcome for Deferred<V> {
    type Values = V;
    fn each_name(&self, visit: &mut dyn FnMut(Name)) {
        visit(self.name);
    }
    fn into_values(self, known: &impl Known) -> V {
        known.value(self.name)
    }
}

impl<O: Outcome, const N: usize> Outcome for [O; N] {
    type Values = [O::Values; N];
    fn each_name(&self, visit: &mut dyn FnMut(Name)) {
        self.iter().for_each(|outcome| outcome.each_name(visit));
    }
    fn into_values(self, known: &impl Known) -> Self::Values {
        self.map(|outcome| outcome.into_values(known))
    }
}

impl<O: Outcome> Outcome for Vec<O> {
    type Values = Vec<O::Values>;
    fn each_name(&self, visit: &mut dyn FnMut(Name)) {
        self.iter().for_each(|outcome| outcome.each_name(visit));
    }
    fn into_values(self, known: &impl Known) -> Self::Values {
        self.into_iter().map(|outcome| outcome.into_values(known)).collect()
    }
}

macro_rules! tuples {
    ($($name:ident . $index:tt),*) => {
        impl<$($name: Inputs),*> Inputs for ($($name,)*) {
            type Values = ($($name::Values,)*);
            fn each(&self, visit: &mut dyn FnMut(Name)) {
                let _ = visit;
                $(self.$index.each(visit);)*
            }
            #[allow(clippy::unused_unit, reason = "the tuple of nothing")]
            fn values(&self, known: &impl Known) -> Self::Values {
                let _ = known;
                ($(self.$index.values(known),)*)
            }
        }
        impl<$($name: Outcome),*> Outcome for ($($name,)*) {
            type Values = ($($name::Values,)*);
            fn each_name(&self, visit: &mut dyn FnMut(Name)) {
                let _ = visit;
                $(self.$index.each_name(visit);)*
            }
            #[allow(clippy::unused_unit, reason = "the tuple of nothing")]
            fn into_values(self, known: &impl Known) -> Self::Values {
                let _ = known;
                ($(self.$index.into_values(known),)*)
            }
        }
    };
}
tuples!();
tuples!(A.0);
tuples!(A.0, B.1);
tuples!(A.0, B.1, C.2);
tuples!(A.0, B.1, C.2, D.3);
tuples!(A.0, B.1, C.2, D.3, E.4);
tuples!(A.0, B.1, C.2, D.3, E.4, F.5);
tuples!(A.0, B.1, C.2, D.3, E.4, F.5, G.6);
tuples!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7);
