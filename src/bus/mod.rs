//! The bus: the API of the crate.

mod admin;
mod audit;
mod audit_line;
mod builder;
pub(crate) mod call;
mod checks;
mod completed;
mod control;
pub(crate) mod dead_letters;
mod erasure;
mod events;
mod explain;
mod fan_out;
mod forecast;
mod handle;
mod inner;
mod journal;
pub(crate) mod lease;
mod locate;
pub(crate) mod moved_clock;
mod names;
mod open;
pub(crate) mod own_queues;
mod owner;
pub(crate) mod pace;
mod payloads;
mod program_audit;
mod publish;
mod push;
mod queue;
mod queue_handle;
mod records;
mod reencrypt;
mod scan;
#[cfg(feature = "schedules")]
mod schedules;
mod state;
mod stop;

pub use self::admin::{NodeInfo, QueueLoad, QueueStats};
pub use self::audit_line::{AuditCursor, AuditFilter, AuditLine};
pub use self::builder::options::BusBuilder;
pub use self::checks::{PayloadCheck, PayloadReport, StoreCheck, StoreReport, UndecodablePayload};
pub use self::dead_letters::{
    BulkResult, DeadLetter, DeadLetterCursor, DeadLetters, Edited, LastRecord,
};
pub use self::erasure::{Erasure, ErasureCursor, ErasureReport, ErasureStep};
pub use self::events::{
    ChangedPage, EVENTS_MAX, EventAction, EventList, EventListCursor, Events, StoredEvent,
};
pub use self::explain::{Attempts, Explanation, HolderStatus, Reason, Spread};
pub use self::forecast::{FORECAST_STEPS_MAX, ForecastStep};
pub use self::handle::Bus;
pub use self::publish::Publisher;
pub use self::push::event::EventBuilder;
pub use self::push::many::{ALL_OR_NONE_MAX, PUSH_MANY_MAX, PushItem, PushMany};
pub use self::push::receipt::Receipt;
pub use self::push::relay::StagedPush;
pub use self::push::stage::PlainEvent;
pub use self::push::staged::StagedEvent;
pub use self::queue::Queue;
pub use self::records::{MinuteStatsQuery, RecordStream, Records, Replay, ReplayReport};
pub use self::reencrypt::{KeyCounts, Reencrypt, ReencryptReport};
pub use self::scan::EventCursor;
#[cfg(feature = "schedules")]
pub use self::schedules::{Schedule, Schedules};
pub use self::state::outboxes::OutboxBacklog;
