//! MySQL and MariaDB: the relay's source.
//!
//! A row is claimed when it is committed, and deleted once the store has it; nothing depends on the
//! order of numbers, as a row with a smaller one may commit later. Rows are changed by their primary
//! keys alone and each statement reads what is committed, so that a relay locks no gap, and waits for
//! no transaction of the user's.

mod deferred;
mod identity;
mod read_start;
mod rows;
mod session;
pub(crate) mod source;
mod sql;
