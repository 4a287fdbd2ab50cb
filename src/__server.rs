//! What `duly-server` of the same version uses: no part of the public face, and outside of semver.

/// Connections to Redis, for values that the server keeps beside its store.
#[cfg(feature = "redis")]
pub mod redis {
    pub use crate::store::redis::link::client::{
        Client, ClientOptions, ClientScript, Cmd, FromRedisValue, cmd,
    };
}
