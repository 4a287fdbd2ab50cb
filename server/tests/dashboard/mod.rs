//! The dashboard of a server: who may do what, and a visit by a browser.

pub(crate) mod access;
mod accessibility;
mod acting;
mod audited;
mod browser;
mod checks;
mod demo;
mod foreign;
mod login;
mod pools;
mod states;
mod walk;
