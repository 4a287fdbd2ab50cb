//! A cluster node with a self-healing connection.
//!
//! Why not the package's `ConnectionManager` (1.8): its error does not tell a call that was never
//! sent from one whose reply was lost, which decides between `Unavailable` and `Unknown`; and it
//! keeps a connection to a server that hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind as Theirs, Pipeline, PushKind, RedisError, RedisResult, Value, cmd};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Pushes, dial, tcp};
use crate::store::redis::backoff;
use crate::store::redis::options::ConnectionOptions;
use crate::store::redis::url::{Address, Target};

/// A connection is dropped after this many unanswered calls in a row.
const UNANSWERED_MAX: u32 = 3;
/// A connection that ends sooner than this counts as a failed attempt.
const YOUNG: Duration = Duration::from_secs(2);

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
    /// Calls since the last reply of any kind.
    unanswered: AtomicU32,
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
    is_broken: Arc<AtomicBool>,
    born: Instant,
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
            unanswered: AtomicU32::new(0),
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
    pub(super) async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        loop {
            let mut state = Arc::clone(&self.state).lock_owned().await;
            if let Some(up) = &state.up {
                if up.is_well() {
                    return Ok(up.connection.clone());
                }
                let was_young = up.born.elapsed() < YOUNG;
                state.up = None;
                if was_young {
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

    /// Records that a call got a reply of any kind.
    pub(super) fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// Records that a call got no reply in time. One late reply costs no connection.
    pub(super) async fn unanswered(&self) {
        let many = self.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
        if many < UNANSWERED_MAX {
            return;
        }
        self.answered();
        let mut state = self.state.lock().await;
        if state.up.take().is_some() {
            self.pushes.disconnected();
            let words = "it does not respond";
            let error = RedisError::from((Theirs::Io, words));
            state.fail(error, self.options.connect_timeout);
        }
    }
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
        let is_broken = Arc::new(AtomicBool::new(false));
        let pushes = Pushes::new({
            let (is_broken, pushes) = (Arc::clone(&is_broken), self.pushes.clone());
            move |push| {
                if push.kind == PushKind::Disconnection {
                    is_broken.store(true, Ordering::Relaxed);
                }
                pushes.tell(push);
            }
        });
        let place = tcp(&self.target, &self.address);
        match dial(&self.target, &self.options, place, pushes).await {
            Ok(connection) => {
                state.up = Some(Up {
                    connection,
                    is_broken,
                    born: Instant::now(),
                });
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
        let rests = backoff::after(self.failures).max(rests_at_least);
        self.rests = Some((Instant::now() + rests, error));
    }
}

impl Up {
    fn is_well(&self) -> bool {
        !self.is_broken.load(Ordering::Relaxed)
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
