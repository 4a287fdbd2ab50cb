//! Requests of this process that wait for what another request does: a reply, or a settled lease.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use duly::EventId;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many leases of streams that have ended are given back at the same time.
const GIVE_BACKS_MAX: usize = 16;

/// The waiting requests. Each belongs to a connection, so their number is bounded; leases outlive
/// theirs, while what a stream has left is given back.
#[derive(Debug)]
pub(crate) struct Waiters {
    /// How many streams each queue of each pool has.
    streams: Mutex<HashMap<(String, String), usize>>,
    /// The streams that have a name, by the pool, the queue and it.
    named: Mutex<HashMap<(String, String, String), Arc<InFlight>>>,
    replies: Mutex<HashMap<EventId, Waiting>>,
    /// The streams of leases; that of one which is just given back is still here.
    leases: Mutex<HashMap<String, Arc<InFlight>>>,
    /// Room to give back a lease of a stream that has ended.
    pub(crate) give_backs: Semaphore,
}

impl Default for Waiters {
    fn default() -> Self {
        Self {
            streams: Mutex::default(),
            named: Mutex::default(),
            replies: Mutex::default(),
            leases: Mutex::default(),
            give_backs: Semaphore::new(GIVE_BACKS_MAX),
        }
    }
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
    leases: Mutex<HashMap<String, LeaseInFlight>>,
    /// Cancelled when its consumer stops: nothing more is sent.
    pub(crate) draining: CancellationToken,
    /// Notified when there is room for another.
    pub(crate) freed: Notify,
}

/// A lease of a stream that is not settled.
#[derive(Debug)]
struct LeaseInFlight {
    deadline: Instant,
    /// When its consumer last asked for anything by its token.
    used: Option<Instant>,
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

    /// Notes that a consumer is about to settle or extend a lease. Returns whether it may: its
    /// stream may have ended, and just give it back.
    pub(crate) fn used(&self, token: &str) -> bool {
        let stream = lock(&self.leases).get(token).cloned();
        let Some(stream) = stream else {
            return true;
        };
        let mut leases = lock(&stream.leases);
        match leases.get_mut(token) {
            Some(lease) => {
                lease.used = Some(Instant::now());
                true
            }
            None => !lock(&self.leases).contains_key(token),
        }
    }

    /// Reports that a lease ends `ttr` from now.
    pub(crate) fn extended(&self, token: &str, ttr: Duration) {
        let stream = lock(&self.leases).get(token).cloned();
        let Some(stream) = stream else {
            return;
        };
        if let Some(lease) = lock(&stream.leases).get_mut(token) {
            lease.deadline = Instant::now() + ttr;
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
            for lease in lock(&stream.leases).values_mut() {
                let moved = lease.deadline.checked_sub(span);
                lease.deadline = moved.unwrap_or(now).max(now);
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
        let lease = LeaseInFlight {
            deadline: Instant::now() + ttr,
            used: None,
        };
        lock(&stream.leases).insert(token.clone(), lease);
        lock(&self.leases).insert(token, Arc::clone(stream));
    }

    /// Removes leases whose time to run is over; returns how many are left, and when the next ends.
    pub(crate) fn in_flight(&self, stream: &InFlight) -> (usize, Option<Instant>) {
        let now = Instant::now();
        let mut leases = lock(&stream.leases);
        let over = leases.extract_if(|_, lease| lease.deadline <= now);
        self.forget(over.map(|(token, _)| token));
        let next_end = leases.values().map(|lease| lease.deadline).min();
        (leases.len(), next_end)
    }

    /// Leaves every lease of a stream to its consumer.
    pub(crate) fn leave(&self, stream: &InFlight) {
        let mut leases = lock(&stream.leases);
        self.forget(leases.drain().map(|(token, _)| token));
    }

    /// Takes the next lease of a stream to give it back, and the stream forgets it: one whose time
    /// to run is not over, and that its consumer has not used since a time. Then it is `forgotten`.
    pub(crate) fn take(&self, stream: &InFlight, used_since: Option<Instant>) -> Option<String> {
        self.in_flight(stream);
        let mut leases = lock(&stream.leases);
        let is_left = |lease: &LeaseInFlight| used_since.is_some_and(|at| lease.used >= Some(at));
        let next = leases.iter().find(|(_, lease)| !is_left(lease));
        let token = next.map(|(token, _)| token.clone())?;
        leases.remove(&token);
        Some(token)
    }

    /// Forgets a lease that was given back.
    pub(crate) fn forgotten(&self, token: String) {
        self.forget([token]);
    }

    /// Forgets leases. Whoever forgets those of a stream holds its lock: one that is known, and not
    /// in its stream, is just given back.
    fn forget(&self, tokens: impl IntoIterator<Item = String>) {
        let mut leases = lock(&self.leases);
        for token in tokens {
            leases.remove(&token);
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

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn what_was_used_around_the_end_of_a_stream_is_not_given_back() {
        let (waiters, stream) = (Waiters::default(), Arc::default());
        for token in ["before", "after", "unused"] {
            waiters.add(&stream, token.to_owned(), LONG);
        }
        let since = Instant::now();
        assert!(waiters.used("before") && waiters.used("after"));
        assert_eq!(waiters.take(&stream, Some(since)).unwrap(), "unused");
        assert_eq!(waiters.take(&stream, Some(since)), None);
        // Of a client that was refused.
        assert!(waiters.take(&stream, None).is_some());
        waiters.leave(&stream);
        assert_eq!(waiters.take(&stream, None), None);
    }

    #[test]
    fn a_lease_is_not_extended_while_it_is_given_back() {
        let (waiters, stream) = (Waiters::default(), Arc::default());
        waiters.add(&stream, "a".to_owned(), LONG);
        let token = waiters.take(&stream, None).unwrap();
        assert!(!waiters.used("a"), "204 would be no promise");
        waiters.forgotten(token);
        assert!(waiters.used("a"), "the store knows");
        waiters.add(&stream, "b".to_owned(), LONG);
        waiters.leave(&stream);
        assert!(waiters.used("b"));
    }
}
