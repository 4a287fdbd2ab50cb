//! The Redis store: many processes, many machines.

#![allow(dead_code)] // under construction

mod durable;
mod fault;
mod keys;
mod lane;
mod link;
mod options;
mod scripts;
mod topology;
mod url;

#[cfg(test)]
mod tests;
