//! Where the replies to events lie.
//!
//! The first reply to an event has the unique key of the event; that of each other lease has the key of the
//! lease. So none replaces another, however late it comes, and who looks a reply up takes that of the lease
//! that ended the event. All of an event lie in one bucket and have one key.

use std::sync::Arc;
use std::time::Duration;

use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::own_queues::beside;
use crate::bus::queue::Queue;
use crate::codec::{Codec, Raw};
use crate::core::op::{
    BATCH_MAX, PeekBy, PeekCursor, PeekPage, RequestId, Snapshot, StoreOp, Unique,
};
use crate::error::Result;
use crate::event::{BucketId, Envelope, EventId, QueueName, REPLIES};
use crate::record::NodeId;
use crate::time::Timestamp;

/// The header of a reply with the time at which its event was pushed, in milliseconds.
const PUSHED_HEADER: &str = "duly-call-pushed";
/// The header of a reply with its lease. One of an earlier version may have none.
const LEASE_HEADER: &str = "duly-call-lease";

/// A lease: the node that holds it, and its fetch.
pub(super) type Lease = (NodeId, RequestId);

/// The place of the replies to an event.
pub(super) struct ReplyPlace {
    replies: Queue<Raw>,
    key: String,
}

impl ReplyPlace {
    /// The place of the replies to an event of a queue. Another queue may have an event of the same id.
    pub(super) fn of(inner: &Arc<Inner>, queue: &QueueName, id: EventId) -> Result<Self> {
        let replies = Bus::from_inside(Arc::clone(inner)).queue_named(&beside(queue, REPLIES))?;
        Ok(Self {
            replies: replies.with_codec(Codec::Raw).encrypted_as(queue),
            key: format!("{queue}/{id}"),
        })
    }

    /// Has the replies encrypted.
    pub(super) fn encrypted(mut self) -> Self {
        self.replies = self.replies.encrypted();
        self
    }

    pub(super) fn replies(&self) -> &Queue<Raw> {
        &self.replies
    }

    /// Stores the reply of a lease for a time, unless it has given one.
    pub(super) async fn put(
        &self,
        event: &Envelope,
        lease: Lease,
        kept: Duration,
        reply: &[u8],
    ) -> Result<()> {
        let (lease, event_pushed) = (text_of(lease), event.pushed.as_millis().to_string());
        let reply_under = |unique: String| {
            let event = self.replies.event(Raw::from(reply)).key(&self.key);
            let event = event.unique(unique, Unique::Keep);
            let event = event.header(PUSHED_HEADER, event_pushed.as_str());
            let event = event.header(LEASE_HEADER, &lease);
            event.after(kept).expires_after(kept)
        };
        let first = reply_under(self.key.clone()).push().await?;
        if !first.is_duplicate() {
            return Ok(());
        }
        // It may have gone since, and is none then.
        let first = self.under(self.key.clone()).await?;
        if first.as_ref().and_then(|it| header(it, LEASE_HEADER)) != Some(&lease) {
            let id = self.replies.new_id_for(&self.key);
            reply_under(self.key_of(&lease)).id(id).push().await?;
        }
        Ok(())
    }

    /// Looks up the reply of the lease that ended the event; the last of all where it is not known
    /// which did.
    pub(super) async fn find(&self, done_by: Option<Lease>) -> Result<Option<Snapshot>> {
        let first = self.under(self.key.clone()).await?;
        let Some(lease) = done_by.map(text_of) else {
            return Ok(self.last().await?.or(first));
        };
        let lease_of = |it: &Snapshot| header(it, LEASE_HEADER).cloned();
        if first.as_ref().and_then(lease_of).as_ref() == Some(&lease) {
            return Ok(first);
        }
        let own = self.under(self.key_of(&lease)).await?;
        Ok(own.or(first.filter(|it| lease_of(it).is_none())))
    }

    /// Removes the replies; with `before`, only those to an event that was pushed before that time.
    pub(super) async fn clear(&self, before: Option<Timestamp>) -> Result<()> {
        let is_meant = |found: &Snapshot| {
            let pushed = header(found, PUSHED_HEADER).and_then(|ms| ms.parse::<u64>().ok());
            before.is_none_or(|before| pushed.is_some_and(|ms| ms < before.as_millis()))
        };
        // One of an earlier version has the unique key alone.
        let mut found = Vec::from_iter(self.under(self.key.clone()).await?);
        let mut from = None;
        loop {
            let page = self.page(PeekBy::Key(self.key.clone()), from, BATCH_MAX);
            let page = page.await?;
            found.extend(page.events);
            for reply in found.drain(..).filter(is_meant) {
                let _ = self.replies.cancel(reply.id).await?; // one that has expired meanwhile is gone
            }
            from = page.next;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    fn key_of(&self, lease: &str) -> String {
        format!("{}/{lease}", self.key)
    }

    async fn under(&self, unique: String) -> Result<Option<Snapshot>> {
        let page = self.page(PeekBy::Unique(unique), None, 1).await?;
        Ok(page.events.into_iter().next())
    }

    /// Returns the last reply of all leases, of which the attempts of the event are the bound.
    async fn last(&self) -> Result<Option<Snapshot>> {
        let (mut last, mut from) = (None, None);
        loop {
            let page = self.page(PeekBy::Key(self.key.clone()), from, BATCH_MAX);
            let page = page.await?;
            let found = last.into_iter().chain(page.events);
            last = found.max_by_key(|it: &Snapshot| it.id.created());
            from = page.next;
            if from.is_none() {
                return Ok(last);
            }
        }
    }

    async fn page(&self, by: PeekBy, from: Option<PeekCursor>, limit: usize) -> Result<PeekPage> {
        let handle = &self.replies.handle;
        let bucket = handle.bucket(BucketId::of_text(&self.key, handle.buckets()));
        let peek = StoreOp::peek(by, from, limit);
        handle.inner.apply(&bucket, peek).await
    }
}

fn text_of((node, request): Lease) -> String {
    format!("{:x}-{request:x}", node.0)
}

fn header<'a>(found: &'a Snapshot, name: &str) -> Option<&'a String> {
    let mut headers = found.body.as_ref()?.headers.iter();
    headers.find(|(it, _)| it == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::When;

    #[tokio::test]
    async fn the_last_reply_of_more_leases_than_a_page_has_is_found() {
        let bus = Bus::builder().store_url("memory:").publish_only();
        let bus = bus.start().await.unwrap();
        let queue = bus.queue_named::<u64>("prices").unwrap();
        let id = queue.push(7, When::Now).await.unwrap().id();
        let event = queue.get(id).await.unwrap().unwrap().body.unwrap();
        let place = ReplyPlace::of(&bus.inner, queue.name(), id).unwrap();
        let put = async |request, reply: &str| {
            let (lease, kept) = ((NodeId(1), request), Duration::from_secs(300));
            place
                .put(&event, lease, kept, reply.as_bytes())
                .await
                .unwrap();
        };
        let many = BATCH_MAX as RequestId + 10;
        for request in 0..many {
            put(request, "early").await;
        }
        let before = bus.store_time();
        while bus.store_time() <= before {
            tokio::task::yield_now().await;
        }
        put(many, "late").await;
        let last = place.find(None).await.unwrap().unwrap();
        assert_eq!(
            header(&last, LEASE_HEADER),
            Some(&text_of((NodeId(1), many)))
        );
        bus.shutdown(Duration::from_secs(5)).await.unwrap();
    }
}
