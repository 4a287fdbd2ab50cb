//! Calls that return once they are as durable as requested.
//!
//! `WAIT` and `WAITAOF` block everything after them on their connection, so these calls have a
//! connection of their own. They confirm everything that the connection wrote before, so calls that
//! come while one group waits form the next group and share its wait. A server that syncs once a
//! second thus confirms any number of calls a second later, instead of one a second.
//!
//! In a cluster a group has the calls of one node, whatever their slots. One whose slot has moved is
//! refused by itself, and goes on with the calls of its slot.

use std::sync::Arc;
use std::time::Duration;

use redis::cluster_routing::Slot;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{ManagedConnection, ScriptReply, maybe_applied, with_text};
use crate::error::{Error, ErrorKind, Result};
use crate::store::redis::link::call_queues::{CallQueues, Driver};
use crate::store::redis::link::fault;
use crate::store::redis::link::topology::accepted;
use crate::store::redis::link::url::Address;

/// The limit of calls in one group.
const GROUP_MAX: usize = 256;

/// The confirmation that a call waits for after it was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::store::redis) struct DurabilityWait {
    /// Until the server has synced its append-only file; Redis 7.2 or later.
    pub(in crate::store::redis) disk: bool,
    /// Until this many replicas have it.
    pub(in crate::store::redis) replicas: u16,
    /// The time limit of the wait.
    pub(in crate::store::redis) timeout: Duration,
}

/// The durability that a call had reached at the end of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct ReachedDurability {
    pub(in crate::store::redis) disk: bool,
    pub(in crate::store::redis) replicas: u16,
}

impl DurabilityWait {
    fn command(&self) -> Cmd {
        let millis = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        // Zero would mean no limit.
        let millis = millis.max(1);
        let mut command = redis::cmd(if self.disk { "WAITAOF" } else { "WAIT" });
        if self.disk {
            command.arg(1);
        }
        command.arg(self.replicas).arg(millis);
        command
    }

    fn reached(&self, reply: Value) -> RedisResult<ReachedDurability> {
        let reply = accepted(reply)?;
        let (synced, replicas): (u64, u64) = if self.disk {
            redis::from_redis_value(reply)?
        } else {
            (0, redis::from_redis_value(reply)?)
        };
        Ok(ReachedDurability {
            disk: synced > 0,
            replicas: u16::try_from(replicas).unwrap_or(u16::MAX),
        })
    }
}

impl ReachedDurability {
    /// What calls of two servers have reached.
    fn and(self, other: Self) -> Self {
        Self {
            disk: self.disk && other.disk,
            replicas: self.replicas.min(other.replicas),
        }
    }
}

/// A call in a group, with the channel for its reply.
struct GroupCall {
    command: Cmd,
    text: Arc<str>,
    reply: oneshot::Sender<Result<(ScriptReply, ReachedDurability)>>,
}

/// What a group shares: its server and its wait.
type GroupKey = (Destination, DurabilityWait);

/// The server of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Destination {
    /// A node of a cluster, for all its slots.
    Node(Address),
    /// The node of a slot, whichever it is; without a slot the one server.
    Slot(Option<Slot>),
}

/// The replies of a group.
struct GroupReplies {
    calls: Vec<Value>,
    reached: RedisResult<ReachedDurability>,
    /// Whether the calls may have been executed more than once.
    is_repeat: bool,
}

/// The calls that wait for their group, and the connection that carries them.
pub(in crate::store::redis) struct DurableCalls {
    link: ManagedConnection,
    waiting: Arc<CallQueues<GroupKey, GroupCall>>,
}

impl DurableCalls {
    /// Uses a connection that carries nothing else.
    pub(in crate::store::redis) fn new(link: ManagedConnection) -> Arc<Self> {
        Arc::new(Self {
            link,
            waiting: Arc::default(),
        })
    }

    /// Executes a call together with those that come at the same time. A call whose turn has not
    /// come by `deadline`, or whose caller has gone, is not sent.
    pub(in crate::store::redis) async fn run(
        self: &Arc<Self>,
        text: &str,
        call: &Cmd,
        wait: DurabilityWait,
        deadline: Instant,
    ) -> Result<(ScriptReply, ReachedDurability)> {
        let slot = self.link.slot_of(call);
        let alone = (Destination::Slot(slot), wait);
        let node = match slot {
            Some(slot) => {
                let live = self.link.live(deadline.min(self.link.deadline()));
                live.await?.node_of(slot)
            }
            None => None,
        };
        let Some(node) = node else {
            return self.run_with(alone, text, call, deadline).await;
        };
        let together = (Destination::Node(node), wait);
        match self.run_with(together, text, call, deadline).await {
            Err(error) if is_elsewhere(&error) => self.run_with(alone, text, call, deadline).await,
            reply => reply,
        }
    }

    /// Executes a call in a group.
    async fn run_with(
        self: &Arc<Self>,
        lot: GroupKey,
        text: &str,
        call: &Cmd,
        deadline: Instant,
    ) -> Result<(ScriptReply, ReachedDurability)> {
        let (reply, answered) = oneshot::channel();
        let call = GroupCall {
            command: call.clone(),
            text: text.into(),
            reply,
        };
        let (mut place, is_first) = self.waiting.join(&lot, call);
        if is_first {
            tokio::spawn(carry(Arc::clone(self), self.waiting.drive(lot)));
        }
        match timeout_at(deadline, answered).await {
            Ok(Ok(reply)) => {
                place.answered();
                reply
            }
            Ok(Err(_)) => {
                let words = "the call was cancelled before its reply";
                Err(Error::new(ErrorKind::Unknown, words))
            }
            Err(_) if place.leave().is_some() => Err(Error::new(
                ErrorKind::Unavailable,
                "the call timed out before it was sent, behind others that waited for the servers",
            )),
            Err(_) => Err(Error::new(
                ErrorKind::Unknown,
                "the call timed out before its reply",
            )),
        }
    }

    /// Closes the connection.
    pub(in crate::store::redis) fn close(&self) {
        self.link.close();
    }

    /// Sends one group, followed by its wait.
    async fn send(&self, wait: DurabilityWait, calls: &[GroupCall]) -> Result<GroupReplies> {
        let commands = calls.iter().map(|call| call.command.clone());
        let mut replies = self.exchange(wait, commands).await?;
        let unknown: Vec<usize> = (0..calls.len())
            .filter(|call| is_noscript(&replies.calls[*call]))
            .collect();
        if !unknown.is_empty() {
            let texts = unknown.iter().map(|call| &calls[*call]);
            let texts = texts.map(|call| with_text(&call.text, &call.command));
            // By now it may be another server, which has nothing of the first calls.
            let again = self.exchange(wait, texts).await?;
            let is_all = unknown.len() == calls.len();
            for (call, reply) in unknown.into_iter().zip(again.calls) {
                replies.calls[call] = reply;
            }
            let first = replies.reached;
            replies.reached = if is_all {
                again.reached
            } else {
                first.and_then(|first| Ok(first.and(again.reached?)))
            };
            replies.is_repeat |= again.is_repeat;
        }
        Ok(replies)
    }

    /// Sends commands and the wait to the server of the first.
    async fn exchange(
        &self,
        wait: DurabilityWait,
        commands: impl Iterator<Item = Cmd>,
    ) -> Result<GroupReplies> {
        let mut pipeline = Pipeline::new();
        for command in commands {
            pipeline.add_command(command);
        }
        let first = pipeline.cmd_iter().next();
        let slot = first.and_then(|first| self.link.slot_of(first));
        pipeline.add_command(wait.command());
        let (mut calls, is_repeat) = self.link.send_all(&pipeline, slot, wait.timeout).await?;
        match calls.pop() {
            Some(confirmed) if calls.len() + 1 == pipeline.len() => Ok(GroupReplies {
                calls,
                reached: wait.reached(confirmed),
                is_repeat,
            }),
            _ => Err(Error::new(
                ErrorKind::Unknown,
                "the server sent fewer replies than it received calls",
            )),
        }
    }

    fn reply(&self, calls: Vec<GroupCall>, outcome: Result<GroupReplies>) {
        let GroupReplies {
            calls: replies,
            reached,
            is_repeat,
        } = match outcome {
            Ok(replies) => replies,
            Err(error) => {
                for call in calls {
                    let shared = Error::new(error.kind(), error.to_string());
                    let _ = call.reply.send(Err(shared));
                }
                return;
            }
        };
        for (call, reply) in calls.into_iter().zip(replies) {
            let outcome = match (accepted(reply), &reached) {
                (Err(refused), _) => Err(maybe_applied(self.link.refused(refused), is_repeat)),
                (Ok(value), Ok(reached)) => Ok((ScriptReply { value, is_repeat }, *reached)),
                (Ok(_), Err(error)) => Err(unconfirmed(error)),
            };
            // The caller may have gone.
            let _ = call.reply.send(outcome);
        }
    }
}

/// Executes one lot, group after group, until no call waits.
async fn carry(durable: Arc<DurableCalls>, mut driver: Driver<GroupKey, GroupCall>) {
    let (_, wait) = *driver.key();
    loop {
        let mut many = 0;
        let group = driver.take(|_| {
            many += 1;
            many <= GROUP_MAX
        });
        let Some(mut calls) = group else {
            return;
        };
        calls.retain(|call| !call.reply.is_closed());
        if !calls.is_empty() {
            let outcome = durable.send(wait, &calls).await;
            durable.reply(calls, outcome);
        }
    }
}

fn unconfirmed(error: &redis::RedisError) -> Error {
    let text = format!("it was carried out, but its durability is unconfirmed ({error})");
    Error::new(ErrorKind::Unknown, text)
}

/// Returns whether a node has refused a call of a slot that another one has.
fn is_elsewhere(error: &Error) -> bool {
    let redirects = |cause: &redis::RedisError| cause.redirect_node().is_some();
    error.kind() == ErrorKind::Unavailable && fault::cause_of(error).is_some_and(redirects)
}

fn is_noscript(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "NOSCRIPT")
}
