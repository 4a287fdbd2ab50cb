//! The tables of records and the queries on them, shared by the embedded store and the journal in a
//! file.
//!
//! ```text
//!  load, prune ──> in a transaction of whoever writes ──> records, minutes, parts
//!  page, minutes ──> one index, named in the statement ──> a bounded number of rows
//! ```

mod conditions;
mod erasing;
mod load;
mod minutes;
mod newest;
mod paging;
mod parts;
mod pruning;
mod queue_names;
mod rows;
mod tables;
mod tenths;
mod views;
mod words;

pub(crate) use self::erasing::erase;
pub(crate) use self::load::{Arrival, Load, QueueNumbers};
pub(crate) use self::newest::read_newest;
pub use self::paging::Reader;
pub(crate) use self::parts::{oldest_number, total};
pub(crate) use self::pruning::{RECORDS_MAX, prune};
pub use self::rows::{COLUMNS, sum_of_row};
pub(crate) use self::tables::{TABLES, complete, create};
