//! The open streams, whose number is bounded.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::access::User;
use crate::places::{Bounds, Owner};

const STREAMS: Bounds = Bounds {
    of_all: 64,
    reserved: 16,
    of_namespace: 16,
    of_user: 8,
    of_operator: 64,
};

/// The streams that are open, by number.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    owners: HashMap<u64, Owner>,
}

/// The place of a stream, until it is dropped.
pub(crate) struct Place {
    streams: Arc<Streams>,
    number: u64,
}

impl Streams {
    pub(crate) fn take(self: &Arc<Self>, user: &User) -> Option<Place> {
        let mut open = self.0.lock();
        let owner = Owner::of(user);
        if !STREAMS.admit(&owner, open.owners.values()) {
            return None;
        }
        let number = open.next;
        open.next += 1;
        open.owners.insert(number, owner);
        Some(Place {
            streams: Arc::clone(self),
            number,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.streams.0.lock().owners.remove(&self.number);
    }
}
