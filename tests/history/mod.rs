//! The checkers of histories.

mod account;
mod guide;
mod kit;
mod steps;
mod uniques;
mod written;
