//! Start-up preflight: whether the servers can keep the promises.
//!
//! Each finding includes what would be right. A finding that only weakens a promise is a warning;
//! one that breaks a promise is an error.

mod info;
mod rights;
pub(super) mod watch;

use redis::Value;

use self::info::Info;
pub(super) use self::info::Version;
pub(super) use self::watch::SettingsWatch;
use super::managed::ManagedConnection;
use super::topology::SLOTS;
use super::url::{Place, Target};
use crate::error::{Error, Result};
use crate::store::Durability;
use crate::time::Clock;

/// The oldest version with the features that the scripts need: flags, sharded channels.
const OLDEST: Version = Version(7, 0, 0);

/// The first version that can confirm that an append-only file was synced.
const WAITS_FOR_DISK: Version = Version(7, 2, 0);

/// A node's clock that is off by more than this is logged. Only displayed times depend on it, since
/// due times use the server's clock.
const SKEW_US: u64 = 1_000_000;

/// The findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerFacts {
    /// The version of the oldest server.
    pub(super) version: Version,
    /// The failures that an acknowledged push survives on the weakest server.
    pub(super) durability: Durability,
    /// Whether `WAITAOF` is available.
    pub(super) waits_for_disk: bool,
    /// The offset of the server's clock from this node's, in microseconds.
    pub(super) offset_us: i64,
    /// Whether the user may load functions and call them.
    pub(super) allows_functions: bool,
}

/// Checks the servers of `link`.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid) when the servers are too old, evict keys, or deny a
/// command of the scripts; [`Unavailable`](crate::ErrorKind::Unavailable) when a slot of a cluster
/// is not served, or the servers cannot be queried.
pub(super) async fn check(
    link: &ManagedConnection,
    target: &Target,
    prefix: &str,
    clock: &dyn Clock,
) -> Result<ServerFacts> {
    let is_cluster = matches!(target.place, Place::Cluster(_));
    if is_cluster {
        every_slot_is_served(link, target).await?;
    }
    // A user with hardly any permissions may lack this one; then the permission check reports it.
    let infos = infos(link).await;
    if let Ok(infos) = &infos {
        for info in infos {
            version_is_new_enough(info, target)?;
            is_no_cluster_in_disguise(info, target)?;
        }
    }
    let oldest = infos.as_ref().ok().and_then(|infos| oldest(infos));
    let has_waitaof = oldest.is_some_and(|version| version >= WAITS_FOR_DISK);
    let allows_functions = rights::check(link, target, prefix, has_waitaof).await?;
    let infos = infos?;
    for info in &infos {
        nothing_is_evicted(info, target)?;
    }
    let durability = durability(link, &infos).await;
    if durability == Durability::Memory {
        tracing::warn!(
            "{target} keeps no append-only file: its data is lost with its process; \
             set `appendonly yes`"
        );
    }
    Ok(ServerFacts {
        version: oldest.ok_or_else(|| unreadable(target))?,
        durability,
        waits_for_disk: has_waitaof && durability != Durability::Memory,
        offset_us: offset(link, target, clock).await?,
        allows_functions,
    })
}

async fn infos(link: &ManagedConnection) -> Result<Vec<Info>> {
    // Without a section: the default ones contain all fields.
    let answers = link.send_everywhere(&redis::cmd("INFO")).await?;
    let infos: Option<Vec<_>> = answers.into_iter().map(Info::read).collect();
    infos.ok_or_else(|| Error::corrupt("the reply to INFO could not be decoded"))
}

fn oldest(infos: &[Info]) -> Option<Version> {
    infos.iter().map(|info| info.version).min()
}

fn version_is_new_enough(info: &Info, target: &Target) -> Result<()> {
    if info.version < OLDEST {
        return Err(Error::invalid(format!(
            "{target} has version {}; Redis {OLDEST} or later, or Valkey, is needed",
            info.version
        )));
    }
    Ok(())
}

fn is_no_cluster_in_disguise(info: &Info, target: &Target) -> Result<()> {
    if info.is_cluster && !matches!(target.place, Place::Cluster(_)) {
        return Err(Error::invalid(format!(
            "{target} is a node of a cluster; open it with redis-cluster://"
        )));
    }
    Ok(())
}

fn nothing_is_evicted(info: &Info, target: &Target) -> Result<()> {
    if info.maxmemory_policy == "noeviction" || target.asked.eviction_allowed == Some(true) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{target} throws keys away when its memory is full (maxmemory-policy {}), and events with \
         them; set maxmemory-policy to noeviction, or write eviction=allowed into the URL to lose \
         events",
        info.maxmemory_policy
    )))
}

async fn durability(link: &ManagedConnection, infos: &[Info]) -> Durability {
    if !infos.iter().all(|info| info.has_aof) {
        return Durability::Memory;
    }
    let mut question = redis::cmd("CONFIG");
    question.arg("GET").arg("appendfsync");
    match link.send_everywhere(&question).await {
        Ok(answers) if answers.iter().all(is_always) => Durability::Disk,
        Ok(_) => Durability::OsCache,
        Err(error) => {
            tracing::debug!("appendfsync assumed to be everysec: {error}");
            Durability::OsCache
        }
    }
}

/// Returns whether the reply to `CONFIG GET appendfsync` is `always`.
fn is_always(answer: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::BulkString(text) => text == b"always",
        Value::SimpleString(text) => text == "always",
        _ => false,
    };
    match answer {
        Value::Map(pairs) => pairs.iter().any(|(_, value)| text(value)),
        Value::Array(parts) => parts.iter().any(text),
        _ => false,
    }
}

async fn every_slot_is_served(link: &ManagedConnection, target: &Target) -> Result<()> {
    let mut question = redis::cmd("CLUSTER");
    question.arg("INFO");
    let answer = match link.send(&question).await {
        Ok(answer) => answer,
        // The permission check reports it, with everything else that is missing.
        Err(error) if rights::is_denied(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    let fields = info::fields(answer).ok_or_else(|| unreadable(target))?;
    let number = |name: &str| fields.get(name).and_then(|number| number.parse().ok());
    let served: u16 = number("cluster_slots_ok").unwrap_or(0);
    if served == SLOTS {
        return Ok(());
    }
    // A cluster that goes on without some slots is configured so, by cluster-require-full-coverage.
    let is_ok = fields
        .get("cluster_state")
        .is_some_and(|state| state == "ok");
    if is_ok && number("cluster_slots_assigned") == Some(SLOTS) {
        tracing::warn!(
            "{target} serves {served} of {SLOTS} slots: a master is away, and the buckets that lie \
             there wait for it"
        );
        return Ok(());
    }
    Err(Error::new(
        crate::error::ErrorKind::Unavailable,
        format!(
            "{target} serves {served} of {SLOTS} slots; `redis-cli --cluster check` says which \
             are missing"
        ),
    ))
}

/// Returns the server's clock minus this one; half of the round trip is subtracted.
async fn offset(link: &ManagedConnection, target: &Target, clock: &dyn Clock) -> Result<i64> {
    let asked = clock.wall_us();
    let answer = link.send(&redis::cmd("TIME")).await?;
    let answered = clock.wall_us();
    let (seconds, micros): (u64, u64) =
        redis::from_redis_value(answer).map_err(|_| unreadable(target))?;
    let theirs = seconds * 1_000_000 + micros;
    let ours = asked + answered.saturating_sub(asked) / 2;
    let offset = i128::from(theirs) - i128::from(ours);
    let offset = i64::try_from(offset).unwrap_or(0);
    if offset.unsigned_abs() > SKEW_US {
        let seconds = offset.unsigned_abs() / 1_000_000;
        let direction = if offset > 0 { "ahead of" } else { "behind" };
        tracing::warn!(
            "the clock of {target} is {seconds} s {direction} that of this node; events are due \
             by the server's"
        );
    }
    Ok(offset)
}

fn unreadable(target: &Target) -> Error {
    Error::corrupt(format!("{target} sent a reply that could not be decoded"))
}

/// Decodes a reply to `INFO`, to be displayed.
pub fn info(answer: Value) -> impl std::fmt::Debug {
    Info::read(answer)
}
