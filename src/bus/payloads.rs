//! Encoding and encryption of payloads, and decoding on request.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::bus::inner::Inner;
use crate::codec::{Codec, Frame, KeyRing, PayloadForm};
use crate::error::{Error, Result};
use crate::event::{Envelope, EventId, Payload, QueueName};
use crate::flow::QueueOptions;

/// A value as its codec has encoded it.
#[derive(Clone)]
pub(super) struct EncodedValue {
    pub(super) codec: Codec,
    pub(super) bytes: Vec<u8>,
}

impl EncodedValue {
    /// Moves the value out, and leaves an empty one.
    pub(super) fn take(&mut self) -> Self {
        Self {
            codec: self.codec,
            bytes: std::mem::take(&mut self.bytes),
        }
    }
}

/// Whether the stored payload of an event is encrypted.
pub(super) fn is_encrypted(event: &Envelope) -> bool {
    Frame::read(event.payload.as_bytes()).is_ok_and(|frame| frame.key_id.is_some())
}

/// Returns the version of the stored payload of an event: that of its last update or edit, if it
/// names one, or that of its push.
pub(super) fn version_of(event: &Envelope) -> u32 {
    let frame = Frame::read(event.payload.as_bytes()).ok();
    frame.and_then(|it| it.version).unwrap_or(event.version)
}

/// Returns the version that a payload over that of `replaced` has to name, if it is not the
/// envelope's. Who does not know the type wrote in the version that was there: `written` is `None`.
pub(super) fn version_over(replaced: &Envelope, written: Option<u32>) -> Option<u32> {
    let version = written.unwrap_or_else(|| version_of(replaced));
    Some(version).filter(|version| *version != replaced.version)
}

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
        "queue {queue}: encrypt is true or an event is encrypted, and there is no active key; set \
         keys in the section `encryption` of the settings and one of them in `encryption.use`, or \
         pass a key ring with a chosen key to the builder"
    ))
}

impl Inner {
    /// Returns the stored form of an encoded value.
    pub(super) fn stored(
        &self,
        place: (EventId, &QueueName),
        form: PayloadForm,
        encrypt: bool,
        value: Vec<u8>,
    ) -> Result<Payload> {
        let bytes = if !encrypt {
            form.plain(value)
        } else {
            let sealed = self.keys.seal(place, form, &value);
            sealed.ok_or_else(|| no_key(place.1))?
        };
        self.checked(place.1, Payload::from(bytes))
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
