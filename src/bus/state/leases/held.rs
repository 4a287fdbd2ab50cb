//! Leases that this process has handed out, by their event: whoever ends an event by its id alone
//! needs no look at it first.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::bus::state::leases::token::LeaseToken;
use crate::event::EventId;

/// The most leases that are remembered; the oldest is forgotten first, which costs a look later.
const MAX: usize = 65_536;

/// The order is cleared of ended leases when it has twice as many as are remembered, and so many more.
const SPARE: usize = 64;

/// The remembered leases. Some may be lost or settled already.
#[derive(Debug, Default)]
pub(in crate::bus) struct HeldLeases(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    tokens: HashMap<EventId, LeaseToken>,
    /// In the order of leasing; also those that are no longer in `tokens`.
    order: VecDeque<EventId>,
}

impl HeldLeases {
    /// Remembers a lease; it replaces an earlier one of the same event.
    pub(in crate::bus) fn add(&self, token: &LeaseToken) {
        let mut state = self.0.lock();
        if state.order.len() > 2 * state.tokens.len() + SPARE {
            let State { tokens, order } = &mut *state;
            order.retain(|id| tokens.contains_key(id));
            order.shrink_to(2 * order.len() + SPARE);
        }
        if state.order.len() >= MAX
            && let Some(oldest) = state.order.pop_front()
        {
            state.tokens.remove(&oldest);
        }
        state.order.push_back(token.id);
        state.tokens.insert(token.id, token.clone());
    }

    /// Forgets the lease of an event and returns it.
    pub(in crate::bus) fn take(&self, id: EventId) -> Option<LeaseToken> {
        let mut state = self.0.lock();
        state.tokens.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BucketId, QueueName};
    use crate::record::NodeId;
    use crate::time::Timestamp;

    fn token(number: u64) -> LeaseToken {
        LeaseToken {
            id: EventId::from_parts(Timestamp::from_millis(1), BucketId(0), number),
            queue: QueueName::new("work").expect("a legal name"),
            bucket: BucketId(0),
            node: NodeId(1),
            request: 1,
            attempt: 1,
            fetched_us: 1,
        }
    }

    #[test]
    fn only_so_many_are_remembered() {
        let held = HeldLeases::default();
        for number in 0..2 * MAX as u64 {
            held.add(&token(number));
            assert!(!number.is_multiple_of(2) || held.take(token(number).id).is_some());
        }
        let state = held.0.lock();
        assert!(state.order.len() <= MAX && state.tokens.len() <= MAX);
        drop(state);
        assert_eq!(held.take(token(1).id), None, "the oldest is forgotten");
        assert!(held.take(token(2 * MAX as u64 - 1).id).is_some());
    }
}
