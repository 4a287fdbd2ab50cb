//! The check of a pushed value: whether it comes back as it is.
//!
//! What a codec and a type make of a value is noticed at the first attempt, which may be next month.
//! So a push decodes what it has encoded: the first one of each type and codec, every one in debug
//! builds and in the testing kit, and every one whose value the codec may not carry.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use parking_lot::Mutex;

use crate::codec::Codec;

/// Decodes an encoded value and compares it; returns why it does not come back. `None` for a type
/// that is only pushed.
pub(in crate::bus) type RoundTrip<T> = Option<fn(Codec, &T, &[u8]) -> Result<(), String>>;

/// The types of a program whose values have come back. Bounded by the program, which has so many.
#[derive(Debug)]
pub(in crate::bus) struct RoundTrips {
    /// Whether every push is checked.
    pub(in crate::bus) all: bool,
    passed: Mutex<HashMap<TypeId, Passed>>,
}

/// The codecs by which a value of one type has come back, a bit each.
pub(in crate::bus) type Passed = Arc<AtomicU8>;

impl RoundTrips {
    pub(in crate::bus) fn new(all: bool) -> Self {
        Self {
            all: all || cfg!(debug_assertions),
            passed: Mutex::default(),
        }
    }

    pub(in crate::bus) fn of<T: 'static>(&self) -> Passed {
        let mut passed = self.passed.lock();
        Arc::clone(passed.entry(TypeId::of::<T>()).or_default())
    }
}
