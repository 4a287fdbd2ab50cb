//! Pushes under ids and into buckets that are fixed, however often they are repeated.

use crate::bus::payloads::EncodedValue;
use crate::bus::push::options::EventOptions;
#[cfg(feature = "schedules")]
use crate::bus::push::prepare::EventPlace;
use crate::bus::push::prepare::PreparedEvent;
use crate::bus::push::receipt::count;
use crate::bus::queue_handle::QueueHandle;
use crate::error::{ErrorKind, Result};
#[cfg(feature = "schedules")]
use crate::event::BucketId;
use crate::event::EventId;

impl QueueHandle {
    /// Pushes an event under an id that belongs to this push alone; whoever repeats it names the same
    /// bucket. Returns whether it was new: an event under the id, whatever its payload is now, is the
    /// one of an earlier try.
    #[cfg(feature = "schedules")]
    pub(in crate::bus) async fn push_placed(
        &self,
        (id, bucket): (EventId, BucketId),
        value: EncodedValue,
        options: EventOptions,
    ) -> Result<bool> {
        let now = self.inner.now();
        let durability = options.durability.or(self.inner.durability);
        let place = EventPlace {
            id,
            bucket,
            pushed: now,
        };
        let event = self.build(place, now, value, options)?;
        event.envelope.check(self.inner.payload_max(&self.name))?;
        let prepared = PreparedEvent {
            event,
            given: None, // so there is no value to compare with
            durability,
        };
        self.push_once(prepared).await
    }

    /// Pushes an event under a new id, in the bucket of its key.
    #[cfg(feature = "schedules")]
    pub(in crate::bus) async fn push_new(
        &self,
        value: EncodedValue,
        options: EventOptions,
    ) -> Result<EventId> {
        let prepared = self.prepare(value, options)?;
        let pushed = [self.push_prepared(prepared).await];
        count(&self.pushes, &pushed);
        let [pushed] = pushed;
        pushed.map(|receipt| receipt.id())
    }

    /// Pushes an event under an id that belongs to this push alone, in the bucket of the id. Returns
    /// whether it was new.
    pub(in crate::bus) async fn push_named(
        &self,
        id: EventId,
        value: EncodedValue,
        options: EventOptions,
    ) -> Result<bool> {
        let options = EventOptions {
            id: Some(id),
            ..options
        };
        let mut prepared = self.prepare(value, options)?;
        prepared.stamp();
        self.push_once(prepared).await
    }

    async fn push_once(&self, prepared: PreparedEvent) -> Result<bool> {
        let pushed = [self.push_again(prepared).await];
        count(&self.pushes, &pushed);
        let [pushed] = pushed;
        match pushed {
            Ok(receipt) => Ok(!receipt.is_duplicate()),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }
}
