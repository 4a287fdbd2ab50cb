//! The number of open streams, which is bounded.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::access::User;

/// The most streams, and those of a user who sees some queues only.
const STREAMS_MAX: usize = 64;
const STREAMS_OF_USER_MAX: usize = 8;

/// The streams that are open, by the name of their user.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<HashMap<String, usize>>);

/// The place of a stream, until it is dropped.
pub(crate) struct Place {
    streams: Arc<Streams>,
    user: String,
}

impl Streams {
    pub(crate) fn take(self: &Arc<Self>, user: &User) -> Option<Place> {
        let mut open = self.0.lock();
        let of_user = open.get(&user.name).copied().unwrap_or_default();
        let has_many = !user.sees_all() && of_user >= STREAMS_OF_USER_MAX;
        if has_many || open.values().sum::<usize>() >= STREAMS_MAX {
            return None;
        }
        *open.entry(user.name.clone()).or_default() += 1;
        Some(Place {
            streams: Arc::clone(self),
            user: user.name.clone(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.0.lock();
        if let Some(count) = open.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}
