//! Leases that this process has handed out, by their event: whoever ends an event by its id alone
//! needs no look at it first.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::bus::state::leases::token::LeaseToken;
use crate::event::EventId;

/// The most leases that are remembered; the oldest is forgotten first, which costs a look later.
const MAX: usize = 65_536;

/// The order is cleared of leases that ended or were replaced when it has twice as many as are
/// remembered, and so many more.
const SPARE: usize = 64;

/// The remembered leases. Some may be lost or settled already.
#[derive(Debug, Default)]
pub(in crate::bus) struct HeldLeases(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The last lease of each event, with its number.
    tokens: HashMap<EventId, (u64, LeaseToken)>,
    /// In the order of leasing; also those that are no longer in `tokens`.
    order: VecDeque<(u64, EventId)>,
    /// The number of the last lease.
    last: u64,
}

impl HeldLeases {
    /// Remembers a lease; it replaces an earlier one of the same event.
    pub(in crate::bus) fn add(&self, token: &LeaseToken) {
        let mut state = self.0.lock();
        let State {
            tokens,
            order,
            last,
        } = &mut *state;
        let is_remembered = |tokens: &HashMap<_, (u64, _)>, (number, id): &(u64, EventId)| {
            tokens.get(id).is_some_and(|(its, _)| its == number)
        };
        if order.len() > 2 * tokens.len() + SPARE {
            order.retain(|lease| is_remembered(tokens, lease));
            order.shrink_to(2 * order.len() + SPARE);
        }
        if order.len() >= MAX
            && let Some(oldest) = order.pop_front()
            && is_remembered(tokens, &oldest)
        {
            tokens.remove(&oldest.1);
        }
        *last += 1;
        order.push_back((*last, token.id));
        tokens.insert(token.id, (*last, token.clone()));
    }

    /// Forgets the lease of an event and returns it.
    pub(in crate::bus) fn take(&self, id: EventId) -> Option<LeaseToken> {
        let mut state = self.0.lock();
        state.tokens.remove(&id).map(|(_, token)| token)
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

    #[test]
    fn leases_of_one_event_that_lapse_again_and_again_are_one_in_the_order() {
        let held = HeldLeases::default();
        for lease in 0..3 * 1_000 {
            held.add(&token(lease % 3));
        }
        let order = held.0.lock().order.len();
        assert!(order <= 2 * 3 + SPARE + 1, "{order} for three leases");
    }

    #[test]
    fn the_newest_lease_of_an_event_is_not_forgotten_for_an_older_one() {
        let held = HeldLeases::default();
        let many = MAX as u64 / 2;
        for lease in 0..2 * many {
            held.add(&token(lease % many));
        }
        held.add(&token(many));
        for number in [0, many - 1, many] {
            assert!(held.take(token(number).id).is_some(), "{number}");
        }
    }
}
