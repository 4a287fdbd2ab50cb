//! Tests of the history checkers.

mod account;
mod guide;
mod kit;
mod steps;
mod uniques;
mod written;
