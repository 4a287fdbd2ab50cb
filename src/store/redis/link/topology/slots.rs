//! The slot table of a cluster.

use std::collections::{HashMap, HashSet};

use redis::aio::MultiplexedConnection;
use redis::cluster_routing::Slot;
use redis::{ErrorKind as Theirs, RedisError, RedisResult, Value};

use crate::store::redis::link::url::Address;

/// The number of slots in a cluster.
pub(in crate::store::redis) const SLOTS: u16 = 16_384;

/// The nodes that have the slots, as one of them reported.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    /// The index in `nodes` of each slot's node; `Slot` does not expose its number.
    owners: HashMap<Slot, usize>,
    nodes: Vec<Address>,
    /// The names of these nodes in the cluster: an address may depend on who was asked.
    ids: HashMap<Address, Vec<u8>>,
    replicas: HashSet<Address>,
}

/// Reads the slots from a node.
pub(super) async fn ask_slots(
    mut connection: MultiplexedConnection,
    address: &Address,
) -> RedisResult<Slots> {
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let reply = connection.send_packed_command(&question).await?;
    Slots::read(super::accepted(reply)?, address)
}

impl Slots {
    /// Decodes the reply to `CLUSTER SLOTS`; `asked` is the node that sent it, since a node that
    /// does not know its own address leaves it out.
    pub fn read(reply: Value, queried: &Address) -> RedisResult<Self> {
        let wrong = || {
            RedisError::from((
                Theirs::UnexpectedReturnType,
                "the reply to CLUSTER SLOTS could not be decoded",
            ))
        };
        let ranges = ranges(reply).ok_or_else(wrong)?;
        let mut slots = Self::default();
        for (first, last, node, replicas) in ranges {
            let replicas = replicas.into_iter().filter_map(|it| named(it, queried));
            slots.replicas.extend(replicas.map(|(address, _)| address));
            let (address, id) = named(node, queried).ok_or_else(wrong)?;
            if let Some(id) = id {
                slots.ids.insert(address.clone(), id);
            }
            let place = slots.place(address);
            for slot in (first..=last).filter_map(Slot::new) {
                slots.owners.insert(slot, place);
            }
        }
        Ok(slots)
    }

    /// Returns the node that has the slot of a key.
    pub(in crate::store::redis) fn owner(&self, key: &[u8]) -> Option<&Address> {
        self.owner_of(Slot::for_key(key))
    }

    /// Returns the node that has a slot.
    pub(super) fn owner_of(&self, slot: Slot) -> Option<&Address> {
        let place = self.owners.get(&slot)?;
        self.nodes.get(*place)
    }

    /// Returns the name of a node that has slots.
    pub(in crate::store::redis) fn id_of(&self, node: &Address) -> Option<&[u8]> {
        self.ids.get(node).map(Vec::as_slice)
    }

    /// Returns how many slots have a node.
    pub(in crate::store::redis) fn served(&self) -> usize {
        self.owners.len()
    }

    /// Returns whether every slot has a node. A node that has left the cluster, or that no other can
    /// reach, knows at most its own.
    pub(in crate::store::redis) fn is_complete(&self) -> bool {
        self.served() == usize::from(SLOTS)
    }

    /// Returns the nodes that have slots.
    pub(in crate::store::redis) fn masters(&self) -> Vec<Address> {
        self.nodes.clone()
    }

    /// Returns a slot of each of these nodes.
    pub(in crate::store::redis) fn one_of_each(&self) -> Vec<Slot> {
        let mut firsts = vec![None; self.nodes.len()];
        for slot in (0..SLOTS).filter_map(Slot::new) {
            let owner = self.owners.get(&slot).and_then(|it| firsts.get_mut(*it));
            if let Some(first @ None) = owner {
                *first = Some(slot);
            }
        }
        firsts.into_iter().flatten().collect()
    }

    /// Returns these nodes and their replicas.
    pub(super) fn everywhere(&self) -> HashSet<Address> {
        self.nodes.iter().chain(&self.replicas).cloned().collect()
    }

    fn place(&mut self, address: Address) -> usize {
        let known = self.nodes.iter().position(|node| *node == address);
        known.unwrap_or_else(|| {
            self.nodes.push(address);
            self.nodes.len() - 1
        })
    }
}

/// First slot, last slot, master and replicas of a range.
type Range = (u16, u16, Value, Vec<Value>);

fn ranges(reply: Value) -> Option<Vec<Range>> {
    let Value::Array(ranges) = reply else {
        return None;
    };
    let range = |range| {
        let Value::Array(parts) = range else {
            return None;
        };
        let mut parts = parts.into_iter();
        let first = number(&parts.next()?)?;
        let last = number(&parts.next()?)?;
        Some((first, last, parts.next()?, parts.collect()))
    };
    ranges.into_iter().map(range).collect()
}

/// Returns the address of a node and its name.
fn named(node: Value, queried: &Address) -> Option<(Address, Option<Vec<u8>>)> {
    let Value::Array(parts) = node else {
        return None;
    };
    let mut parts = parts.into_iter();
    let host = match parts.next()? {
        Value::BulkString(host) if !host.is_empty() && host != b"?" => {
            String::from_utf8(host).ok()?
        }
        _ => queried.host.clone(),
    };
    let port = number(&parts.next()?)?;
    let id = match parts.next() {
        Some(Value::BulkString(id)) => Some(id),
        _ => None,
    };
    Some((Address { host, port }, id))
}

fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}
