//! Opening the store that a URL names.

use std::sync::Arc;

use crate::error::{Error, Result, shown};
use crate::store::{EmbeddedOptions, EmbeddedStore, MemoryStore, RedisStore, Store};
use crate::time::Clock;

/// The schemes of the URLs of Redis stores.
const REDIS: [&str; 8] = [
    "redis",
    "rediss",
    "redis+unix",
    "unix",
    "redis-sentinel",
    "rediss-sentinel",
    "redis-cluster",
    "rediss-cluster",
];

/// Opens the store that `url` names.
pub(super) async fn open_store(
    url: &str,
    clock: &Arc<dyn Clock>,
    virtual_time: bool,
) -> Result<Arc<dyn Store>> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::with_clock(Arc::clone(clock)))),
        Some(("sqlite", path)) if !path.is_empty() => {
            let options = match virtual_time {
                true => EmbeddedOptions::inline(),
                false => EmbeddedOptions::new(),
            };
            let options = options.clock(Arc::clone(clock));
            Ok(Arc::new(EmbeddedStore::open_with(path, options)?))
        }
        Some((scheme, _)) if REDIS.contains(&scheme) => Ok(Arc::new(RedisStore::open(url).await?)),
        // Only the scheme is named: what follows may hold a password.
        other => Err(Error::invalid(format!(
            "a store url of scheme \"{}\" is not known; it is `memory:` alone, `sqlite:` and the \
             path of a file, or one of redis: {}",
            shown(other.map_or("", |(scheme, _)| scheme)),
            REDIS.join(", ")
        ))),
    }
}
