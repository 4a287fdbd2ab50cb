//! Stores: where events wait.

mod clock;
mod contract;
mod control;
mod damage;
mod durability;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
mod future;
mod hub;
mod memory;
pub mod operation;
mod outbox;
mod proxy;
mod records;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod shards;
mod watchers;
mod watermarks;

pub(crate) use self::clock::{clock_ahead_us, differs};
pub use self::contract::{KnownBuckets, Store, Watcher};
pub(crate) use self::control::RATES;
pub use self::control::{Control, Setting};
pub use self::damage::{CheckTask, Damage, DamageKind};
pub use self::durability::Durability;
#[cfg(feature = "embedded")]
pub use self::embedded::{DamagedRow, EmbeddedOptions, EmbeddedStore};
pub use self::future::StoreFuture;
pub(crate) use self::future::in_time;
pub use self::memory::{MemoryStore, RECORDS_MAX};
pub(crate) use self::operation::{Operation, unexpected};
pub use self::outbox::{
    OUTBOX_BATCH_MAX, Outbox, OutboxLimit, OutboxPage, OutboxWatcher, WhenFull,
};
pub(crate) use self::proxy::StoreProxy;
pub use self::records::RecordTable;
#[cfg(feature = "redis")]
pub use self::redis::{RedisOptions, RedisStore};
pub use crate::core::engine::{DedupWindow, ID_AHEAD_MAX, KEEP_FOR};
pub use crate::core::membership::{Member, MemberInfo, Membership};
