//! Decoding: from a stored payload to the value that a handler takes.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::codec::{DecryptedPayload, KeyRing, OpenError, WITHHELD};
use crate::event::Envelope;
use crate::handler::{Failure, OldPayload, Upgrade};
use crate::panics;
use crate::record::ERROR_BYTES_MAX;

/// Why a stored payload could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// It never decodes; contains the reason.
    Undecodable(String),
    /// It does not decode in this build, but may in the newer one that has pushed it.
    Newer(String),
    /// No key decrypts it.
    Undecryptable(String),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable(words) | Self::Newer(words) | Self::Undecryptable(words) => {
                f.write_str(words)
            }
        }
    }
}

/// The payload decoder of one queue.
pub(crate) struct PayloadDecoder<T> {
    pub(crate) keys: KeyRing,
    /// The version of `T`.
    pub(crate) version: u32,
    pub(crate) upgrade: Option<Upgrade<T>>,
}

impl<T: DeserializeOwned> PayloadDecoder<T> {
    /// Decodes the value of an event.
    ///
    /// The decoder of a user's type may panic.
    pub(crate) fn read(&self, envelope: &Envelope) -> Result<T, DecodeError> {
        let opened = self
            .keys
            .open(envelope.id, &envelope.queue, &envelope.payload);
        let opened = opened.map_err(|why| match &why {
            OpenError::Malformed(_) => DecodeError::Undecodable(format!("the payload: {why}")),
            OpenError::Newer(_) => DecodeError::Newer(format!("the payload: {why}")),
            OpenError::NoKey(_) | OpenError::Sealed(_) => {
                DecodeError::Undecryptable(format!("the payload cannot be decrypted: {why}"))
            }
        })?;
        let version = opened.version.unwrap_or(envelope.version);
        if !opened.form().codec.is_built_in() {
            return Err(DecodeError::Newer(format!(
                "the payload is in {}, which this build does not have",
                opened.form().codec
            )));
        }
        match &self.upgrade {
            Some(upgrade) if version < self.version => {
                let old = OldPayload::new(version, &opened);
                let upgraded = caught("its upgrade", || {
                    let upgraded = upgrade.of(old).map_err(Failure::report);
                    upgraded.map_err(|failure| failure.text)
                });
                upgraded.map_err(|why| {
                    DecodeError::Undecodable(format!(
                        "the payload of version {version} could not be upgraded: {why}"
                    ))
                })
            }
            _ => decoded(&opened).map_err(|why| if version <= self.version { DecodeError::Undecodable(format!("the payload does not decode: {why}")) } else { DecodeError::Newer(format!(
                "the payload of version {version} does not decode here, where version {} is \
                 the newest: {why}",
                self.version
            )) }),
        }
    }
}

fn decoded<T: DeserializeOwned>(opened: &DecryptedPayload<'_>) -> Result<T, String> {
    let value = caught("its decoder", || {
        opened
            .decode()
            .map_err(|error| panics::text(&error, ERROR_BYTES_MAX))
    });
    // A panic may quote its input.
    value.map_err(|why| {
        if !opened.is_sealed() {
            why
        } else {
            WITHHELD.to_owned()
        }
    })
}

/// Runs foreign code; returns its value, or its error or panic as text.
fn caught<T>(who: &str, read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    panics::caught(read).unwrap_or_else(|message| Err(format!("{who} panicked: {message}")))
}
