//! Start-up checks of the servers of a URL: whether they can keep what is promised.
//!
//! Each finding includes what would be right. A finding that only weakens a promise is a warning;
//! one that breaks a promise is an error.

mod info;
mod rights;

use redis::{RedisError, ServerErrorKind, Value};

pub(in crate::store::redis) use self::info::{Info, Version, fields};
pub(in crate::store::redis) use self::rights::{Permission, Permissions};
use super::managed::ManagedConnection;
use super::topology::SLOTS;
use super::url::{Place, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::panics;

/// The oldest version with the features that scripts need: flags, sharded channels.
const OLDEST: Version = Version(7, 0, 0);

/// What the user of a connection needs of the servers.
#[derive(Debug)]
pub(in crate::store::redis) struct Needs {
    /// What is lost when a server evicts keys: `events`.
    pub(in crate::store::redis) values: &'static str,
    pub(in crate::store::redis) permissions: Permissions,
}

/// The findings.
#[derive(Debug)]
pub(in crate::store::redis) struct ServerFacts {
    /// Of each server.
    pub(in crate::store::redis) infos: Vec<Info>,
    /// The version of the oldest server.
    pub(in crate::store::redis) version: Version,
    /// Whether the user has the optional permissions, too.
    pub(in crate::store::redis) has_optional: bool,
}

/// Checks the servers of `link`. What is needed may depend on the version of the oldest server, if
/// that is known.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) when the servers are too old, evict keys, or deny a needed
/// permission; [`Unavailable`](ErrorKind::Unavailable) when a slot of a cluster is not served, or the
/// servers cannot be queried.
pub(in crate::store::redis) async fn check<F>(
    link: &ManagedConnection,
    target: &Target,
    needs: impl FnOnce(Option<Version>) -> F + Send,
) -> Result<ServerFacts>
where
    F: Future<Output = Needs> + Send,
{
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
    let needs = needs(oldest).await;
    let has_optional = rights::check(link, target, needs.permissions).await?;
    let infos = infos?;
    for info in &infos {
        nothing_is_evicted(info, target, needs.values)?;
    }
    Ok(ServerFacts {
        infos,
        version: oldest.ok_or_else(|| unreadable(target))?,
        has_optional,
    })
}

pub(in crate::store::redis) async fn infos(link: &ManagedConnection) -> Result<Vec<Info>> {
    // Without a section: the default ones contain all fields.
    let replies = link.send_everywhere(&redis::cmd("INFO")).await?;
    let infos: Option<Vec<_>> = replies.into_iter().map(Info::read).collect();
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

/// Returns an error if a server removes keys when its memory is full, and with them `values`.
pub(in crate::store::redis) fn nothing_is_evicted(
    info: &Info,
    target: &Target,
    values: &str,
) -> Result<()> {
    if info.maxmemory_policy == "noeviction" || target.choices.eviction_allowed == Some(true) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{target} throws keys away when its memory is full (maxmemory-policy {}), and {values} with \
         them; set maxmemory-policy to noeviction, or write eviction=allowed into the URL to lose \
         {values}",
        info.maxmemory_policy
    )))
}

async fn every_slot_is_served(link: &ManagedConnection, target: &Target) -> Result<()> {
    let mut question = redis::cmd("CLUSTER");
    question.arg("INFO");
    let reply = match link.send(&question).await {
        Ok(reply) => reply,
        // The permission check reports it, with everything else that is missing.
        Err(error) if rights::is_denied(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    let fields = fields(reply).ok_or_else(|| unreadable(target))?;
    let number = |name: &str| fields.get(name).and_then(|number| number.parse().ok());
    let served: u16 = number("cluster_slots_ok").unwrap_or(0);
    if served == SLOTS {
        return Ok(());
    }
    let are_assigned = number("cluster_slots_assigned") == Some(SLOTS);
    // A cluster that goes on without some slots is configured so, by cluster-require-full-coverage.
    let is_ok = fields
        .get("cluster_state")
        .is_some_and(|state| state == "ok");
    if is_ok && are_assigned {
        panics::reported(|| {
            tracing::warn!(
                "{target} serves {served} of {SLOTS} slots: a master is away, and the buckets that lie \
             there wait for it"
            );
        });
        return Ok(());
    }
    let error = Error::new(
        ErrorKind::Unavailable,
        format!(
            "{target} serves {served} of {SLOTS} slots; `redis-cli --cluster check` says which \
             are missing"
        ),
    );
    if !are_assigned {
        return Err(error); // nobody will take over what no master has
    }
    let down = redis::ErrorKind::Server(ServerErrorKind::ClusterDown);
    Err(error.because(RedisError::from((down, "a master is away"))))
}

pub(in crate::store::redis) fn unreadable(target: &Target) -> Error {
    Error::corrupt(format!("{target} sent a reply that could not be decoded"))
}

/// Decodes a reply to `INFO`, to be displayed.
pub fn info(reply: Value) -> impl std::fmt::Debug {
    Info::read(reply)
}
