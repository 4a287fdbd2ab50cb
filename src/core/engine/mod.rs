//! The engine: the executable semantics of the store contract, in packed form.
//!
//! A [`Bucket`] is a value that decides, and sends its changes to a
//! [`ChangeSink`](crate::core::op::ChangeSink). The memory store is
//! this bucket behind a lock, the embedded store is this bucket with a sink that writes a file, and
//! every other store is compared with it.
//!
//! ```text
//!              push                 move due                fetch
//!  (held) --> scheduled (by due) --------------> ready (list) -------> leased (by node, deadline)
//!                  ^                                ^                         |
//!                  '------- retry, snooze ----------+---- release, reap ------+
//!                                                   |                         v
//!                                        revive ----'------- dead <------- settle ---> dedup
//! ```
//!
//! An event is an entry in the one map of events, and its id is in exactly one index, that of its
//! place; one that waits and expires is also in the expiry index. An event that ends leaves the map; its id stays in `dedup`, the dedup window, for a while.
//! The ready list is the publish list of the design.

mod bucket;
mod change;
mod check;
mod counts;
mod dedup;
mod dense;
mod entry;
mod expire;
mod expiry;
mod fetch;
mod freeing;
mod leases;
mod limits;
mod node;
mod push;
mod read;
mod reap;
mod restore;
mod settle;
mod tombstones;
mod unique;
mod waiting;
mod window;

pub use self::bucket::{Bucket, Head};
#[cfg(feature = "redis")]
pub(crate) use self::limits::{bounded, check_by, check_bytes, check_spans};
pub use self::restore::Restored;
#[cfg(feature = "redis")]
pub(crate) use self::window::FORGET_MAX;
pub use self::window::{DedupWindow, ID_AHEAD_MAX, KEEP_FOR};
pub use crate::core::op::{ForgottenIds, LastSettlement, Tombstone};
