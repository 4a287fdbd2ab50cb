//! The embedded store: one SQLite file, one process, durable when `push` returns.
//!
//! ```text
//!  caller ----> the engine decides ------> pending changes ----> writer: one transaction
//!    ^          (in memory, bucket locked)    (in that order)             |  for all of them
//!    `----------------------- answered when it is on disk <---------------'
//! ```
//!
//! The live state is core's engine in memory, with row numbers where the memory store has
//! envelopes; the file only remembers what it decided: a table of events in order of arrival, and
//! those of records, written in the same transaction and read by queries where they are
//! (`sqlite/records`). Leases are not written: at a new start everything that was not settled is ready
//! again.
//!
//! Beside `name.db` lie SQLite's own `-wal` and `-shm`; `-lock`, whose lock says which process has
//! it open, as that of the file itself does; `-starts`, the notes of handlers that started, and the
//! file that takes its place next; and `-reserve`, room for the time when the disk is full.

mod added;
mod bodies;
mod cache;
mod change;
mod change_recorder;
mod check;
mod closing;
mod commit;
mod compaction;
mod controls;
mod counts;
mod file;
mod interrupted;
mod log;
mod log_size;
mod maintenance;
pub(crate) mod mapped;
mod notes;
mod options;
mod pending;
mod reader;
pub(crate) mod recovery;
mod retention;
pub(crate) mod row;
mod rows;
pub(crate) mod schema;
mod shared;
mod space;
mod sqlite;
pub(crate) mod starts;
mod stop;
mod store;
pub(crate) mod sums;
mod sweep;
mod table;
mod ticket;
mod tombstones;
mod uniques;
mod upkeep;
mod writer;

pub use self::options::EmbeddedOptions;
pub use self::reader::DamagedRow;
pub use self::store::EmbeddedStore;
