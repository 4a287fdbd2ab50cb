//! The leases that a node knows of in one bucket, by fetch.

use std::collections::BTreeMap;

use crate::core::op::{BATCH_MAX, Holding, RequestId};
use crate::event::EventId;

/// Leases that were fetched and are not known to be settled.
///
/// The store's count can only be smaller: it ends a lease before this node learns of it. If the
/// store counts more, it has forgotten settlements, because it failed over to a server without the
/// last writes. Calls in flight and late or repeated replies never look like that.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    batches: BTreeMap<RequestId, FetchedBatch>,
    held: usize,
    /// The last fetch that got a reply.
    answered: RequestId,
}

/// The leases of one fetch.
#[derive(Debug)]
struct FetchedBatch {
    ids: Vec<EventId>,
    /// The settled part of `ids`.
    ended: Vec<EventId>,
}

/// A statement of the leases of some fetches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) from: RequestId,
    pub(crate) through: RequestId,
    pub(crate) held: Vec<(RequestId, Vec<EventId>)>,
}

impl Holdings {
    /// Adds the leases of a fetch.
    pub(crate) fn fetched(&mut self, request: RequestId, ids: Vec<EventId>) {
        self.answered = self.answered.max(request);
        if !ids.is_empty() {
            self.held += ids.len();
            let ended = Vec::new();
            self.batches.insert(request, FetchedBatch { ids, ended });
        }
    }

    /// Removes an event that was settled, or refused as lost.
    pub(crate) fn ended(&mut self, request: RequestId, id: EventId) {
        let Some(batch) = self.batches.get_mut(&request) else {
            return; // the store has forgotten the fetch
        };
        self.held = self.held.saturating_sub(1);
        batch.ended.push(id);
        if batch.ended.len() >= batch.ids.len() {
            self.batches.remove(&request);
        } else if batch.ended.len() > batch.ids.len() / 2 {
            batch.ids = batch.left();
            batch.ended.clear();
        }
    }

    /// Returns whether an event is leased; a linear search.
    pub(crate) fn has(&self, id: EventId) -> bool {
        self.batches
            .values()
            .any(|batch| batch.left().contains(&id))
    }

    /// Returns the number of leases.
    pub(crate) fn len(&self) -> usize {
        self.held
    }

    /// The last fetch that got a reply.
    pub(crate) fn last_fetch(&self) -> RequestId {
        self.answered
    }

    /// Returns the count and the last fetch.
    pub(crate) fn total(&self) -> Holding {
        Holding {
            leases: self.held,
            last: self.answered,
        }
    }

    /// Drops the leases of fetches after `last` that had a reply before the call was sent, that is,
    /// up to `known`. The store has forgotten those fetches and hands the events out again.
    pub(crate) fn forget_after(&mut self, last: RequestId, known: RequestId) {
        if last < known {
            self.batches.retain(|request, batch| {
                let stays = *request <= last || *request > known;
                if !stays {
                    let left = batch.ids.len().saturating_sub(batch.ended.len());
                    self.held = self.held.saturating_sub(left);
                }
                stays
            });
        }
    }

    /// Returns the leases of the fetches from `from` on, as many as fit into one operation. All of
    /// them got a reply.
    pub(crate) fn statement(&self, from: RequestId) -> Statement {
        let (mut held, mut room) = (Vec::new(), BATCH_MAX);
        let mut through = self.answered;
        let mut last = from;
        for (request, batch) in self.batches.range(from..) {
            let ids = batch.left();
            if ids.len() > room {
                through = last; // one fetch always fits into one operation
                break;
            }
            room -= ids.len();
            last = *request;
            held.push((*request, ids));
        }
        Statement {
            from,
            through,
            held,
        }
    }
}

impl FetchedBatch {
    /// Returns the leases that are not settled.
    fn left(&self) -> Vec<EventId> {
        let mut ended = self.ended.clone();
        ended.sort_unstable();
        let ids = self.ids.iter().copied();
        ids.filter(|id| ended.binary_search(id).is_err()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::BucketId;
    use crate::time::Timestamp;

    fn ids(numbers: std::ops::Range<u64>) -> Vec<EventId> {
        let id = |number| EventId::from_parts(Timestamp::EPOCH, BucketId(0), number);
        numbers.map(id).collect()
    }

    #[test]
    fn what_is_settled_in_any_order_is_held_no_more() {
        let mut holdings = Holdings::default();
        let all = ids(0..100);
        holdings.fetched(3, all.clone());
        for (count, id) in all.iter().rev().enumerate() {
            assert_eq!(holdings.len(), 100 - count);
            let left = &holdings.statement(0).held[0];
            assert_eq!(*left, (3, all[..100 - count].to_vec()));
            holdings.ended(3, *id);
        }
        assert_eq!(holdings.total(), Holding { leases: 0, last: 3 });
        assert_eq!(holdings.statement(0).held, []);
    }

    #[test]
    fn a_statement_is_bounded_and_the_next_one_goes_on_behind_it() {
        let mut holdings = Holdings::default();
        for request in 1..=3_u64 {
            let first = request * 600;
            holdings.fetched(request, ids(first..first + 600));
        }
        let mut from = 0;
        for request in 1..=3_u64 {
            let statement = holdings.statement(from);
            let requests: Vec<_> = statement.held.iter().map(|(request, _)| *request).collect();
            assert_eq!((requests, statement.through), (vec![request], request));
            from = statement.through + 1;
        }
        assert_eq!(holdings.statement(from).held, []);
    }

    #[test]
    fn what_a_forgotten_fetch_brought_is_in_no_account() {
        let mut holdings = Holdings::default();
        for request in [2, 4, 6] {
            holdings.fetched(request, ids(request * 10..request * 10 + 10));
        }
        holdings.forget_after(4, 4);
        assert_eq!(holdings.len(), 30, "it knows all that it knew");
        holdings.forget_after(3, 4);
        assert_eq!(holdings.len(), 20, "the last one came after the question");
        holdings.ended(4, ids(40..41)[0]);
        assert_eq!(
            holdings.len(),
            20,
            "an end of what is forgotten ends nothing"
        );
    }
}
