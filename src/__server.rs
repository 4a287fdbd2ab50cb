//! The parts that `duly-server` of the same version uses: not public, and outside of semver.

/// Names of queues and of schedules.
pub mod names {
    use crate::event::QueueName;

    /// Returns the name of `known` that was probably meant by `name`, which is not among them.
    pub fn name_meant<'a>(name: &QueueName, known: &'a [QueueName]) -> Option<&'a QueueName> {
        crate::config::queue_meant(name, known)
    }
}

/// Texts for display.
pub mod text {
    pub use crate::error::is_unseen;
}

/// One queue among many.
pub mod queues {
    use crate::bus::{Bus, QueueStats};
    use crate::error::Result;
    use crate::event::QueueName;
    use crate::store::Control;

    /// Returns the counts and the runtime settings of a queue; `None` of one that the store does not
    /// know and that has no setting.
    pub async fn counts_and_control(
        bus: &Bus,
        queue: &QueueName,
    ) -> Result<Option<(QueueStats, Control)>> {
        bus.counts_and_control(queue).await
    }
}

/// Pushes of payloads as they are stored, and reads that leave payloads out.
pub mod payloads {
    use crate::bus::{DeadLetterCursor, DeadLetters, EventBuilder, Events, Queue};
    use crate::codec::Codec;
    use crate::error::Result;
    use crate::event::EventId;
    use crate::record::Page;
    use crate::time::Timestamp;

    /// Leaves the payloads out of the pages of events.
    pub fn without_payloads(events: Events) -> Events {
        events.without_payloads()
    }

    /// Reads a page of dead letters without their payloads and records: when each died, and its id.
    pub async fn dead_ids(
        letters: DeadLetters,
    ) -> Result<Page<(Option<Timestamp>, EventId), DeadLetterCursor>> {
        letters.page_of_ids().await
    }

    /// Sets the version of an event's payload.
    pub fn versioned<T>(event: EventBuilder<T>, version: u32) -> EventBuilder<T>
    where
        T: serde::Serialize + Send + Sync + 'static,
    {
        event.version(version)
    }

    /// Takes an event's payload, which serializes as bytes, for what a codec has encoded.
    pub fn encoded_by<T>(event: EventBuilder<T>, codec: Codec) -> EventBuilder<T>
    where
        T: serde::Serialize + Send + Sync + 'static,
    {
        event.encoded_by(codec)
    }

    /// Returns the same queue, whose payloads are encrypted whatever its options say.
    pub fn encrypted<T>(queue: Queue<T>) -> Queue<T>
    where
        T: serde::Serialize + Send + Sync + 'static,
    {
        queue.encrypted()
    }
}

/// Ends of events.
pub mod ends {
    use crate::bus::Queue;
    use crate::bus::lease::EndResult;
    use crate::error::Result;
    use crate::event::{EventId, State};

    /// Ends an event, as [`Queue::end`] does, in a state that `may` accepts: in one step, so that nothing
    /// comes between. In another state it stays, and the result is that state.
    pub async fn end_if<T>(
        queue: &Queue<T>,
        id: EventId,
        may: impl Fn(State) -> bool,
    ) -> Result<EndResult>
    where
        T: serde::Serialize + Send + Sync + 'static,
    {
        queue.end_if(id, may).await
    }
}

/// A bus whose clock is moved by hand, for programs that are tested against a server.
pub mod moved_clock {
    pub use crate::bus::moved_clock::{QueueWork, on, settled, work};
}

/// Lists of schedules.
#[cfg(feature = "schedules")]
pub mod schedules {
    use crate::bus::{Schedule, Schedules};
    use crate::error::Result;
    use crate::record::Page;

    /// Reads a page of schedules, of a namespace if one is given, without payloads that are larger than
    /// `payload_max`.
    pub async fn page_with(
        schedules: &Schedules,
        payload_max: usize,
        namespace: Option<&str>,
        (after, limit): (Option<&str>, usize),
    ) -> Result<Page<Schedule, String>> {
        let place = (after, limit);
        schedules.page_with(payload_max, namespace, place).await
    }

    /// Whether a schedule was read with its payload.
    #[must_use]
    pub fn is_whole(schedule: &Schedule) -> bool {
        schedule.is_whole
    }
}

/// The pace of bulk operations, and delays after failures.
pub mod timing {
    pub use crate::backoff::Backoff;
    pub use crate::bus::pace::BulkPacer;
}

/// Limits of dead letters, and which of them a bulk operation is of.
pub mod dead_letters {
    pub use crate::bus::dead_letters::died_before;
    pub use crate::bus::dead_letters::retention::start_for_all;
}

/// Replies to calls, which reach callers in every process.
pub mod replies {
    pub use crate::bus::call::stored_replies::{REPLY_KEPT, ReplyStatus, look_up, push, store};
}

/// Connections to Redis, for values that the server keeps beside its store.
#[cfg(feature = "redis")]
pub mod redis {
    pub use crate::store::redis::link::client::{
        Client, ClientOptions, ClientScript, Cmd, FromRedisValue, Master, Pipeline, cmd, pipe,
    };
}
