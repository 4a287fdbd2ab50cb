//! Bytes and values: how an envelope lies in a file.

pub mod wire;
