//! Membership: which nodes are alive, and what they consume.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::core::membership::{Member, MemberInfo, Membership, host_name};
use crate::error::Result;
use crate::event::QueueName;
use crate::record::NodeId;
use crate::store::redis::hub::eviction_watch::EvictionWatch;
use crate::store::redis::hub::shared_keys::SharedKeys;
use crate::store::redis::script::reader::{ReplyReader, unreadable};
use crate::store::redis::script::table::script;

/// How long a member that does not poll stays listed.
const LISTED_FOR: Duration = Duration::from_secs(60);

/// The field of a member's host is that of its queues and this byte.
const HOST_FIELD: u8 = b'h';

/// The key format is checked once in this many membership polls: every two seconds.
const FORMAT_EVERY: u32 = 8;

/// The settings of the servers are looked at once in this many membership polls: every minute.
const SETTINGS_EVERY: u32 = 240;

script! {
    /// Announces a node, and returns the members.
    POLL_MEMBERS = "poll_members", DRAINS, Hub, [];
    PollMembersArguments<'a> {
        /// The time in microseconds, for tests.
        now: Option<u64>,
        /// The node, unless it consumes nothing.
        node: Option<NodeId>,
        /// "stays", "leaves", or "queues" when its queues follow.
        act: &'a str,
        /// The queues that it consumes, a line for each.
        queues: String,
        /// The name of its machine, with its queues.
        host: &'a str,
        /// How long a silent member stays listed, ms.
        listed_for: u128,
        /// Whether to return the format of all keys.
        asks_format: bool,
    }
    reply PollMembersReply {
        /// The token of the buckets; "" before the first change.
        buckets: Vec<u8>,
        /// That of the runtime settings.
        controls: Vec<u8>,
        /// Whether its queues are known.
        is_known: bool,
        /// The format of all keys, "none" where there is none, "" unless requested. Then two for each
        /// member: node; number of its last poll.
        format: Vec<u8>,
    }
}

/// What a member says of itself, once.
#[derive(Clone, Default)]
struct SelfReport {
    queues: Arc<[QueueName]>,
    host: Arc<str>,
}

/// What this process knows of the members.
pub(in crate::store::redis) struct Members {
    hub: Arc<SharedKeys>,
    evictions: EvictionWatch,
    /// The number of membership polls.
    calls: AtomicU32,
    /// What known members have said of themselves.
    said: Mutex<HashMap<NodeId, SelfReport>>,
}

impl Members {
    pub(in crate::store::redis) fn new(hub: Arc<SharedKeys>) -> Self {
        Self {
            hub,
            evictions: EvictionWatch::default(),
            calls: AtomicU32::new(0),
            said: Mutex::default(),
        }
    }

    /// Announces that a node is alive, and returns the other members.
    pub(in crate::store::redis) async fn poll(&self, me: MemberInfo) -> Result<Membership> {
        let (hub, is_member) = (&*self.hub, !me.queues.is_empty());
        hub.claim_once(is_member).await?;
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        if calls % SETTINGS_EVERY == SETTINGS_EVERY - 1 {
            self.evictions.watch(&hub.link, &hub.target);
        }
        let mut act = if me.leaves { "leaves" } else { "stays" };
        loop {
            let call = hub.call(PollMembersArguments {
                now: hub.clock.as_ref().map(|clock| clock.wall_us()),
                node: is_member.then_some(me.node),
                act,
                queues: match act {
                    "queues" => lines(&me.queues),
                    _ => String::new(),
                },
                host: if act == "queues" { &me.host } else { "" },
                listed_for: LISTED_FOR.as_millis(),
                asks_format: calls.is_multiple_of(FORMAT_EVERY),
            });
            let mut parts = ReplyReader::of(call.script.name, hub.run(&call).await?)?;
            let reply = PollMembersReply::read(&mut parts)?;
            match &reply.format[..] {
                b"none" if is_member => {
                    hub.claim(true).await?; // the server has lost it
                }
                b"" | b"none" => {}
                format => hub
                    .check_format(format)
                    .map_err(|error| hub.lifecycle.fence(error))?,
            }
            if is_member && !reply.is_known && act == "stays" {
                act = "queues";
                continue;
            }
            return Ok(Membership {
                members: self.with_said(read_members(parts)?).await?,
                buckets_version: read_version(&reply.buckets),
                controls_version: read_version(&reply.controls),
            });
        }
    }

    /// Adds what the members have said of themselves, each read once.
    async fn with_said(&self, members: Vec<(NodeId, u64)>) -> Result<Vec<Member>> {
        let unknown: Vec<NodeId> = {
            let mut said = self.said.lock();
            let nodes: HashSet<NodeId> = members.iter().map(|(node, _)| *node).collect();
            said.retain(|node, _| nodes.contains(node));
            let unknown = members.iter().map(|(node, _)| *node);
            unknown.filter(|node| !said.contains_key(node)).collect()
        };
        if !unknown.is_empty() {
            let mut command = redis::cmd("HMGET");
            command.arg(self.hub.key("queues"));
            for node in &unknown {
                let mut field = node.0.to_be_bytes().to_vec();
                command.arg(&field);
                field.push(HOST_FIELD);
                command.arg(field);
            }
            let value = self.hub.send(&command).await?;
            let mut parts = ReplyReader::of("poll_members", value)?;
            for node in unknown {
                // A member that has left meanwhile consumes nothing.
                let queues = read_queues(&mut parts)?;
                let host = read_host(&mut parts)?;
                self.said.lock().insert(node, SelfReport { queues, host });
            }
        }
        let known = self.said.lock();
        let member = |(node, beat)| {
            let SelfReport { queues, host } = known.get(&node).cloned().unwrap_or_default();
            Member {
                node,
                beat,
                queues,
                host,
            }
        };
        Ok(members.into_iter().map(member).collect())
    }
}

/// Returns a token as a number; 0 before the first change.
fn read_version(token: &[u8]) -> u64 {
    token.try_into().map_or(0, u64::from_be_bytes)
}

/// Decodes the members and the numbers of their last polls, ordered by id.
pub fn read_members(mut parts: ReplyReader) -> Result<Vec<(NodeId, u64)>> {
    let mut members = Vec::new();
    while !parts.is_empty() {
        members.push((parts.node()?, parts.number()?));
    }
    members.sort_unstable();
    Ok(members)
}

/// Decodes the queues of one member, a line each.
pub fn read_queues(parts: &mut ReplyReader) -> Result<Arc<[QueueName]>> {
    let lines = parts.optional()?.unwrap_or_default();
    let lines = String::from_utf8(lines).map_err(|_| unreadable("poll_members"))?;
    let queue =
        |line| QueueName::new(line).map_err(|error| unreadable("poll_members").because(error));
    lines.lines().map(queue).collect()
}

/// Decodes the name of a member's machine; a member of an older version has none.
pub fn read_host(parts: &mut ReplyReader) -> Result<Arc<str>> {
    let name = parts.optional()?.unwrap_or_default();
    Ok(host_name(&String::from_utf8_lossy(&name)))
}

fn lines(queues: &[QueueName]) -> String {
    let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
    names.join("\n")
}
