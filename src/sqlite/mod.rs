//! The common part of all SQLite files of duly: their place, their owner, the errors when one
//! cannot be opened, and the tables of records, which a store and a journal both have.

mod kind;
mod overwriting;
mod sum;
mod version;

pub(crate) mod files;
pub(crate) mod lock;
pub(crate) mod records;
pub(crate) mod shortage;

pub(crate) use self::kind::{Kind, checkpoint_on_close};
pub(crate) use self::overwriting::{copy_log, overwrite_deleted};
pub(crate) use self::sum::Sum;
pub(crate) use self::version::says_size_of_log;
