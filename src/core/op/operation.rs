//! The types and functions that the table of operations makes of its rows.

use crate::core::op::{Reply, StoreOp};

/// The effect of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It changes nothing.
    Reads,
    /// It changes who works on what; a crash may undo that.
    Moves,
    /// It changes events: a reply waits until that is durable.
    Changes,
}

/// An operation with its own type of reply `R`.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is applied"]
pub struct Operation<R> {
    pub(crate) op: StoreOp,
    /// Extracts the reply.
    pub(crate) reply: fn(Reply) -> Option<R>,
}

/// Makes of the table what depends on the operation alone.
macro_rules! operations {
    ($(
        $variant:ident = $metric:literal, $effect:ident {
            $($(#[$doc:meta])*
            fn $name:ident($($argument:ident: $type:ty),*) -> $reply:ident($of:ty) = $op:expr;)+
        }
    )*) => {
        /// Indexes of the operations.
        enum Place {
            $($variant,)*
        }

        /// The operations, each with its type of reply.
        impl StoreOp {
            /// The name of each in metrics, by its [`place`](Self::place). Two may share one.
            pub(crate) const METRICS: [&'static str; [$($metric),*].len()] = [$($metric),*];

            /// Returns the place of the operation in lists of one for each.
            pub(crate) fn place(&self) -> usize {
                match self {
                    $(Self::$variant { .. } => Place::$variant as usize,)*
                }
            }

            pub(super) fn effect(&self) -> $crate::core::op::operation::Effect {
                match self {
                    $(Self::$variant { .. } => $crate::core::op::operation::Effect::$effect,)*
                }
            }

            $($(
                $(#[$doc])*
                pub fn $name($($argument: $type),*) -> $crate::core::op::Operation<$of> {
                    $crate::core::op::Operation {
                        op: $op,
                        reply: |reply| match reply {
                            Reply::$reply(reply) => Some(reply),
                            _ => None,
                        },
                    }
                }
            )+)*
        }
    };
}

pub(super) use operations;

#[allow(dead_code)] // the memory store does not ask
impl StoreOp {
    /// Returns whether it changes nothing.
    pub(crate) fn only_reads(&self) -> bool {
        self.effect() == Effect::Reads
    }

    /// Returns whether its reply depends on leases of others: those that are past their deadline end
    /// before it. A push looks at the holders of its unique keys alone, and who holds a lease has it
    /// until somebody wants the event.
    pub(crate) fn tells(&self) -> bool {
        !matches!(
            self,
            Self::Push(_)
                | Self::Fetch(_)
                | Self::Settle { .. }
                | Self::Heartbeat { .. }
                | Self::Reconcile { .. }
                | Self::Extend { .. }
                | Self::Reap { .. }
        )
    }

    /// Returns whether its reply waits until what it changes is durable.
    pub(crate) fn waits(&self) -> bool {
        self.effect() == Effect::Changes
    }
}
