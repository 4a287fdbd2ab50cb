//! Connections to the servers of a URL: they know the servers, and nothing of events.

pub(super) mod call_queues;
pub(crate) mod client;
pub(super) mod fault;
pub(super) mod functions;
mod health;
pub(super) mod libraries;
mod live_connection;
pub(super) mod managed;
pub(super) mod masters;
pub(super) mod options;
pub(crate) mod preflight;
pub(super) mod reads;
pub(crate) mod script;
pub(super) mod startup;
pub(super) mod subscription;
#[cfg(test)]
pub(super) mod tests;
pub(crate) mod topology;
pub(crate) mod url;
