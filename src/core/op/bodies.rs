//! The bodies within replies, mapped to another form of them.

use crate::core::op::reply::{Fetched, Snapshot};
use crate::event::EventId;

impl<B> Fetched<B> {
    pub(super) fn try_map<C, E>(
        self,
        mut f: impl FnMut(EventId, B) -> Result<C, E>,
    ) -> Result<Fetched<C>, E> {
        let Self {
            deliveries,
            ready,
            next_due,
            crowd_due,
            full,
            holding,
            aside,
        } = self;
        let mapped = deliveries.into_iter();
        Ok(Fetched {
            deliveries: mapped
                .map(|delivery| delivery.try_map(&mut f))
                .collect::<Result<_, E>>()?,
            ready,
            next_due,
            crowd_due,
            full,
            holding,
            aside,
        })
    }
}

pub(super) fn each<B, C, E>(
    snapshots: Vec<Snapshot<B>>,
    mut f: impl FnMut(EventId, B) -> Result<C, E>,
) -> Result<Vec<Snapshot<C>>, E> {
    let mapped = snapshots.into_iter();
    mapped.map(|snapshot| snapshot.try_map(&mut f)).collect()
}

impl<B> Snapshot<B> {
    pub(super) fn try_map<C, E>(
        self,
        f: impl FnOnce(EventId, B) -> Result<C, E>,
    ) -> Result<Snapshot<C>, E> {
        let Self {
            id,
            state,
            due,
            tries,
            since,
            holder,
            request,
            until,
            body,
        } = self;
        let body = match body {
            Some(body) => Some(f(id, body)?),
            None => None,
        };
        Ok(Snapshot {
            id,
            state,
            due,
            tries,
            since,
            holder,
            request,
            until,
            body,
        })
    }
}
