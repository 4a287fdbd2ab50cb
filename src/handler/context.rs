//! What a handler may know and do besides its event.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    sync::Arc,
};

/// What a handler may know and do besides its event.
#[derive(Clone, Debug, Default)]
pub struct Context {
    states: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Context {
    /// This context with one more state.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.states.insert(TypeId::of::<T>(), Arc::new(state));
        self
    }

    /// The state of type `T`.
    ///
    /// # Panics
    ///
    /// Panics when there is none.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> Arc<T> {
        match self
            .states
            .get(&TypeId::of::<T>())
            .cloned()
            .map(Arc::downcast)
        {
            Some(Ok(state)) => state,
            _ => panic!("state is missing"),
        }
    }
}
