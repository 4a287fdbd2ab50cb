//! What `duly-server` of the same version uses: no part of the public face, and outside of semver.

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
