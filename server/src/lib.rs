//! The server of `duly`: delayed jobs over HTTP for programs in any language.
//!
//! ```text
//!  API listener ----> lmstfy contract, /v1, health
//!                        |         |
//!                        v         v
//!                     tokens     pools: a bus of `duly` each ----> embedded file, Redis, Cluster
//!                        |
//!  admin listener --> shared state: tokens, limits, audit ----> SQLite file or Redis
//!                `--> dashboard of each pool
//! ```
//!
//! The program is `duly serve`; this library is what it runs, and what its tests start.

mod admission;
pub mod api;
mod audited_bulks;
mod auth;
mod bus;
mod causes;
pub mod client;
mod clock;
mod dashboard;
mod health;
mod http;
mod job_id;
pub mod lmstfy;
pub mod log;
mod metrics;
mod origin;
mod outbox;
pub mod overview;
mod places;
mod pools;
pub mod purge;
pub mod schedules;
mod serve;
pub mod settings;
mod shared;
mod shares;
mod state;
mod test_clock;
mod v1;
mod waiters;
mod webhook;

pub use causes::with_causes;
pub use serve::{Server, StartError};
pub use settings::Settings;
