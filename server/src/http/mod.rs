//! The HTTP part that all interfaces share: listeners, bodies, request ids, the access log.

pub(crate) mod access_log;
pub(crate) mod body;
mod connections;
pub(crate) mod defaults;
pub(crate) mod listener;
pub(crate) mod peer;
pub(crate) mod reply;
pub(crate) mod tls;
pub(crate) mod unread;
pub(crate) mod waits;
pub(crate) mod whole;
