//! The masters of the servers of a URL.

use std::collections::HashSet;
use std::time::Duration;

use redis::cluster_routing::Slot;
use redis::{Pipeline, Value, cmd, pipe};

use super::managed::ManagedConnection;
use super::preflight;
use super::reads::read;
use super::topology::Slots;
use super::url::Address;
use crate::error::{Error, ErrorKind, Result};

/// How often a scan begins anew with the servers that it has not finished.
const ANEW_MAX: usize = 100;

/// A server that takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Master {
    /// One of its slots; a server that is no cluster has none.
    slot: Option<Slot>,
}

impl Master {
    /// Returns the one that has a key.
    pub(in crate::store::redis) fn of(link: &ManagedConnection, key: &str) -> Self {
        let slot = link.is_cluster().then(|| Slot::for_key(key));
        Self { slot }
    }

    /// Sends it several commands in one pipeline, and returns their replies.
    ///
    /// # Errors
    ///
    /// As [`ManagedConnection::send_all`], also if one of the commands is refused.
    pub(in crate::store::redis) async fn send_all(
        self,
        link: &ManagedConnection,
        commands: &Pipeline,
    ) -> Result<Vec<Value>> {
        let (replies, _) = link.send_all(commands, self.slot, Duration::ZERO).await?;
        let refused = replies.iter().find_map(|reply| match reply {
            Value::ServerError(error) => Some(link.refused(error.clone().into())),
            _ => None,
        });
        refused.map_or(Ok(replies), Err)
    }
}

/// Returns the masters of a cluster as they are now, or the one server.
///
/// # Errors
///
/// As [`ManagedConnection::send`]; [`Unavailable`](ErrorKind::Unavailable) also where a node replies
/// that has left the cluster.
pub(in crate::store::redis) async fn masters(link: &ManagedConnection) -> Result<Vec<Master>> {
    if !link.is_cluster() {
        return Ok(vec![Master { slot: None }]);
    }
    let mut question = cmd("CLUSTER");
    question.arg("SLOTS");
    let reply = read(|| link.send(&question)).await?;
    // Whichever node has replied: one that does not know its own address is none of the others.
    let unnamed = Address {
        host: String::new(),
        port: 0,
    };
    let slots = Slots::read(reply, &unnamed).map_err(|error| {
        Error::corrupt("the reply to CLUSTER SLOTS could not be decoded").because(error)
    })?;
    if slots.served() == 0 {
        let words =
            "the node that was asked for the masters knows no slots: it has left the cluster";
        return Err(Error::new(ErrorKind::Unavailable, words));
    }
    let of_each = slots.one_of_each().into_iter();
    Ok(of_each.map(|slot| Master { slot: Some(slot) }).collect())
}

/// Calls `found` with the keys of all masters that match a pattern, some of them more than once.
/// Each step looks at some `count` keys.
///
/// A cursor means nothing to another server, so each step returns the name of its server. Where that
/// has changed, because slots were moved or a replica has taken over, the servers that were not
/// finished begin anew.
///
/// # Errors
///
/// As [`masters`].
pub(in crate::store::redis) async fn scan(
    link: &ManagedConnection,
    pattern: &str,
    count: usize,
    mut found: impl FnMut(Vec<Vec<u8>>) + Send,
) -> Result<()> {
    let mut done = HashSet::new();
    'anew: for _ in 0..ANEW_MAX {
        for master in masters(link).await? {
            let (mut cursor, mut scanned) = (b"0".to_vec(), None);
            loop {
                let mut step = pipe();
                let scan = step.cmd("SCAN").arg(&cursor).arg("MATCH").arg(pattern);
                scan.arg("COUNT").arg(count);
                step.cmd("INFO").arg("server");
                let replies = read(|| master.send_all(link, &step)).await?;
                let (next, keys, server) = step_of(replies)?;
                cursor = next;
                if *scanned.get_or_insert_with(|| server.clone()) != server {
                    continue 'anew;
                }
                if server.is_some() && done.contains(&server) {
                    break;
                }
                found(keys);
                if cursor == b"0" {
                    done.insert(server);
                    break;
                }
            }
        }
        return Ok(());
    }
    let words = "the servers changed during each scan of their keys";
    Err(Error::new(ErrorKind::Unavailable, words))
}

/// A step of a scan: the next cursor, keys, and the name of the run of the server.
type Step = (Vec<u8>, Vec<Vec<u8>>, Option<String>);

/// Decodes the replies of a step.
fn step_of(replies: Vec<Value>) -> Result<Step> {
    let wrong = || Error::corrupt("the reply to SCAN could not be decoded");
    let [page, info] = <[Value; 2]>::try_from(replies).map_err(|_| wrong())?;
    let page = redis::from_redis_value(page);
    let (cursor, keys) = page.map_err(|error| wrong().because(error))?;
    let mut fields = preflight::fields(info).ok_or_else(wrong)?;
    Ok((cursor, keys, fields.remove("run_id")))
}
