//! The masters of the servers of a URL.

use std::time::Duration;

use redis::cluster_routing::Slot;
use redis::{Pipeline, Value, cmd};

use super::managed::ManagedConnection;
use super::reads::read;
use super::topology::Slots;
use super::url::Address;
use crate::error::{Error, ErrorKind, Result};

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
