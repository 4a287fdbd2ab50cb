//! Tests of dead letters: found, read, revived, edited and dropped, each with a record of its
//! actor.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

mod edited;
mod found;
mod journal;
mod kit;
mod redis;
mod shown;
mod stopped;
mod swept;
