//! Unit tests with real servers and a fake one.

mod checks;
mod subscription;

use super::link::tests::{open, pretend, servers, words};
