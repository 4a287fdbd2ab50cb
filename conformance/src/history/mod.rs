//! Histories, and the checkers that hold them against what is promised.
//!
//! A history is a list of [`Entry`]s, a JSON line each in a file: who pushed what and was told
//! what, which handler started when, which records were written. Simulators, tests that kill real
//! processes, and anybody who wants to know write the same lines and have them checked by the same
//! code.
//!
//! [`Account`] follows every event from its push to its last state, by what pushers and handlers
//! saw and what the store's records say; it ends in a [`Report`]. [`Checker`] also reads what the
//! store did, step by step, where somebody could watch it, and names the first step that does not
//! fit.
//!
//! The form of the report, counters that must be zero beside counters that must not, is that of
//! RabbitMQ's Jepsen tests.
//!
//! # Examples
//!
//! ```
//! use duly_conformance::history::{Account, lines};
//!
//! let history = r#"
//! {"at_us":1000,"store_us":1000,"id":"00000000000000000000000001","what":"push_asked","payload":7,"attempts":3}
//! {"at_us":2000,"store_us":2000,"id":"00000000000000000000000001","what":"push_answered","verdict":"accepted","payload":7,"due":5}
//! {"at_us":4000,"store_us":4000,"id":"00000000000000000000000001","what":"started","lease":{"node":1,"request":1},"attempt":1,"due":5,"payload":7}
//! "#;
//! let mut account = Account::new();
//! for entry in lines(history.as_bytes()) {
//!     account.read(&entry?);
//! }
//! let report = account.close();
//! assert_eq!((report.starts, report.early, report.unaccounted), (1, 1, 1));
//! println!("{report}");
//! # Ok::<(), duly::Error>(())
//! ```

mod account;
mod attempt;
mod checker;
mod claims;
mod entry;
mod expect;
mod life;
mod line;
mod memory;
mod promise;
mod report;
mod story;
mod unique;

pub use self::account::Account;
pub use self::checker::Checker;
pub use self::entry::{Ending, Entry, Told, Truth, What};
pub use self::expect::Expect;
pub use self::line::lines;
pub use self::promise::{Broken, Promise};
pub use self::report::Report;
pub use duly::store::operation::Lease;
