//! SQLite: the relay's source, and the driver.

pub(crate) mod deferred;
pub(crate) mod driver;
pub(crate) mod source;
