//! The relay: hands committed events of an outbox to the store.

pub(crate) mod ends;
pub(crate) mod groups;
pub(crate) mod meters;
pub(crate) mod options;
pub(crate) mod push;
pub(crate) mod pushes;
pub(crate) mod report;
pub(crate) mod retries;
pub(crate) mod run;
pub(crate) mod settle;
pub(crate) mod source;
