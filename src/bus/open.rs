//! Opening the store of a URL.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::error::{Error, Result, shown};
use crate::panics;
use crate::store::{Durability, MemoryStore, Store};
use crate::time::Clock;

/// The URL schemes of Redis stores.
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

/// Opens the store of `url`.
pub(super) async fn open_store(
    url: &str,
    clock: &Arc<dyn Clock>,
    virtual_time: bool,
) -> Result<Arc<dyn Store>> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::on(Arc::clone(clock)))),
        Some(("sqlite", rest)) => open_embedded(sqlite_path(rest)?, clock, virtual_time),
        Some((scheme, _)) if REDIS.contains(&scheme) => {
            check_io("a store in Redis")?;
            open_redis(url).await
        }
        // Only the scheme is quoted: the rest may contain a password.
        other => Err(Error::invalid(format!(
            "unknown scheme \"{}\" of a store url; use `memory:`, `sqlite:` and the path of a file, \
             or one of redis: {}",
            shown(other.map_or("", |(scheme, _)| scheme)),
            REDIS.join(", ")
        ))),
    }
}

#[cfg(feature = "embedded")]
fn open_embedded(path: &str, clock: &Arc<dyn Clock>, virtual_time: bool) -> Result<Arc<dyn Store>> {
    use crate::store::{EmbeddedOptions, EmbeddedStore};

    let options = if virtual_time {
        EmbeddedOptions::inline()
    } else {
        EmbeddedOptions::new()
    };
    let options = options.on(Arc::clone(clock));
    Ok(Arc::new(EmbeddedStore::open_with(path, options)?))
}

#[cfg(not(feature = "embedded"))]
fn open_embedded(_: &str, _: &Arc<dyn Clock>, _: bool) -> Result<Arc<dyn Store>> {
    Err(Error::not_built("a store in a file, `sqlite:`", "embedded"))
}

#[cfg(feature = "redis")]
async fn open_redis(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(crate::store::RedisStore::open(url).await?))
}

#[cfg(not(feature = "redis"))]
#[allow(clippy::unused_async)] // opening one is async
async fn open_redis(_: &str) -> Result<Arc<dyn Store>> {
    Err(Error::not_built("a store in Redis", "redis"))
}

/// Rejects a runtime without timers, on which the bus would panic later.
pub(super) fn check_timers() -> Result<()> {
    let _outside_of_a_runtime_this_panics = Handle::current();
    // The runtime says it in no other way than by a panic.
    panics::caught(|| drop(tokio::time::sleep(Duration::ZERO))).map_err(|_| {
        Error::invalid(
            "the runtime has no timers, which the bus needs: build it with `enable_all` or \
             `enable_time` of `tokio::runtime::Builder`",
        )
    })
}

/// Rejects a runtime without I/O, on which `what` would panic later.
pub(super) fn check_io(what: &str) -> Result<()> {
    // As above; on a pipe, which needs neither an address nor a permission.
    #[cfg(all(unix, any(feature = "redis", feature = "postgres")))]
    {
        let opened = panics::caught(tokio::net::UnixStream::pair);
        if opened.is_err() {
            return Err(Error::invalid(format!(
                "the runtime has no I/O, which {what} needs: build it with `enable_all` or \
                 `enable_io` of `tokio::runtime::Builder`"
            )));
        }
    }
    let _ = what;
    Ok(())
}

/// Rejects a store that can never be as durable as configured.
pub(super) fn check_durability(store: &dyn Store, wanted: Option<Durability>) -> Result<()> {
    let reached = store.durability();
    match wanted {
        // A shared store may reach more than its default: its servers decide, at a push.
        Some(wanted) if !store.is_shared() && wanted > reached => Err(Error::invalid(format!(
            "store.durability is {wanted:?}, and this store reaches {reached:?}; use a store that does, \
             such as `sqlite:duly.db`, or a lower durability"
        ))),
        _ => Ok(()),
    }
}

/// Returns the path after `sqlite:`, which may begin with `//` as in other URLs: `sqlite:duly.db`
/// and `sqlite://duly.db` are relative to the working directory, `sqlite:/var/duly.db` and
/// `sqlite:///var/duly.db` are absolute.
pub(super) fn sqlite_path(rest: &str) -> Result<&str> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    match path {
        "" => Err(Error::invalid(format!(
            "the url `sqlite:{rest}` names no file; write `sqlite:` and a path, for example \
             `sqlite:duly.db` or `sqlite:/var/lib/duly.db`"
        ))),
        ":memory:" => Err(Error::invalid(format!(
            "the url `sqlite:{rest}` names no file; for a store without a file use `memory:`"
        ))),
        path => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_slashes_before_a_path_change_nothing() {
        for (rest, path) in [
            ("duly.db", "duly.db"),
            ("//duly.db", "duly.db"),
            ("/var/duly.db", "/var/duly.db"),
            ("///var/duly.db", "/var/duly.db"),
        ] {
            assert_eq!(sqlite_path(rest).ok(), Some(path), "{rest}");
        }
    }
}
