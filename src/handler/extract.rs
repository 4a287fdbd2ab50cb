//! Shared state of handlers: databases, clients, settings.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::panics;

/// An argument of a handler function that extracts a shared value by its type.
///
/// The required types are known before the bus starts, so a missing one fails the start and not the
/// thousandth event.
#[derive(Debug)]
pub struct State<T>(pub Arc<T>);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A map of shared values by type.
#[derive(Clone, Default)]
pub struct States(StateMap);

type StateMap = HashMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>;

impl States {
    /// Inserts `value`; returns whether it replaced one of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        self.insert_shared(Arc::new(value))
    }

    pub(crate) fn insert_shared<T: Send + Sync + 'static>(&mut self, value: Arc<T>) -> bool {
        self.0
            .insert(TypeId::of::<T>(), (type_name::<T>(), value))
            .is_some()
    }

    /// Returns the value of type `T`.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0
            .get(&TypeId::of::<T>())
            .and_then(|(_, value)| value.downcast_ref())
    }

    /// Returns a handle to the value of type `T`.
    #[must_use]
    pub fn share<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0
            .get(&TypeId::of::<T>())
            .and_then(|(_, value)| Arc::clone(value).downcast().ok())
    }

    pub(crate) fn has(&self, id: TypeId) -> bool {
        self.0.contains_key(&id)
    }
}

/// Drops each value by itself: a panic of one must not keep a bus from closing its store.
impl Drop for States {
    fn drop(&mut self) {
        self.0.drain().for_each(panics::dropped);
    }
}

/// Prints the types only.
impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.values().map(|(name, _)| name))
            .finish()
    }
}
