//! Unit tests with real servers and a fake one.

mod apart;
mod changed;
mod checks;
mod scripts;
mod subscription;

use super::link::tests::{open, pretend, servers, words};
