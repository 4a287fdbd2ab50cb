//! From a stored payload to what a handler takes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::DeserializeOwned;

use crate::codec::{KeyRing, Opened, UNTOLD, Unopened};
use crate::event::Envelope;
use crate::flow::running::words;
use crate::handler::{OldPayload, Upgrade};

/// Why a stored payload is not what its handler takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is something else, in these words, and always will be.
    Undecodable(String),
    /// It is something else to this build, and of a version that a newer one has pushed.
    Newer(String),
    /// No key opens it.
    Undecryptable(String),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable(words) | Self::Newer(words) | Self::Undecryptable(words) => {
                f.write_str(words)
            }
        }
    }
}

/// How the payloads of one queue are read.
pub(crate) struct Reading<T> {
    pub(crate) keys: KeyRing,
    /// The version of `T`.
    pub(crate) version: u32,
    pub(crate) upgrade: Option<Upgrade<T>>,
}

impl<T: DeserializeOwned> Reading<T> {
    /// The value of an event.
    ///
    /// How a type is read is its author's to say, and what he says may panic.
    pub(crate) fn read(&self, envelope: &Envelope) -> Result<T, Unread> {
        let opened = self
            .keys
            .open(envelope.id, &envelope.queue, &envelope.payload);
        let opened = opened.map_err(|why| match &why {
            Unopened::Malformed(_) => Unread::Undecodable(format!("the payload: {why}")),
            Unopened::NoKey(_) | Unopened::Sealed(_) => {
                Unread::Undecryptable(format!("the payload cannot be decrypted: {why}"))
            }
        })?;
        let version = opened.version.unwrap_or(envelope.version);
        match &self.upgrade {
            Some(upgrade) if version < self.version => {
                let old = OldPayload::new(version, &opened);
                let upgraded = caught("its upgrade", || {
                    upgrade.of(old).map_err(|failure| failure.to_string())
                });
                upgraded.map_err(|why| {
                    Unread::Undecodable(format!(
                        "the payload of version {version} could not be upgraded: {why}"
                    ))
                })
            }
            _ => decoded(&opened).map_err(|why| match version > self.version {
                false => Unread::Undecodable(format!("the payload does not decode: {why}")),
                true => Unread::Newer(format!(
                    "the payload of version {version} does not decode here, where version {} is \
                     the newest: {why}",
                    self.version
                )),
            }),
        }
    }
}

fn decoded<T: DeserializeOwned>(opened: &Opened<'_>) -> Result<T, String> {
    let value = caught("its decoder", || {
        opened.decode().map_err(|error| error.to_string())
    });
    // A panic may quote what it was given.
    value.map_err(|why| match opened.is_sealed() {
        false => why,
        true => UNTOLD.to_owned(),
    })
}

/// What is read, or the words of what went wrong; the code of others may panic.
fn caught<T>(who: &str, read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read,
        Err(panic) => Err(format!("{who} panicked: {}", words(panic))),
    }
}
