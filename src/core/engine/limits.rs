//! The limits of what one operation may carry.

use std::time::Duration;

use crate::core::op::{BATCH_BYTES, BATCH_MAX};
use crate::error::{Error, Result};
use crate::record::BY_BYTES_MAX;

/// Rejects a list that is longer than an operation may carry.
pub(crate) fn bounded(what: &str, len: usize) -> Result<()> {
    if len > BATCH_MAX {
        return Err(Error::invalid(format!(
            "the operation carries {len} {what}; at most {BATCH_MAX} are allowed"
        )));
    }
    Ok(())
}

/// Rejects several payloads that together exceed the byte limit of an operation.
pub(crate) fn check_bytes(lens: impl ExactSizeIterator<Item = usize>) -> Result<()> {
    let many = lens.len();
    let bytes: usize = lens.sum();
    if many > 1 && bytes > BATCH_BYTES {
        return Err(Error::invalid(format!(
            "the operation carries {many} payloads with {bytes} bytes together; at most \
             {BATCH_BYTES} are allowed, split it"
        )));
    }
    Ok(())
}

/// Rejects too many spans, and spans that are not in ascending order.
pub(crate) fn check_spans(within: &[Duration]) -> Result<()> {
    bounded("spans", within.len())?;
    if within.is_sorted() {
        Ok(())
    } else {
        Err(Error::invalid(
            "the spans of a forecast are not in ascending order",
        ))
    }
}

/// Rejects an actor name that is longer than a record keeps.
pub(crate) fn check_by(by: Option<&str>) -> Result<()> {
    match by.map_or(0, str::len) {
        len if len > BY_BYTES_MAX => Err(Error::invalid(format!(
            "the actor name has {len} bytes; at most {BY_BYTES_MAX} are allowed"
        ))),
        _ => Ok(()),
    }
}
