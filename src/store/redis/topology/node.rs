//! One node of a cluster: its connection, which comes back by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind as Theirs, Pipeline, PushKind, RedisError, RedisResult, Value, cmd};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Pushes, dial, tcp};
use crate::store::redis::backoff;
use crate::store::redis::options::LinkOptions;
use crate::store::redis::url::{Address, Target};

/// After so many calls in a row without an answer a connection is given up.
const UNANSWERED_MAX: u32 = 3;
/// A connection that ends sooner than this has not helped.
const YOUNG: Duration = Duration::from_secs(2);

/// What is sent to a node in one piece.
#[derive(Clone, Copy)]
pub(super) enum Calls<'a> {
    One(&'a Cmd),
    Many(&'a Pipeline),
}

/// One node. Whoever needs its connection waits for the one attempt to make it, and fails at once
/// while the node rests after an attempt that failed.
pub(super) struct Node {
    pub(super) address: Address,
    target: Target,
    options: LinkOptions,
    pushes: Pushes,
    state: Arc<Mutex<State>>,
    /// Calls since the last answer of any kind.
    unanswered: AtomicU32,
}

#[derive(Default)]
struct State {
    up: Option<Up>,
    /// Attempts in a row that failed.
    failures: u32,
    /// Until when no attempt is made, and why.
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
        options: &LinkOptions,
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

    /// Whether it has a connection, as far as can be told without waiting.
    pub(super) fn is_up(&self) -> bool {
        let state = self.state.try_lock();
        state.is_ok_and(|state| state.up.as_ref().is_some_and(Up::is_well))
    }

    /// Its connection, made where there is none.
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
                    let words = "it ends each connection soon after it was made";
                    let error = RedisError::from((Theirs::Io, words));
                    state.fail(error, Duration::ZERO);
                }
            }
            if let Some((until, error)) = &state.rests
                && Instant::now() < *until
            {
                return Err(self.unreachable(error));
            }
            // A task of its own: whoever asked may go away, and others wait for it.
            let attempt = Attempt::of(self);
            let dialled = tokio::spawn(async move { attempt.make(&mut state).await });
            if dialled.await.is_err() {
                let words = "the runtime stopped while it was connected";
                return Err(self.unreachable(&RedisError::from((Theirs::Io, words))));
            }
        }
    }

    /// The error of a call that could not be sent.
    fn unreachable(&self, error: &RedisError) -> RedisError {
        if !matches!(error.kind(), Theirs::Io | Theirs::Parse) {
            return error.clone(); // it says so by itself
        }
        let words = "a node cannot be reached";
        let detail = format!("{}: {error}", self.address);
        RedisError::from((Theirs::ClusterConnectionNotFound, words, detail))
    }

    /// Notes that a call was answered, in whatever way.
    pub(super) fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// Notes that a call was not answered in its time. One late answer costs no connection.
    pub(super) async fn unanswered(&self) {
        let many = self.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
        if many < UNANSWERED_MAX {
            return;
        }
        self.answered();
        let mut state = self.state.lock().await;
        if state.up.take().is_some() {
            self.pushes.disconnected();
            let words = "it answers nothing";
            let error = RedisError::from((Theirs::Io, words));
            state.fail(error, self.options.connect_timeout);
        }
    }
}

/// What an attempt to connect needs.
struct Attempt {
    address: Address,
    target: Target,
    options: LinkOptions,
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
            // One that hangs costs its callers half of their time at most.
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

/// Sends calls; `asking` says that their slot is on its way to the node. Refusals of one call among
/// many are values, that of one alone is the error.
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

/// Each call with the word before it that has the node take it.
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
