//! A handle of a queue, whatever the type of its values.

use std::sync::Arc;

use crate::bus::inner::Inner;
use crate::bus::payloads::{EncodedValue, is_encrypted, version_over};
use crate::codec::PayloadForm;
use crate::error::Result;
use crate::event::{BucketId, BucketKey, Envelope, EventId, Payload, QueueName, is_audit};
use crate::flow::QueueOptions;
use crate::metrics::PushCounters;

/// A handle of a queue: what does not depend on the type of its values.
#[derive(Clone)]
pub(super) struct QueueHandle {
    pub(super) inner: Arc<Inner>,
    pub(super) name: QueueName,
    pub(super) options: Arc<QueueOptions>,
    /// Whether their version is that of the type of its values.
    pub(super) knows_version: bool,
    pub(super) pushes: Arc<PushCounters>,
}

impl QueueHandle {
    pub(super) fn new(inner: Arc<Inner>, name: QueueName) -> Self {
        let options = inner.options(&name);
        let knows_version = inner.knows_version(&name);
        let pushes = if is_audit(&name) {
            Arc::new(PushCounters::uncounted())
        } else {
            inner.push_meters.of_queue(&name)
        };
        Self {
            inner,
            name,
            options,
            knows_version,
            pushes,
        }
    }

    /// Returns the number of buckets for new events.
    pub(super) fn buckets(&self) -> u16 {
        self.inner.buckets(&self.name, &self.options)
    }

    pub(super) fn bucket(&self, bucket: BucketId) -> BucketKey {
        BucketKey::new(self.name.clone(), bucket)
    }

    /// Returns the stored form of an encoded value; `version` is that of a value whose envelope has
    /// another one.
    pub(super) fn stored(
        &self,
        id: EventId,
        value: EncodedValue,
        version: Option<u32>,
    ) -> Result<Payload> {
        let form = PayloadForm {
            codec: value.codec,
            version,
        };
        let place = (id, &self.name);
        self.inner
            .stored(place, form, self.options.encrypt, value.bytes)
    }

    /// Returns the stored form of an encoded value that replaces the payload of an event.
    pub(super) fn stored_over(
        &self,
        id: EventId,
        value: EncodedValue,
        replaced: Option<&Envelope>,
    ) -> Result<Payload> {
        let written = self.knows_version.then_some(self.options.version);
        let form = PayloadForm {
            codec: value.codec,
            version: replaced.and_then(|replaced| version_over(replaced, written)),
        };
        let encrypt = self.options.encrypt || replaced.is_some_and(is_encrypted);
        self.inner
            .stored((id, &self.name), form, encrypt, value.bytes)
    }
}
