//! The name of this process in the messages that its calls cause.

use std::sync::Arc;

use parking_lot::RwLock;

/// The name of this process in messages. One under it is ignored, since the reply to the call that
/// caused it says the same.
#[derive(Clone, Debug)]
pub(in crate::store::redis) struct Origin(Arc<RwLock<Arc<str>>>);

impl Origin {
    /// Makes up a name.
    pub(in crate::store::redis) fn new() -> Self {
        Self::of(made_up())
    }

    /// Has this name at first.
    pub(in crate::store::redis) fn of(name: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(RwLock::new(name.into())))
    }

    /// Returns the name that calls have from now on.
    pub(in crate::store::redis) fn name(&self) -> Arc<str> {
        Arc::clone(&self.0.read())
    }

    /// Changes the name, as a call under the one before has no reply: whenever that is executed,
    /// its message counts as that of another process.
    pub(in crate::store::redis) fn change(&self) {
        *self.0.write() = made_up();
    }

    /// Returns whether a message is of this process.
    pub(in crate::store::redis) fn is(&self, text: &[u8]) -> bool {
        self.0.read().as_bytes() == text
    }
}

fn made_up() -> Arc<str> {
    format!("{:016x}", fastrand::u64(..)).into()
}
