//! A cluster node with a self-healing connection.
//!
//! Why not the package's `ConnectionManager` (1.8): its error does not tell a call that was never
//! sent from one whose reply was lost, which decides between `Unavailable` and `Unknown`; and it
//! keeps a connection to a server that hangs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind as Theirs, Pipeline, PushKind, RedisError, RedisResult, Value, cmd};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Pushes, accepted, dial, late, tcp};
use crate::store::redis::link::fault::{self, Stage};
use crate::store::redis::link::health::{DOUBT_AFTER, Health, SILENT_FOR};
use crate::store::redis::link::options::{ConnectionOptions, RECONNECT};
use crate::store::redis::link::url::{Address, Target};

/// Commands that are sent to a node in one pipeline.
#[derive(Clone, Copy)]
pub(super) enum Calls<'a> {
    One(&'a Cmd),
    Many(&'a Pipeline),
}

/// One node. Callers that need its connection share a single attempt to open it, and fail at once
/// during the pause after a failed attempt.
pub(super) struct Node {
    pub(super) address: Address,
    target: Target,
    options: ConnectionOptions,
    pushes: Pushes,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    up: Option<Up>,
    /// Failed attempts in a row.
    failures: u32,
    /// The end of the pause between attempts, and its cause.
    rests: Option<(Instant, RedisError)>,
}

struct Up {
    connection: MultiplexedConnection,
    health: Arc<Health>,
}

/// The connection of a node, for one call.
pub(super) struct NodeConnection {
    pub(super) connection: MultiplexedConnection,
    pub(super) health: Arc<Health>,
}

impl Node {
    pub(super) fn new(
        address: Address,
        target: &Target,
        options: &ConnectionOptions,
        pushes: Pushes,
    ) -> Self {
        Self {
            address,
            target: target.clone(),
            options: options.clone(),
            pushes,
            state: Arc::default(),
        }
    }

    /// Returns whether it has a connection, as far as is known without waiting.
    pub(super) fn is_up(&self) -> bool {
        let state = self.state.try_lock();
        state.is_ok_and(|state| state.up.as_ref().is_some_and(Up::is_well))
    }

    /// Returns its connection, opening one if needed.
    ///
    /// # Errors
    ///
    /// When there is none; nothing was sent.
    pub(super) async fn connection(&self) -> RedisResult<NodeConnection> {
        loop {
            let mut state = Arc::clone(&self.state).lock_owned().await;
            if let Some(up) = &state.up {
                if up.is_well() {
                    return Ok(up.for_a_call());
                }
                let is_unproven = up.health.is_unproven();
                state.up = None;
                if is_unproven {
                    let words = "it closes each connection soon after it was opened";
                    let error = RedisError::from((Theirs::Io, words));
                    state.fail(error, Duration::ZERO);
                }
            }
            if let Some((until, error)) = &state.rests
                && Instant::now() < *until
            {
                return Err(self.unreachable(error));
            }
            // A task of its own: its caller may be cancelled while others wait for it.
            let attempt = Attempt::of(self);
            let dialled = async move { attempt.make(&mut state).await };
            let dialled = self.options.spawn(dialled);
            if dialled.await.is_err() {
                let words = "the runtime stopped while it was connected";
                return Err(self.unreachable(&RedisError::from((Theirs::Io, words))));
            }
        }
    }

    /// Returns the error of a call that could not be sent.
    fn unreachable(&self, error: &RedisError) -> RedisError {
        if !matches!(error.kind(), Theirs::Io | Theirs::Parse) {
            return error.clone(); // it is specific already
        }
        let words = "a node cannot be reached";
        let detail = format!("{}: {error}", self.address);
        RedisError::from((Theirs::ClusterConnectionNotFound, words, detail))
    }

    /// Drops a connection that does not respond. One late reply costs no connection that is used.
    pub(super) async fn unanswered(&self, health: &Arc<Health>) {
        if health.unanswered() {
            let error = RedisError::from((Theirs::Io, "it does not respond"));
            let rest = Some((error, self.options.connect_timeout));
            self.give_up(health, true, rest).await;
        }
    }

    /// Records the reply of a call. After some errors its connection is of no more use: one that is
    /// not logged in is not until it is made again.
    pub(super) async fn answered(&self, health: &Arc<Health>, reply: &RedisResult<Vec<Value>>) {
        let cause = match reply {
            Ok(values) => match values.first() {
                Some(Value::ServerError(error)) => RedisError::from(error.clone()),
                _ => return health.succeeded(),
            },
            Err(cause) => cause.clone(),
        };
        health.answered();
        if is_for_ever(&cause) {
            let rest = health.is_unproven().then_some((cause, Duration::ZERO));
            self.give_up(health, false, rest).await;
        }
    }

    /// Drops the connection of `health`, unless it has been dropped; calls in flight end with one that
    /// is silent. The next attempt waits if there is an error to wait for.
    async fn give_up(
        &self,
        health: &Arc<Health>,
        is_silent: bool,
        rest: Option<(RedisError, Duration)>,
    ) {
        let mut state = self.state.lock().await;
        let is_it = |up: &mut Up| Arc::ptr_eq(&up.health, health);
        if state.up.take_if(is_it).is_some() {
            if is_silent {
                health.end();
            }
            self.pushes.disconnected();
            if let Some((error, rests_at_least)) = rest {
                state.fail(error, rests_at_least);
            }
        }
    }

    /// Waits for a reply on a connection, and replaces it meanwhile if it was idle and the server replies
    /// only on another one: then it was forgotten on the way.
    pub(super) async fn watched<T>(
        self: &Arc<Self>,
        health: &Arc<Health>,
        mut asking: Pin<&mut impl Future<Output = T>>,
    ) -> T {
        let Some(heard_us) = health.idle_since() else {
            return asking.await;
        };
        if let Ok(reply) = timeout(DOUBT_AFTER, asking.as_mut()).await {
            return reply;
        }
        let (node, health) = (Arc::clone(self), Arc::clone(health));
        let until = Instant::now() + (SILENT_FOR - DOUBT_AFTER);
        self.options
            .spawn(async move { node.replace_forgotten(&health, heard_us, until).await });
        asking.await
    }

    async fn replace_forgotten(&self, health: &Arc<Health>, heard_us: u64, until: Instant) {
        if !health.takes_doubt() {
            return;
        }
        let mut opened = State::default();
        Attempt::of(self).make(&mut opened).await;
        sleep_until(until).await;
        let Some(up) = opened.up.filter(|_| health.is_silent_since(heard_us)) else {
            return health.trusted();
        };
        let mut state = self.state.lock().await;
        if let Some(old) = &mut state.up
            && Arc::ptr_eq(&old.health, health)
        {
            *old = up;
            self.pushes.disconnected();
        }
        health.end();
    }

    /// Sends a ping if nothing has used its connection since the last turn, and replaces one that
    /// was forgotten on the way.
    pub(super) async fn probe(&self) {
        let up = {
            let state = self.state.lock().await;
            let up = state.up.as_ref().filter(|up| up.health.takes_probe());
            up.map(Up::for_a_call)
        };
        let Some(NodeConnection {
            mut connection,
            health,
        }) = up
        else {
            return;
        };
        let ping = cmd("PING");
        let asking = connection.send_packed_command(&ping);
        let reply = timeout(self.options.connect_timeout, asking).await;
        let reply = reply.unwrap_or_else(|_| Err(late())).and_then(accepted);
        let is_lost = reply.is_err_and(|cause| {
            let fault = fault::of(&cause, Stage::Sent);
            fault.is_silence || fault.breaks
        });
        if is_lost {
            self.give_up(&health, true, None).await;
            let _ = self.connection().await; // or the next call finds out
        }
    }
}

/// Returns whether a server refuses everything on this connection, whatever becomes of the slots.
fn is_for_ever(cause: &RedisError) -> bool {
    cause.code().is_some_and(|code| !code.is_empty()) // a lost connection is seen by its reader
        && !matches!(cause.code(), Some("READONLY" | "MASTERDOWN"))
        && fault::of(cause, Stage::Sent).breaks
}

/// The inputs of an attempt to connect.
struct Attempt {
    address: Address,
    target: Target,
    options: ConnectionOptions,
    pushes: Pushes,
}

impl Attempt {
    fn of(node: &Node) -> Self {
        Self {
            address: node.address.clone(),
            target: node.target.clone(),
            options: node.options.clone(),
            pushes: node.pushes.clone(),
        }
    }

    async fn make(self, state: &mut State) {
        let health = Arc::new(Health::new(self.options.timeout));
        let pushes = Pushes::new({
            let (health, pushes) = (Arc::clone(&health), self.pushes.clone());
            move |push| {
                if push.kind == PushKind::Disconnection {
                    health.end();
                }
                pushes.tell(push);
            }
        });
        let place = tcp(&self.target, &self.address);
        match dial(&self.target, &self.options, place, pushes).await {
            Ok(connection) => {
                state.up = Some(Up { connection, health });
                (state.failures, state.rests) = (0, None);
            }
            // An attempt that hangs costs its callers half of their timeout at most.
            Err(error) if error.is_timeout() => state.fail(error, self.options.connect_timeout),
            Err(error) => state.fail(error, Duration::ZERO),
        }
    }
}

impl State {
    fn fail(&mut self, error: RedisError, rests_at_least: Duration) {
        self.failures = self.failures.saturating_add(1);
        let rests = RECONNECT.jittered(self.failures).max(rests_at_least);
        self.rests = Some((Instant::now() + rests, error));
    }
}

impl Up {
    fn is_well(&self) -> bool {
        !self.health.is_broken()
    }

    fn for_a_call(&self) -> NodeConnection {
        NodeConnection {
            connection: self.connection.clone(),
            health: Arc::clone(&self.health),
        }
    }
}

/// Sends calls; `asking` marks that their slot is migrating to the node. A refusal of one call
/// among many is a value, that of a single one the error.
pub(super) async fn send(
    mut connection: MultiplexedConnection,
    calls: Calls<'_>,
    asking: bool,
) -> RedisResult<Vec<Value>> {
    match (calls, asking) {
        (Calls::One(call), false) => {
            let value = connection.send_packed_command(call).await?;
            Ok(vec![super::accepted(value)?])
        }
        (Calls::Many(calls), false) => connection.send_packed_commands(calls, 0, calls.len()).await,
        (Calls::One(call), true) => {
            let values = ask(&mut connection, [call].into_iter()).await?;
            let value = values.into_iter().next().unwrap_or(Value::Nil);
            Ok(vec![super::accepted(value)?])
        }
        (Calls::Many(calls), true) => ask(&mut connection, calls.cmd_iter()).await,
    }
}

/// Yields each call, preceded by `ASKING`.
async fn ask<'a>(
    connection: &mut MultiplexedConnection,
    calls: impl Iterator<Item = &'a Cmd>,
) -> RedisResult<Vec<Value>> {
    let mut pipeline = Pipeline::new();
    for call in calls {
        pipeline.add_command(cmd("ASKING"));
        pipeline.add_command(call.clone());
    }
    let many = pipeline.len();
    let values = connection.req_packed_commands(&pipeline, 0, many).await?;
    Ok(values.into_iter().skip(1).step_by(2).collect())
}
