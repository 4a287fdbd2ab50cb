//! The operation by which a store looks at a bucket that nobody uses.

use crate::core::op::StoreOp;

impl StoreOp {
    /// Has a bucket forget what is old; it ends no event but those that have expired.
    pub(crate) const SWEEP: Self = Self::Reap {
        silent: Vec::new(),
        limit: 0,
    };
}
