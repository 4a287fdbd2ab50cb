//! One delivery as the handler sees it.

/// One delivery as the handler sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event<T> {
    /// What was pushed.
    pub payload: T,
}

impl<T> Event<T> {
    /// An event that carries `payload`.
    #[must_use]
    pub const fn of(payload: T) -> Self {
        Self { payload }
    }
}
