//! The Redis store: many processes, many machines.

#![allow(dead_code)] // under construction

mod keys;
mod link;
mod scripts;
