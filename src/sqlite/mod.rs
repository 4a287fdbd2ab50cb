//! What every SQLite file of duly has in common: where it lies, whose it is, and what it means when
//! it cannot be opened. What is in it is the business of the room that opens it.

mod kind;

pub(crate) mod files;

pub(crate) use self::kind::{Kind, checkpoint_on_close};
