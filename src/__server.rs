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

/// A bus whose clock is moved by hand, for programs that are tested against a server.
pub mod moved_clock {
    pub use crate::bus::moved_clock::{QueueWork, on, settled, work};
}

/// Replies to calls, which reach callers in every process.
pub mod replies {
    pub use crate::bus::call::stored_replies::{REPLY_KEPT, ReplyStatus, look_up, store};
}

/// Connections to Redis, for values that the server keeps beside its store.
#[cfg(feature = "redis")]
pub mod redis {
    pub use crate::store::redis::link::client::{
        Client, ClientOptions, ClientScript, Cmd, FromRedisValue, Master, Pipeline, cmd, pipe,
    };
}
