//! The dashboard of a server: who may do what, and a visit by a browser.

mod access;
mod accessibility;
mod browser;
mod demo;
mod login;
mod pools;
