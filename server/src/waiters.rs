//! Requests of this process that wait for what another request does: a reply, or a settled lease.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use duly::EventId;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The waiting requests. Each belongs to a connection, so their number is bounded.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// How many streams each queue of each pool has.
    streams: Mutex<HashMap<(String, String), usize>>,
    /// The streams that have a name, by the pool, the queue and it.
    named: Mutex<HashMap<(String, String, String), Arc<InFlight>>>,
    replies: Mutex<HashMap<EventId, Waiting>>,
    leases: Mutex<HashMap<String, Arc<InFlight>>>,
}

/// The requests that wait for the end of an event.
#[derive(Debug, Default)]
struct Waiting {
    ended: Arc<Notify>,
    count: usize,
}

/// A request that waits for the end of an event.
#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    waiters: &'a Waiters,
    id: EventId,
    pub(crate) ended: Arc<Notify>,
}

/// The leases of a stream that are not settled.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    leases: Mutex<HashMap<String, Instant>>,
    /// Cancelled when its consumer stops: nothing more is sent.
    pub(crate) draining: CancellationToken,
    /// Notified when there is room for another.
    pub(crate) freed: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Waiters {
    /// Waits for the end of an event, from now on.
    pub(crate) fn wait(&self, id: EventId) -> Waiter<'_> {
        let mut replies = lock(&self.replies);
        let waiting = replies.entry(id).or_default();
        waiting.count += 1;
        Waiter {
            waiters: self,
            id,
            ended: Arc::clone(&waiting.ended),
        }
    }

    /// Notes the name of a stream; the last one of a name has it.
    pub(crate) fn name_stream(&self, name: (String, String, String), stream: &Arc<InFlight>) {
        lock(&self.named).insert(name, Arc::clone(stream));
    }

    /// Forgets the name of a stream, unless another has it.
    pub(crate) fn forget_name(&self, name: &(String, String, String), stream: &Arc<InFlight>) {
        let mut named = lock(&self.named);
        if named.get(name).is_some_and(|it| Arc::ptr_eq(it, stream)) {
            named.remove(name);
        }
    }

    /// Ends the sending of a stream; returns whether there is one of the name.
    pub(crate) fn drain(&self, name: &(String, String, String)) -> bool {
        let stream = lock(&self.named).get(name).cloned();
        stream.is_some_and(|stream| {
            stream.draining.cancel();
            stream.freed.notify_one();
            true
        })
    }

    /// Reports that a lease was settled.
    pub(crate) fn settled(&self, id: EventId, token: &str) {
        if let Some(waiting) = lock(&self.replies).get(&id) {
            waiting.ended.notify_waiters();
        }
        let stream = lock(&self.leases).remove(token);
        if let Some(stream) = stream {
            lock(&stream.leases).remove(token);
            stream.freed.notify_one();
        }
    }

    /// Reports that a lease ends `ttr` from now.
    pub(crate) fn extended(&self, token: &str, ttr: Duration) {
        let stream = lock(&self.leases).get(token).cloned();
        if let Some(stream) = stream
            && let Some(deadline) = lock(&stream.leases).get_mut(token)
        {
            *deadline = Instant::now() + ttr;
        }
    }

    /// Moves all deadlines, as a clock was moved by hand.
    pub(crate) fn advance(&self, span: Duration) {
        let streams: Vec<_> = lock(&self.leases).values().cloned().collect();
        let now = Instant::now();
        // A stream has an entry for each of its leases.
        let mut seen = HashSet::new();
        for stream in streams {
            if !seen.insert(Arc::as_ptr(&stream)) {
                continue;
            }
            for deadline in lock(&stream.leases).values_mut() {
                *deadline = deadline.checked_sub(span).unwrap_or(now).max(now);
            }
            stream.freed.notify_one();
        }
    }

    /// Returns the pools and queues that have streams.
    pub(crate) fn streamed(&self) -> Vec<(String, String)> {
        lock(&self.streams).keys().cloned().collect()
    }

    /// Notes that a queue of a pool has one more stream.
    pub(crate) fn stream_began(&self, place: (String, String)) {
        *lock(&self.streams).entry(place).or_default() += 1;
    }

    /// Notes that a queue of a pool has one stream less.
    pub(crate) fn stream_ended(&self, place: &(String, String)) {
        let mut streams = lock(&self.streams);
        if let Some(count) = streams.get_mut(place) {
            *count -= 1;
            if *count == 0 {
                streams.remove(place);
            }
        }
    }

    /// Adds a lease to those of a stream.
    pub(crate) fn add(&self, stream: &Arc<InFlight>, token: String, ttr: Duration) {
        lock(&stream.leases).insert(token.clone(), Instant::now() + ttr);
        lock(&self.leases).insert(token, Arc::clone(stream));
    }

    /// Removes leases whose time to run is over; returns how many are left, and when the next ends.
    pub(crate) fn in_flight(&self, stream: &InFlight) -> (usize, Option<Instant>) {
        let now = Instant::now();
        let mut leases = lock(&stream.leases);
        let over = leases.extract_if(|_, deadline| *deadline <= now);
        let over: Vec<String> = over.map(|(token, _)| token).collect();
        let left = (leases.len(), leases.values().min().copied());
        drop(leases);
        self.forget(&over);
        left
    }

    /// Removes every lease of a stream, and returns their tokens.
    pub(crate) fn take(&self, stream: &InFlight) -> Vec<String> {
        let tokens: Vec<String> = lock(&stream.leases)
            .drain()
            .map(|(token, _)| token)
            .collect();
        self.forget(&tokens);
        tokens
    }

    fn forget(&self, tokens: &[String]) {
        let mut leases = lock(&self.leases);
        for token in tokens {
            leases.remove(token);
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut replies = lock(&self.waiters.replies);
        if let Some(waiting) = replies.get_mut(&self.id) {
            waiting.count -= 1;
            if waiting.count == 0 {
                replies.remove(&self.id);
            }
        }
    }
}
