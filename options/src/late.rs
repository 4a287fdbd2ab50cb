//! The grammar of lateness policies: `deliver`, `expire(5m)`, `bury(5m)`.

use std::time::Duration;

use crate::duration::{ParseDurationError, parse as duration};

/// What would be right instead of a text that is no lateness policy.
pub const EXPECTED: &str = "`deliver`, `expire(5m)` or `bury(5m)`";

/// A parsed lateness policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Deliver it anyway.
    Deliver,
    /// Expire it if it is later than this.
    Expire(Duration),
    /// Bury it if it is later than this.
    Bury(Duration),
}

/// Parses the text of a policy; `None` if it has none of the forms.
///
/// # Errors
///
/// The error of its duration.
pub fn parse(text: &str) -> Result<Option<Late>, ParseDurationError> {
    let limit = |form: &str| {
        text.strip_prefix(form)?
            .strip_prefix('(')?
            .strip_suffix(')')
    };
    if text == "deliver" {
        Ok(Some(Late::Deliver))
    } else if let Some(limit) = limit("expire") {
        duration(limit).map(|limit| Some(Late::Expire(limit)))
    } else if let Some(limit) = limit("bury") {
        duration(limit).map(|limit| Some(Late::Bury(limit)))
    } else {
        Ok(None)
    }
}
