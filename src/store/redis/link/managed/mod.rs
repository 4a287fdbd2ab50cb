//! A self-healing connection to the servers.

pub(in crate::store::redis) mod durable;
mod runs;
mod second_opinion;

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use redis::cluster_routing::Slot;
use redis::{Arg, Cmd, Pipeline, RedisError, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use self::durable::DurableCalls;
pub(in crate::store::redis) use self::runs::{ScriptReply, maybe_applied, with_text};
use super::fault::{self, CallFailure, Stage};
use super::live_connection::LiveConnection;
use super::options::{ConnectionOptions, RECONNECT};
use super::url::{Place, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::panics;

/// A connection to the servers; its clones share it.
///
/// When the connection ends, every call in flight fails at once, and the next call reconnects: one
/// attempt at a time, shared by all callers, after a delay that doubles from 20 ms to 2 s with
/// jitter. No call takes longer than [`timeout`](ConnectionOptions::timeout), including all waits. A
/// cancelled call does not affect others.
#[derive(Clone)]
pub(in crate::store::redis) struct ManagedConnection {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    options: ConnectionOptions,
    state: Mutex<State>,
    /// The number of connections so far.
    made: watch::Sender<u64>,
    /// The executor of calls that wait for durability, created on first use.
    durable: OnceLock<Arc<DurableCalls>>,
}

enum State {
    Up(Arc<LiveConnection>),
    /// Disconnected: the next attempt is the `failures + 1`th in a row, and not earlier.
    Down {
        failures: u32,
        not_before: Instant,
    },
    /// An attempt is under way.
    Connecting(Attempt),
    Closed,
}

/// The result of an attempt, as soon as there is one.
type Attempt = watch::Receiver<Option<std::result::Result<Arc<LiveConnection>, ConnectFailed>>>;

/// Why there is no connection, shared by all callers that waited for it.
#[derive(Clone, Debug)]
struct ConnectFailed {
    kind: ErrorKind,
    words: Arc<str>,
    cause: Option<RedisError>,
}

impl ConnectFailed {
    fn of(error: &Error) -> Self {
        Self {
            kind: error.kind(),
            words: error.to_string().into(),
            cause: fault::cause_of(error).cloned(),
        }
    }
}

impl From<ConnectFailed> for Error {
    fn from(why: ConnectFailed) -> Self {
        let error = Self::new(why.kind, why.words.to_string());
        match why.cause {
            Some(cause) => error.because(cause),
            None => error,
        }
    }
}

impl fmt::Debug for ManagedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagedConnection")
            .field("target", &self.shared.target)
            .field("connections_made", &*self.shared.made.borrow())
            .finish_non_exhaustive()
    }
}

impl ManagedConnection {
    /// Connects once, so that a wrong configuration is reported at the start.
    ///
    /// # Errors
    ///
    /// As [`connect`](super::topology::connect).
    pub(in crate::store::redis) async fn open(
        target: &Target,
        options: &ConnectionOptions,
    ) -> Result<Self> {
        let link = Self::new(target, options.clone());
        link.live(link.deadline()).await?;
        Ok(link)
    }

    /// Creates a connection that the first call opens.
    pub(in crate::store::redis) fn new(target: &Target, options: ConnectionOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                target: target.clone(),
                options,
                state: Mutex::new(State::Down {
                    failures: 0,
                    not_before: Instant::now(),
                }),
                made: watch::Sender::new(0),
                durable: OnceLock::new(),
            }),
        }
    }

    /// Sends one command.
    ///
    /// # Errors
    ///
    /// [`Unknown`](ErrorKind::Unknown) when it may have happened; any other kind when it has not.
    pub(in crate::store::redis) async fn send(&self, command: &Cmd) -> Result<Value> {
        let deadline = self.deadline();
        let live = self.live(deadline).await?;
        let reply = live.ask(command, deadline).await;
        self.judge(&live, reply)
    }

    /// Sends one command to every server; the replies come in no order.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), if one of them fails.
    pub(in crate::store::redis) async fn send_everywhere(
        &self,
        command: &Cmd,
    ) -> Result<Vec<Value>> {
        let deadline = self.deadline();
        let live = self.live(deadline).await?;
        let replies = live.ask_everywhere(command, deadline).await;
        self.judge(&live, replies)
    }

    /// Sends several commands in one pipeline; their replies, including errors, come in order. In a
    /// cluster all go to the node that has `slot`. `more` is added to the timeout, for commands
    /// that wait on the server. Also returns whether they may have been sent more than once.
    pub(in crate::store::redis) async fn send_all(
        &self,
        commands: &Pipeline,
        slot: Option<Slot>,
        more: Duration,
    ) -> Result<(Vec<Value>, bool)> {
        let deadline = self.deadline();
        let live = self.live(deadline).await?;
        let (replies, is_repeat) = live.ask_all(commands, slot, deadline + more).await;
        self.judge(&live, replies)
            .map(|replies| (replies, is_repeat))
    }

    /// Returns the error for a refused call among several.
    pub(in crate::store::redis) fn refused(&self, cause: RedisError) -> Error {
        CallFailure::new(cause, Stage::Sent).error(&self.shared.target.to_string())
    }

    /// Returns whether it leads to a cluster.
    pub(in crate::store::redis) fn is_cluster(&self) -> bool {
        matches!(self.shared.target.place, Place::Cluster(_))
    }

    /// Returns the slot of a script call's keys, in a cluster.
    pub(in crate::store::redis) fn slot_of(&self, call: &Cmd) -> Option<Slot> {
        let first_key = call.args_iter().nth(3).filter(|_| self.is_cluster())?;
        match first_key {
            Arg::Simple(key) => Some(Slot::for_key(key)),
            _ => None,
        }
    }

    /// Counts the connections so far; a change means that notifications on the last one may have
    /// been lost.
    pub(in crate::store::redis) fn connections(&self) -> watch::Receiver<u64> {
        self.shared.made.subscribe()
    }

    /// Closes the connection; calls in flight still get their replies, later ones fail.
    pub(in crate::store::redis) fn close(&self) {
        *self.shared.state() = State::Closed;
        if let Some(durable) = self.shared.durable.get() {
            durable.close();
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.shared.options.timeout
    }

    /// Returns the connection, reconnecting if needed. At most half of the time is spent on that,
    /// so that enough is left for the reply.
    async fn live(&self, deadline: Instant) -> Result<Arc<LiveConnection>> {
        let mut attempt = match self.shared.live_or_attempt()? {
            Ok(live) => return Ok(live),
            Err(attempt) => attempt,
        };
        let options = &self.shared.options;
        let patience = deadline - options.timeout / 2;
        let ended = timeout_at(patience, attempt.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(outcome)) => match outcome.clone() {
                Some(Ok(live)) => Ok(live),
                Some(Err(why)) => Err(why.into()),
                None => Err(self.unconnected("the attempt to connect was cancelled")),
            },
            Ok(Err(_)) => Err(self.unconnected("the attempt to connect was cancelled")),
            Err(_) => Err(self.unconnected("there is no connection yet")),
        }
    }

    fn unconnected(&self, words: &str) -> Error {
        let target = &self.shared.target;
        Error::new(ErrorKind::Unavailable, format!("{target}: {words}"))
    }

    /// Drops the connection if the reply, or another one, has shown that it has ended.
    fn judge<T>(
        &self,
        live: &Arc<LiveConnection>,
        reply: std::result::Result<T, CallFailure>,
    ) -> Result<T> {
        if live.is_broken() {
            self.shared.give_up(live);
        }
        reply.map_err(|failure| failure.error(&self.shared.target.to_string()))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is one assignment.
        self.state.lock()
    }

    /// Returns the connection, or the attempt to open one, which it starts if needed.
    fn live_or_attempt(
        self: &Arc<Self>,
    ) -> Result<std::result::Result<Arc<LiveConnection>, Attempt>> {
        let mut state = self.state();
        let (failures, not_before) = match &*state {
            State::Up(live) if !live.is_broken() => return Ok(Ok(Arc::clone(live))),
            State::Up(live) => next_attempt(live),
            State::Down {
                failures,
                not_before,
            } => (*failures, *not_before),
            // A runtime that stopped has dropped the attempt.
            State::Connecting(attempt) if attempt.has_changed().is_err() => (0, Instant::now()),
            State::Connecting(attempt) => return Ok(Err(attempt.clone())),
            State::Closed => return Err(closed()),
        };
        let (sender, attempt) = watch::channel(None);
        *state = State::Connecting(attempt.clone());
        drop(state);
        let shared = Arc::clone(self);
        self.options.spawn(async move {
            sleep_until(not_before).await;
            let outcome = shared.attempt(failures).await;
            sender.send_replace(Some(outcome));
        });
        Ok(Err(attempt))
    }

    /// Makes one attempt and updates the state.
    async fn attempt(
        self: &Arc<Self>,
        failures: u32,
    ) -> std::result::Result<Arc<LiveConnection>, ConnectFailed> {
        let outcome = LiveConnection::open(&self.target, &self.options, &self.made, failures).await;
        let mut state = self.state();
        if matches!(*state, State::Closed) {
            return Err(ConnectFailed::of(&closed()));
        }
        match outcome {
            Ok(live) => {
                let live = Arc::new(live);
                *state = State::Up(Arc::clone(&live));
                drop(state);
                self.is_up(&live);
                panics::reported(|| tracing::debug!(target = %self.target, "connected"));
                Ok(live)
            }
            Err(error) => {
                let error = self.may_pass(error);
                let failures = failures.saturating_add(1);
                *state = State::Down {
                    failures,
                    not_before: Instant::now() + RECONNECT.jittered(failures),
                };
                drop(state);
                self.options.outage.failed((), &error);
                Err(ConnectFailed::of(&error))
            }
        }
    }

    /// Notes a new connection, and has it probed.
    fn is_up(self: &Arc<Self>, live: &Arc<LiveConnection>) {
        let probed = probe(Arc::downgrade(self), Arc::downgrade(live));
        self.options.spawn(probed);
        self.made.send_modify(|made| *made += 1);
        self.options.outage.succeeded(&());
    }

    /// Turns an error that no retry would mend into a temporary one, as connecting has succeeded
    /// before: a proxy that starts, a file of certificates that is being written.
    fn may_pass(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Invalid if *self.made.borrow() > 0 => {
                Error::new(ErrorKind::Unavailable, error.to_string()).because(error)
            }
            _ => error,
        }
    }

    /// Drops `live`, unless another call already has.
    fn give_up(&self, live: &Arc<LiveConnection>) {
        let mut state = self.state();
        if matches!(&*state, State::Up(current) if Arc::ptr_eq(current, live)) {
            let (failures, not_before) = next_attempt(live);
            *state = State::Down {
                failures,
                not_before,
            };
            drop(state);
            panics::reported(|| tracing::debug!(target = %self.target, "connection closed"));
        }
    }
}

/// Returns when to reconnect after `live`, and after how many failures in a row: a connection that
/// ended as soon as it was open, and carried no call, counts as one, which prevents a tight loop.
fn next_attempt(live: &LiveConnection) -> (u32, Instant) {
    if !live.is_unproven() {
        return (0, Instant::now());
    }
    let failures = live.failures.saturating_add(1);
    (failures, Instant::now() + RECONNECT.jittered(failures))
}

/// Probes a connection while nothing uses it, and replaces one that was forgotten on the way, so that
/// the next call need not find out.
async fn probe(shared: Weak<Shared>, live: Weak<LiveConnection>) {
    while let Some((every, patience)) = shared.upgrade().map(|shared| {
        let options = &shared.options;
        (options.probe_every, options.connect_timeout)
    }) {
        sleep(every).await;
        let Some(live) = live.upgrade() else {
            return;
        };
        live.probe(patience).await;
        if live.is_broken() {
            if let Some(shared) = shared.upgrade() {
                shared.give_up(&live);
                let _ = shared.live_or_attempt(); // unless it was closed
            }
            return;
        }
    }
}

fn closed() -> Error {
    Error::closed("the connection to redis was closed")
}
