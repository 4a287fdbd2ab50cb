//! A single connection, from connecting until it is dropped.

use std::sync::Arc;
use std::time::Duration;

use redis::cluster_routing::Slot;
use redis::{Cmd, Pipeline, PushKind, RedisResult, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use super::fault::{self, CallFailure, Effect, ErrorClass, Stage};
use super::health::{CallGuard, Health};
use super::options::ConnectionOptions;
use super::topology::{self, Connection, Pushes};
use super::url::{Address, Place, Target};
use crate::error;

/// A connection.
///
/// In a cluster it stands for one to each node, which reconnect by themselves. There a call may
/// have been sent more than once, so that a refusal of the last attempt proves nothing about the
/// first.
#[derive(Debug)]
pub(in crate::store::redis) struct LiveConnection {
    connection: Connection,
    health: Arc<Health>,
    /// The failed attempts in a row before this one.
    pub(in crate::store::redis) failures: u32,
}

impl LiveConnection {
    /// Connects. `made` is incremented when a cluster node is lost, since the client replaces its
    /// connection by itself.
    pub(in crate::store::redis) async fn open(
        target: &Target,
        options: &ConnectionOptions,
        made: &watch::Sender<u64>,
        failures: u32,
    ) -> error::Result<Self> {
        let health = Arc::new(Health::new(options.timeout));
        let is_cluster = matches!(target.place, Place::Cluster(_));
        let pushes = Pushes::new({
            let (health, made) = (Arc::clone(&health), made.clone());
            move |push| {
                if push.kind != PushKind::Disconnection {
                    return;
                }
                if is_cluster {
                    made.send_modify(|made| *made += 1);
                } else {
                    health.end();
                }
            }
        });
        Ok(Self {
            connection: topology::connect(target, options, pushes).await?,
            health,
            failures,
        })
    }

    /// Sends one command and waits for its reply until `deadline`.
    pub(in crate::store::redis) async fn ask(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, CallFailure> {
        self.send_noted(command, deadline).await.0
    }

    /// Sends one command; also returns whether it may have been sent more than once, so that the
    /// reply is to a repeat.
    pub(in crate::store::redis) async fn send_noted(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> (Result<Value, CallFailure>, bool) {
        let mut connection = self.connection.clone();
        let call = self.call(deadline);
        let mut is_repeat = false;
        let asking = async {
            let reply;
            (reply, is_repeat) = connection.ask(command, deadline).await;
            reply
        };
        let reply = self.health.or_ended(asking).await;
        over(call);
        (self.judge(reply, is_repeat), is_repeat)
    }

    /// Sends one command to every server.
    pub(in crate::store::redis) async fn ask_everywhere(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<Value>, CallFailure> {
        let mut connection = self.connection.clone();
        let call = self.call(deadline);
        let asking = connection.ask_everywhere(command, deadline);
        let replies = self.health.or_ended(asking).await;
        over(call);
        self.judge(replies, false)
    }

    /// Sends several commands in one pipeline; a refused command has its error as its reply. Also
    /// returns whether they may have been sent more than once.
    pub(in crate::store::redis) async fn ask_all(
        &self,
        commands: &Pipeline,
        slot: Option<Slot>,
        deadline: Instant,
    ) -> (Result<Vec<Value>, CallFailure>, bool) {
        let mut connection = self.connection.clone();
        let _call = self.health.blocking_call(); // it may end with a `WAIT`
        let mut is_repeat = false;
        let asking = async {
            let replies;
            (replies, is_repeat) = connection.ask_all(commands, slot, deadline).await;
            replies
        };
        let replies = self.health.or_ended(asking).await;
        let replies = self.judge(replies, is_repeat);
        for reply in replies.iter().flatten() {
            if let Value::ServerError(error) = reply {
                self.note(&fault::of(&error.clone().into(), Stage::Sent));
            }
        }
        (replies, is_repeat)
    }

    /// Returns the node of a cluster that has a slot, as far as is known.
    pub(super) fn node_of(&self, slot: Slot) -> Option<Address> {
        self.connection.node_of(slot)
    }

    /// Updates the state of the connection by the result.
    fn judge<T>(&self, reply: RedisResult<T>, is_repeat: bool) -> Result<T, CallFailure> {
        let cause = match reply {
            Ok(reply) => {
                self.health.succeeded();
                return Ok(reply);
            }
            Err(cause) => cause,
        };
        let mut fault = fault::of(&cause, Stage::Sent);
        if fault.effect == Effect::None && is_repeat {
            fault = fault.maybe_applied();
        }
        if fault.is_silence {
            if !self.is_cluster() && self.health.unanswered() {
                self.health.end();
            }
        } else {
            self.health.answered();
        }
        self.note(&fault);
        Err(CallFailure { fault, cause })
    }

    fn note(&self, fault: &ErrorClass) {
        if fault.breaks && !self.is_cluster() {
            self.health.break_off();
        }
    }

    /// Returns its health; of a cluster, whose nodes have their own, none.
    pub(super) fn health(&self) -> Option<&Health> {
        (!self.is_cluster()).then_some(&*self.health)
    }

    /// Returns whether the connection is of no more use.
    pub(in crate::store::redis) fn is_broken(&self) -> bool {
        self.health.is_broken()
    }

    /// Returns whether its end counts as a failed attempt.
    pub(in crate::store::redis) fn is_unproven(&self) -> bool {
        self.health.is_unproven()
    }

    /// Sends a ping if nothing has used the connection since the last turn. One that does not
    /// reply within `patience` has been forgotten on the way.
    ///
    /// The connections to the nodes of a cluster are probed by its client.
    pub(in crate::store::redis) async fn probe(&self, patience: Duration) {
        if self.is_cluster() || !self.health.takes_probe() {
            return;
        }
        let mut connection = self.connection.clone();
        let deadline = Instant::now() + patience;
        let (reply, _) = connection.ask(&redis::cmd("PING"), deadline).await;
        match reply.map_err(|cause| fault::of(&cause, Stage::Sent)) {
            Err(fault) if fault.is_silence => self.health.end(),
            Err(fault) if fault.breaks => self.health.break_off(),
            _ => {}
        }
    }

    /// Notes a call, unless it goes to a node of a cluster, which has a connection of its own.
    fn call(&self, deadline: Instant) -> Option<CallGuard<'_>> {
        (!self.is_cluster()).then(|| self.health.call(deadline))
    }

    fn is_cluster(&self) -> bool {
        matches!(self.connection, Connection::Cluster(_))
    }
}

fn over(call: Option<CallGuard<'_>>) {
    if let Some(call) = call {
        call.over();
    }
}
