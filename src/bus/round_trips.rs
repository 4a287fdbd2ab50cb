//! The check of a pushed value: whether it comes back as it is.
//!
//! What a codec and a type make of a value is noticed at the first attempt, which may be next month.
//! So a push decodes what it has encoded: the first one of each type and codec, every one in debug
//! builds and in the testing kit, and every one whose value the codec may not carry.

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use crate::bus::Queue;
use crate::bus::payloads::EncodedValue;
use crate::codec::{Codec, Encoded, encode};
use crate::error::{Error, Result};

/// Decodes an encoded value and compares it; returns why it does not come back. `None` for a type
/// that is only pushed.
pub(super) type RoundTrip<T> = Option<fn(Codec, &T, &[u8]) -> Result<(), String>>;

/// The types of a program whose values have come back. Bounded by the program, which has so many.
#[derive(Debug)]
pub(super) struct RoundTrips {
    /// Whether every push is checked.
    all: bool,
    passed: Mutex<HashMap<TypeId, Passed>>,
}

/// The codecs by which a value of one type has come back, a bit each.
pub(super) type Passed = Arc<AtomicU8>;

impl RoundTrips {
    pub(super) fn new(all: bool) -> Self {
        Self {
            all: all || cfg!(debug_assertions),
            passed: Mutex::default(),
        }
    }

    pub(super) fn of<T: 'static>(&self) -> Passed {
        let mut passed = self.passed.lock();
        Arc::clone(passed.entry(TypeId::of::<T>()).or_default())
    }
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Encodes a value by a codec, and checks that it comes back where that is in doubt.
    pub(super) fn encode(&self, codec: Codec, payload: &T) -> Result<EncodedValue> {
        let Encoded { bytes, is_doubtful } = encode(codec, payload).map_err(|error| {
            let name = &self.handle.name;
            Error::invalid(format!("queue {name}: the payload cannot be encoded")).because(error)
        })?;
        let bit = 1 << codec as u8;
        let is_checked = self.handle.inner.round_trips.all;
        let is_known = !is_checked && self.passed.load(Ordering::Relaxed) & bit > 0;
        if let Some(round_trip) = self.round_trip
            && (!is_known || is_doubtful)
        {
            round_trip(codec, payload, &bytes)
                .map_err(|why| self.does_not_come_back(codec, &why))?;
            self.passed.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(EncodedValue { codec, bytes })
    }

    fn does_not_come_back(&self, codec: Codec, why: &str) -> Error {
        let why = if self.handle.options.encrypt {
            "it would not come back; the reason may quote it, and is withheld"
        } else {
            why
        };
        Error::invalid(format!(
            "queue {}: the codec `{}` cannot carry this {}: {why}; see *What serde cannot carry* \
             in duly's documentation of payloads",
            self.handle.name,
            codec,
            type_name::<T>(),
        ))
    }
}
