//! The address of a listener.

use std::net::SocketAddr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Reads an address and a port; not a host name, which may have several addresses.
///
/// # Errors
///
/// The words for who wrote it.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.trim().parse().map_err(|_| {
        format!("`{text}` is no address with a port; write one such as 127.0.0.1:7777")
    })
}

pub(super) fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    address(&String::deserialize(from)?).map_err(D::Error::custom)
}
