//! Codecs, encryption and upgrades, on structs and on functions.

#![deny(warnings, missing_docs, missing_debug_implementations, unsafe_code)]

use std::num::ParseIntError;

use duly::codec::{Codec, Raw};
use duly::{Annotated, OldPayload};
use duly::{Context, Event, Failure, Handler, delay_event};

/// Bytes as they are, encrypted.
#[delay_event(queue = "raw", codec = "raw", encrypt = true)]
pub async fn images(event: Event<Raw>) -> Result<(), Failure> {
    let _ = event.payload.len();
    Ok(())
}

fn of_text(old: OldPayload<'_>) -> Result<u64, Failure> {
    let text: String = old.decode()?;
    Ok(text.parse()?)
}

/// A function whose upgrade says by itself how it fails.
#[delay_event(queue = "upgraded", version = 2, upgrade = of_text)]
pub async fn upgraded(event: Event<u64>) -> Result<(), Failure> {
    let _ = event.payload;
    Ok(())
}

mod older {
    use super::{OldPayload, ParseIntError};

    pub(crate) fn of_bytes(old: OldPayload<'_>) -> Result<Vec<u8>, ParseIntError> {
        let version: u8 = old.version().to_string().parse()?;
        Ok(vec![version])
    }
}

/// A struct whose upgrade fails with an error of its own and lies elsewhere.
#[delay_event(queue = "elsewhere", version = 1, upgrade = older::of_bytes, codec = "json")]
#[derive(Debug)]
pub struct Elsewhere;

impl Handler for Elsewhere {
    type Payload = Vec<u8>;

    async fn handle(&self, _event: Event<Vec<u8>>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

fn main() {
    assert_eq!(images::ANNOTATION.codec, Some(Codec::Raw));
    assert_eq!(images::ANNOTATION.encrypt, Some(true));
    assert!(images::UPGRADE.is_none());
    assert!(upgraded::UPGRADE.is_some());
    assert!(Elsewhere::UPGRADE.is_some());
}
