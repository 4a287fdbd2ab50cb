//! Event histories, and checkers that compare them with the promises.
//!
//! A history is a list of [`Entry`]s, a JSON line each in a file: pushes and their results, handler
//! starts, records. Simulators, tests that kill real processes, and applications write the same
//! lines and have them checked by the same code.
//!
//! [`ClientChecker`] follows every event from its push to its last state, by the observations of pushers
//! and handlers and by the store's records, and returns a [`Report`]. [`Checker`] also reads the
//! store's operations, step by step, where they can be observed, and reports the first violation.
//!
//! The form of the report, counters that must be zero beside counters that must not, is that of
//! RabbitMQ's Jepsen tests.
//!
//! # Examples
//!
//! ```
//! use duly_conformance::history::{ClientChecker, lines};
//!
//! let history = r#"
//! {"at_us":1000,"store_us":1000,"id":"00000000000000000000000001","what":"push_asked","payload":7,"attempts":3}
//! {"at_us":2000,"store_us":2000,"id":"00000000000000000000000001","what":"push_answered","verdict":"accepted","payload":7,"due":5}
//! {"at_us":4000,"store_us":4000,"id":"00000000000000000000000001","what":"started","lease":{"node":1,"request":1},"attempt":1,"due":5,"payload":7}
//! "#;
//! let mut account = ClientChecker::new();
//! for entry in lines(history.as_bytes()) {
//!     account.read(&entry?);
//! }
//! let report = account.close();
//! assert_eq!((report.starts, report.early, report.unaccounted), (1, 1, 1));
//! println!("{report}");
//! # Ok::<(), duly::Error>(())
//! ```

mod attempt;
mod checker;
mod claims;
mod client_checker;
mod entry;
mod event_history;
mod expect;
mod line;
mod memory;
mod promise;
mod report;
mod timeline;
mod unique;

pub use self::checker::Checker;
pub use self::client_checker::ClientChecker;
pub use self::entry::{AttemptEnd, ChangeResult, Entry, EntryKind, PushResult};
pub use self::expect::Expect;
pub use self::line::lines;
pub use self::promise::{BrokenPromise, Promise};
pub use self::report::Report;
pub use duly::store::operation::Lease;
