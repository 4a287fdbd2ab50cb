//! The events of a key that are not over.

use std::sync::Arc;

use futures_util::StreamExt;

use crate::bus::call::stored_replies;
use crate::bus::erasure::{Erasure, ErasureReport};
use crate::bus::events::StoredEvent;
use crate::bus::fan_out::in_order;
use crate::bus::handle::Bus;
use crate::bus::scan::EventCursor;
use crate::core::op::{BATCH_MAX, CancelOutcome, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, QueueName, State};
use crate::record::Page;

/// The most pages of one step.
const PAGES_MAX: usize = 10;
/// How often an event that changes meanwhile is looked at.
const TRIES_MAX: usize = 4;

/// What became of an event.
enum ErasedEvent {
    Cancelled,
    Dropped,
    /// It runs.
    Stays,
    /// It ended meanwhile.
    Gone,
}

impl Erasure {
    /// Looks for events that wait, and refuses if some do; returns where the next look goes on.
    pub(super) async fn look(&self, mut place: Option<EventCursor>) -> Result<Option<EventCursor>> {
        let queues = self.queues().await?;
        let mut waiting = 0;
        for _ in 0..PAGES_MAX {
            let page = self.event_page(&queues, place).await?;
            let waits = |it: &&StoredEvent| matches!(it.state, State::Scheduled | State::Ready);
            waiting += page.items.iter().filter(waits).count();
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        match waiting {
            0 => Ok(place),
            _ => Err(Self::conflict(waiting, place.is_none())),
        }
    }

    /// Ends what is not over; returns where the next step goes on.
    pub(super) async fn end_events(
        &self,
        mut place: Option<EventCursor>,
        report: &mut ErasureReport,
    ) -> Result<Option<EventCursor>> {
        let queues = self.queues().await?;
        for _ in 0..PAGES_MAX {
            let page = self.event_page(&queues, place).await?;
            let mut ends = in_order(page.items.iter().map(|event| self.end(event)));
            while let Some(ended) = ends.next().await {
                match ended? {
                    ErasedEvent::Cancelled => report.cancelled += 1,
                    ErasedEvent::Dropped => report.dropped += 1,
                    ErasedEvent::Stays => report.running += 1,
                    ErasedEvent::Gone => {}
                }
            }
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        Ok(place)
    }

    /// Returns the queues that may have such events. Those of others are not even read: many of them
    /// would delay this one, and a cursor would name them.
    async fn queues(&self) -> Result<Vec<QueueName>> {
        let bus = Bus::from_inside(Arc::clone(&self.inner));
        let mut queues = bus.queues().await?;
        queues.retain(|queue| self.selects(queue));
        Ok(queues)
    }

    async fn event_page(
        &self,
        queues: &[QueueName],
        place: Option<EventCursor>,
    ) -> Result<Page<StoredEvent, EventCursor>> {
        if queues.is_empty() {
            return Ok(Page::new(Vec::new(), None));
        }
        let bus = Bus::from_inside(Arc::clone(&self.inner));
        let events = bus.events().key(&self.key).limit(BATCH_MAX).after(place);
        let events = queues
            .iter()
            .fold(events, |events, name| events.queue(name));
        events.page().await
    }

    async fn end(&self, event: &StoredEvent) -> Result<ErasedEvent> {
        let bucket = BucketKey::new(event.queue.clone(), event.bucket());
        let (mut state, mut ended) = (event.state, None);
        for _ in 0..TRIES_MAX {
            ended = self.end_as(state, event, &bucket).await?;
            if ended.is_some() {
                break;
            }
            let found = self.inner.apply(&bucket, StoreOp::get(event.id)).await?;
            state = found.map_or(State::Done, |it| it.state);
        }
        if !self.dry_run {
            stored_replies::forget(&self.inner, &event.queue, event.id, None).await?;
        }
        Ok(ended.unwrap_or(ErasedEvent::Stays))
    }

    /// Ends an event in a state; returns `None` if it was dead and is not any more, or the other way
    /// round.
    async fn end_as(
        &self,
        state: State,
        event: &StoredEvent,
        bucket: &BucketKey,
    ) -> Result<Option<ErasedEvent>> {
        let may_cancel = self.cancels;
        Ok(Some(match state {
            State::Dead if self.dry_run => ErasedEvent::Dropped,
            State::Scheduled | State::Ready if self.dry_run => ErasedEvent::Cancelled,
            State::Dead => {
                let drop = StoreOp::drop_dead(vec![event.id], self.by.clone());
                match self.inner.apply(bucket, drop).await? {
                    0 => return Ok(None),
                    _ => ErasedEvent::Dropped,
                }
            }
            State::Scheduled | State::Ready if may_cancel => match event.cancel().await? {
                CancelOutcome::Cancelled => ErasedEvent::Cancelled,
                // It is cancelled if this attempt fails, and runs until then.
                CancelOutcome::CancelledAfterAttempt | CancelOutcome::TooLate(State::Leased) => {
                    ErasedEvent::Stays
                }
                CancelOutcome::TooLate(State::Dead) => return Ok(None),
                _ => ErasedEvent::Gone,
            },
            // It waits since those that wait were looked for.
            State::Scheduled | State::Ready => return Err(Self::pushed_meanwhile()),
            State::Leased => ErasedEvent::Stays,
            _ => ErasedEvent::Gone,
        }))
    }
}
