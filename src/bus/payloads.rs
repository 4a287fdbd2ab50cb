//! Payloads on their way into the store, and out of it by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bus::{Inner, Queue, Receipt};
use crate::codec::{Form, KeyRing, encode};
use crate::core::op::NewEvent;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{EventId, Payload, QueueName};
use crate::flow::QueueOptions;
use crate::store::Durability;

/// Checks that there is a key for whatever is to be encrypted.
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
        "queue {queue}: encrypt is true, and no key is used for new payloads; give keys in the \
         section `encryption` of the settings and name one in `encryption.use`, or give the \
         builder a key ring and choose one"
    ))
}

impl Inner {
    /// What is stored of an encoded value, by what the queue's options say.
    pub(super) fn stored(
        &self,
        place: (EventId, &QueueName),
        options: &QueueOptions,
        version: Option<u32>,
        value: Vec<u8>,
    ) -> Result<Payload> {
        let form = Form {
            codec: options.codec,
            version,
        };
        let bytes = match options.encrypt {
            false => form.plain(value),
            true => {
                let sealed = self.keys.seal(place, form, &value);
                sealed.ok_or_else(|| no_key(place.1))?
            }
        };
        self.checked(Payload::from(bytes))
    }

    /// The same payload for the same event under another id: what is encrypted is bound to its id.
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

    /// A stored payload as a value.
    pub(super) fn value<T: DeserializeOwned>(
        &self,
        id: EventId,
        queue: &QueueName,
        payload: &Payload,
    ) -> Result<T> {
        value(&self.keys, id, queue, payload)
    }
}

/// A stored payload as a value, by these keys.
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
        Error::invalid(format!("the payload of event {id} is something else")).because(error)
    })
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// The bytes of a value, by the queue's codec.
    pub(super) fn encode(&self, payload: &T) -> Result<Vec<u8>> {
        encode_for(&self.name, &self.options, payload)
    }

    /// What is stored of an encoded value when it is pushed.
    pub(super) fn stored(&self, id: EventId, value: Vec<u8>) -> Result<Payload> {
        self.inner
            .stored((id, &self.name), &self.options, None, value)
    }

    /// What is stored of a value that takes the place of another one: the envelope says which
    /// version that was, so this says its own.
    pub(super) fn stored_as_update(&self, id: EventId, payload: &T) -> Result<Payload> {
        let value = self.encode(payload)?;
        let version = Some(self.options.version).filter(|version| *version > 0);
        self.inner
            .stored((id, &self.name), &self.options, version, value)
    }

    /// A payload as it is stored, of a [record](crate::records::Record) or a
    /// [snapshot](crate::store::operation::Snapshot), as a value: by its own codec, and by the keys of this
    /// bus where it is encrypted. It is not upgraded.
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

    /// Whether an event whose push met a conflict is there with the same value all the same: it may
    /// have been pushed before another key was chosen, or be stored as an update writes it. The store
    /// only knows bytes, so each form is shown to it; one that it knows changes nothing.
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
            let form = Form { codec, version };
            let place = (id, &self.name);
            let under = |key: String| self.inner.keys.seal_under(&key, place, form, value);
            let sealed = self.inner.keys.ids().into_iter().filter_map(under);
            // In clear it is not shown to the store where it was to be encrypted.
            let plain = (!self.options.encrypt).then(|| form.plain(value.to_vec()));
            for bytes in sealed.chain(plain) {
                if bytes == event.envelope.payload.as_bytes() {
                    continue; // that is the one that met the conflict
                }
                let mut event = event.clone();
                Arc::make_mut(&mut event.envelope).payload = Payload::from(bytes);
                events.push(event);
            }
        }
        for event in events {
            let pushed = self.push_given(id.bucket(), vec![event], wanted).await?;
            match pushed.into_iter().next() {
                Some(Ok(receipt)) => return Ok(Some(receipt)),
                Some(Err(error)) if error.kind() != ErrorKind::Conflict => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// The bytes of a value, by the codec of its queue.
pub(super) fn encode_for<T: Serialize + ?Sized>(
    queue: &QueueName,
    options: &QueueOptions,
    payload: &T,
) -> Result<Vec<u8>> {
    encode(options.codec, payload).map_err(|error| {
        Error::invalid(format!("queue {queue}: the payload cannot be encoded")).because(error)
    })
}
