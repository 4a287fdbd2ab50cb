//! Encoding and encryption of payloads, and decoding on request.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bus::{Inner, Queue, Receipt};
use crate::codec::{KeyRing, PayloadForm};
use crate::core::op::NewEvent;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{EventId, Payload, QueueName};
use crate::flow::QueueOptions;
use crate::store::Durability;

/// Checks that there is a key for every queue that is encrypted.
pub(super) fn check_encryption(
    keys: &KeyRing,
    defaults: &QueueOptions,
    queues: &BTreeMap<QueueName, Arc<QueueOptions>>,
) -> Result<()> {
    if keys.used().is_some() {
        return Ok(());
    }
    let encrypting = queues.iter().find(|(_, options)| options.encrypt);
    match encrypting {
        Some((queue, _)) => Err(no_key(queue)),
        None if defaults.encrypt => Err(no_key("(every one, by queue_defaults)")),
        None => Ok(()),
    }
}

fn no_key(queue: &str) -> Error {
    Error::invalid(format!(
        "queue {queue}: encrypt is true, and there is no active key; set keys in the section \
         `encryption` of the settings and one of them in `encryption.use`, or pass a key ring with \
         a chosen key to the builder"
    ))
}

impl Inner {
    /// Encodes the stored form of a value by the queue's options.
    pub(super) fn stored(
        &self,
        place: (EventId, &QueueName),
        options: &QueueOptions,
        version: Option<u32>,
        value: Vec<u8>,
    ) -> Result<Payload> {
        let form = PayloadForm {
            codec: options.codec,
            version,
        };
        let bytes = if !options.encrypt {
            form.plain(value)
        } else {
            let sealed = self.keys.seal(place, form, &value);
            sealed.ok_or_else(|| no_key(place.1))?
        };
        self.checked(Payload::from(bytes))
    }

    /// Re-encodes a payload for the same event under another id: an encrypted payload is bound to
    /// its id.
    pub(super) fn under_another_id(
        &self,
        payload: &Payload,
        queue: &QueueName,
        (old, new): (EventId, EventId),
    ) -> Result<Payload> {
        let opened = self.keys.open(old, queue, payload);
        let opened = opened.map_err(|why| Error::invalid(format!("event {new}: {why}")))?;
        if !opened.is_sealed() {
            return Ok(payload.clone());
        }
        let sealed = self.keys.seal((new, queue), opened.form(), &opened.value);
        Ok(Payload::from(sealed.ok_or_else(|| no_key(queue))?))
    }

    /// Decodes a stored payload.
    pub(super) fn value<T: DeserializeOwned>(
        &self,
        id: EventId,
        queue: &QueueName,
        payload: &Payload,
    ) -> Result<T> {
        value(&self.keys, id, queue, payload)
    }
}

/// Decodes a stored payload with these keys.
pub(super) fn value<T: DeserializeOwned>(
    keys: &KeyRing,
    id: EventId,
    queue: &QueueName,
    payload: &Payload,
) -> Result<T> {
    let opened = keys.open(id, queue, payload);
    let opened = opened
        .map_err(|why| Error::invalid(format!("the payload of event {id}: {why}")).because(why))?;
    opened.decode().map_err(|error| {
        Error::invalid(format!(
            "the payload of event {id} does not decode as the requested type"
        ))
        .because(error)
    })
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Returns the stored form of an encoded value when it is pushed.
    pub(super) fn stored(&self, id: EventId, value: Vec<u8>) -> Result<Payload> {
        self.inner
            .stored((id, &self.name), &self.options, None, value)
    }

    /// Returns the stored form of a value that replaces another: the envelope has the version of
    /// that one, so this includes its own.
    pub(super) fn stored_as_update(&self, id: EventId, payload: &T) -> Result<Payload> {
        let value = self.encode(payload)?;
        let version = Some(self.options.version).filter(|version| *version > 0);
        self.inner
            .stored((id, &self.name), &self.options, version, value)
    }

    /// Decodes a stored payload of a [record](crate::records::Record) or a
    /// [snapshot](crate::store::operation::Snapshot), by its own codec and with the keys of this bus. It is
    /// not upgraded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] when it is no `T`, or cannot be decrypted.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let id = queue.push(7, Duration::from_secs(60)).await?.id();
    /// let body = queue.get(id).await?.and_then(|found| found.body).expect("it waits");
    ///
    /// assert_eq!(queue.read_payload(id, &body.payload)?, 7);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn read_payload(&self, id: EventId, payload: &Payload) -> Result<T>
    where
        T: DeserializeOwned,
    {
        self.inner.value(id, &self.name, payload)
    }

    /// Returns whether the store has this event with the same value in another form: it may have
    /// been pushed under another key, or stored by an update. The store compares bytes, so each
    /// form is pushed; a duplicate changes nothing.
    pub(super) async fn same_in_another_form(
        &self,
        event: &NewEvent,
        value: &[u8],
        wanted: Option<Durability>,
    ) -> Result<Option<Receipt>> {
        let id = event.envelope.id;
        let mut events = Vec::new();
        for version in [None, Some(self.options.version)] {
            let codec = self.options.codec;
            let form = PayloadForm { codec, version };
            let place = (id, &self.name);
            let under = |key: String| self.inner.keys.seal_under(&key, place, form, value);
            let sealed = self.inner.keys.ids().into_iter().filter_map(under);
            // A value to be encrypted is never sent to the store in clear.
            let plain = (!self.options.encrypt).then(|| form.plain(value.to_vec()));
            for bytes in sealed.chain(plain) {
                if bytes == event.envelope.payload.as_bytes() {
                    continue; // that form met the conflict
                }
                let mut event = event.clone();
                Arc::make_mut(&mut event.envelope).payload = Payload::from(bytes);
                events.push(event);
            }
        }
        for event in events {
            let pushed = self
                .push_given(event.envelope.bucket(), vec![event], wanted)
                .await?;
            match pushed.into_iter().next() {
                Some(Ok(receipt)) => return Ok(Some(receipt)),
                Some(Err(error)) if error.kind() != ErrorKind::Conflict => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }
}
