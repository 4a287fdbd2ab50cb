//! Unit tests with real servers and a fake one.

mod checks;
mod scripts;
mod subscription;

use super::link::tests::{open, pretend, servers, words};
