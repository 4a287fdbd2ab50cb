//! The events of a key that are not over.

use std::sync::Arc;

use futures_util::StreamExt;

use crate::bus::call::stored_replies;
use crate::bus::erasure::{Erasure, ErasureReport};
use crate::bus::events::StoredEvent;
use crate::bus::fan_out::in_order;
use crate::bus::handle::Bus;
use crate::core::op::{BATCH_MAX, CancelOutcome, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, State};

/// The most pages of one step.
const PAGES_MAX: usize = 10;

/// What became of an event.
enum Ended {
    Cancelled,
    Dropped,
    /// It runs.
    Stays,
    /// It ended meanwhile.
    Gone,
}

impl Erasure {
    /// Refuses if events wait.
    pub(super) async fn refuse_if_some_wait(&self) -> Result<()> {
        let bus = Bus::from_inside(Arc::clone(&self.inner));
        let mut place = None;
        for _ in 0..PAGES_MAX {
            let events = bus.events().key(&self.key).limit(BATCH_MAX).after(place);
            let page = events.page().await?;
            let waits = |event: &&StoredEvent| {
                matches!(event.state, State::Scheduled | State::Ready) && self.selects(&event.queue)
            };
            let waiting = page.items.iter().filter(waits).count();
            if waiting > 0 {
                return Err(Self::conflict(waiting));
            }
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Ends what is not over; returns whether it came to the last event.
    pub(super) async fn end_events(&self, report: &mut ErasureReport) -> Result<bool> {
        let bus = Bus::from_inside(Arc::clone(&self.inner));
        let mut place = None;
        for _ in 0..PAGES_MAX {
            let events = bus.events().key(&self.key).limit(BATCH_MAX).after(place);
            let page = events.page().await?;
            let selected = page.items.iter().filter(|it| self.selects(&it.queue));
            let mut ends = in_order(selected.map(|event| self.end(event)));
            while let Some(ended) = ends.next().await {
                match ended? {
                    Ended::Cancelled => report.cancelled += 1,
                    Ended::Dropped => report.dropped += 1,
                    Ended::Stays => report.running += 1,
                    Ended::Gone => {}
                }
            }
            place = page.next;
            if place.is_none() {
                return Ok(true);
            }
        }
        // What runs stays where it is, so a step that ends nothing must not be repeated.
        Ok(self.dry_run || report.cancelled + report.dropped == 0)
    }

    async fn end(&self, event: &StoredEvent) -> Result<Ended> {
        let may_cancel = self.cancels;
        let ended = match event.state {
            State::Dead if self.dry_run => Ended::Dropped,
            State::Scheduled | State::Ready if self.dry_run => Ended::Cancelled,
            State::Dead => {
                let bucket = BucketKey::new(event.queue.clone(), event.bucket());
                let drop = StoreOp::drop_dead(vec![event.id], self.by.clone());
                match self.inner.apply(&bucket, drop).await? {
                    0 => Ended::Gone,
                    _ => Ended::Dropped,
                }
            }
            State::Scheduled | State::Ready if may_cancel => match event.cancel().await? {
                CancelOutcome::Cancelled => Ended::Cancelled,
                // It is cancelled if this attempt fails, and runs until then.
                CancelOutcome::CancelledAfterAttempt | CancelOutcome::TooLate(State::Leased) => {
                    Ended::Stays
                }
                _ => Ended::Gone,
            },
            // It was pushed since those that wait were looked for.
            State::Scheduled | State::Ready => return Err(Self::pushed_meanwhile()),
            State::Leased => Ended::Stays,
            _ => Ended::Gone,
        };
        if !self.dry_run {
            stored_replies::forget(&self.inner, &event.queue, event.id).await?;
        }
        Ok(ended)
    }
}
