//! Upgrades of payloads of older versions.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::codec::{Codec, DecryptedPayload};
use crate::error::{Error, Result};
use crate::handler::Failure;

/// A payload of an older version, as passed to an upgrade function.
///
/// # Examples
///
/// ```
/// use duly::OldPayload;
/// use duly::prelude::*;
///
/// /// Version 1 had whole euros.
/// #[derive(Serialize, Deserialize)]
/// struct V1 {
///     euros: u64,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Price {
///     cents: u64,
/// }
///
/// fn in_cents(old: OldPayload<'_>) -> Result<Price, Failure> {
///     let V1 { euros } = old.decode()?;
///     Ok(Price { cents: euros * 100 })
/// }
///
/// #[delay_event(queue = "prices", version = 2, upgrade = in_cents, register = false)]
/// async fn price(event: Event<Price>) -> Result<(), Failure> {
///     println!("{} cents", event.payload.cents);
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OldPayload<'a> {
    version: u32,
    opened: &'a DecryptedPayload<'a>,
}

impl<'a> OldPayload<'a> {
    pub(crate) fn new(version: u32, opened: &'a DecryptedPayload<'a>) -> Self {
        Self { version, opened }
    }

    /// The version that it was pushed with.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Its codec.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.opened.codec
    }

    /// Its encoded bytes, decrypted.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        &self.opened.value
    }

    /// Decodes it as the type that this version had.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is not a `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        self.opened.decode().map_err(|error| {
            Error::invalid(format!(
                "a payload of version {} does not decode: {error}",
                self.version
            ))
        })
    }
}

/// An upgrade function from an old payload to the current type.
pub struct Upgrade<T>(fn(OldPayload<'_>) -> Result<T, Failure>);

impl<T> Upgrade<T> {
    /// Wraps a function.
    #[must_use]
    pub const fn new(upgrade: fn(OldPayload<'_>) -> Result<T, Failure>) -> Self {
        Self(upgrade)
    }

    pub(crate) fn of(&self, old: OldPayload<'_>) -> Result<T, Failure> {
        (self.0)(old)
    }
}

impl<T> Clone for Upgrade<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Upgrade<T> {}

impl<T> fmt::Debug for Upgrade<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upgrade")
    }
}
