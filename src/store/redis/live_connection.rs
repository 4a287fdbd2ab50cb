//! A single connection, from connecting until it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redis::cluster_routing::Slot;
use redis::{Cmd, Pipeline, PushKind, RedisResult, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use super::fault::{self, CallFailure, Effect, ErrorClass, Stage};
use super::options::ConnectionOptions;
use super::topology::{self, Connection, Pushes};
use super::url::{Place, Target};
use crate::error;

/// A connection is dropped after this many unanswered calls in a row.
const UNANSWERED_MAX: u32 = 3;

/// A connection that ends sooner than this counts as a failed attempt.
const YOUNG: Duration = Duration::from_secs(2);

/// A connection.
///
/// In a cluster it stands for one to each node, which reconnect by themselves. There a call may
/// have been sent more than once, so that a refusal of the last attempt proves nothing about the
/// first.
#[derive(Debug)]
pub(super) struct LiveConnection {
    connection: Connection,
    signs: Arc<ConnectionState>,
    /// Calls since the last reply of any kind.
    unanswered: AtomicU32,
    born: Instant,
    /// The failed attempts in a row before this one.
    pub(super) failures: u32,
}

/// The state that push messages of the connection update.
#[derive(Debug, Default)]
struct ConnectionState {
    is_broken: AtomicBool,
}

impl LiveConnection {
    /// Connects. `made` is incremented when a cluster node is lost, since the client replaces its
    /// connection by itself.
    pub(super) async fn open(
        target: &Target,
        options: &ConnectionOptions,
        made: &watch::Sender<u64>,
        failures: u32,
    ) -> error::Result<Self> {
        let signs = Arc::new(ConnectionState::default());
        let is_cluster = matches!(target.place, Place::Cluster(_));
        let pushes = Pushes::new({
            let (signs, made) = (Arc::clone(&signs), made.clone());
            move |push| {
                if push.kind != PushKind::Disconnection {
                    return;
                }
                if is_cluster {
                    made.send_modify(|made| *made += 1);
                } else {
                    signs.is_broken.store(true, Ordering::Relaxed);
                }
            }
        });
        Ok(Self {
            connection: topology::connect(target, options, pushes).await?,
            signs,
            unanswered: AtomicU32::new(0),
            born: Instant::now(),
            failures,
        })
    }

    /// Sends one command and waits for its reply until `deadline`.
    pub(super) async fn ask(&self, command: &Cmd, deadline: Instant) -> Result<Value, CallFailure> {
        self.send_noted(command, deadline).await.0
    }

    /// Sends one command; also returns whether it may have been sent more than once, so that the
    /// reply is to a repeat.
    pub(super) async fn send_noted(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> (Result<Value, CallFailure>, bool) {
        let mut connection = self.connection.clone();
        let (answer, is_repeat) = connection.ask(command, deadline).await;
        (self.judge(answer, is_repeat), is_repeat)
    }

    /// Sends one command to every server.
    pub(super) async fn ask_everywhere(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<Value>, CallFailure> {
        let mut connection = self.connection.clone();
        let answers = connection.ask_everywhere(command, deadline).await;
        self.judge(answers, false)
    }

    /// Sends several commands in one pipeline; a refused command has its error as its reply. Also
    /// returns whether they may have been sent more than once.
    pub(super) async fn ask_all(
        &self,
        commands: &Pipeline,
        slot: Option<Slot>,
        deadline: Instant,
    ) -> (Result<Vec<Value>, CallFailure>, bool) {
        let mut connection = self.connection.clone();
        let (answers, is_repeat) = connection.ask_all(commands, slot, deadline).await;
        let answers = self.judge(answers, is_repeat);
        for answer in answers.iter().flatten() {
            if let Value::ServerError(error) = answer {
                self.note(&fault::of(&error.clone().into(), Stage::Sent));
            }
        }
        (answers, is_repeat)
    }

    /// Updates the state of the connection by the result.
    fn judge<T>(&self, answer: RedisResult<T>, is_repeat: bool) -> Result<T, CallFailure> {
        let cause = match answer {
            Ok(answer) => {
                self.unanswered.store(0, Ordering::Relaxed);
                return Ok(answer);
            }
            Err(cause) => cause,
        };
        let mut fault = fault::of(&cause, Stage::Sent);
        if fault.effect == Effect::None && is_repeat {
            fault = fault.maybe_applied();
        }
        if fault.is_silence {
            let unanswered = self.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
            if unanswered >= UNANSWERED_MAX && !self.is_cluster() {
                self.break_off();
            }
        } else {
            self.unanswered.store(0, Ordering::Relaxed);
        }
        self.note(&fault);
        Err(CallFailure { fault, cause })
    }

    fn note(&self, fault: &ErrorClass) {
        if fault.breaks && !self.is_cluster() {
            self.break_off();
        }
    }

    /// Returns whether the connection is of no more use.
    pub(super) fn is_broken(&self) -> bool {
        self.signs.is_broken.load(Ordering::Relaxed)
    }

    /// Returns whether it is so new that its end counts as a failed attempt.
    pub(super) fn is_young(&self) -> bool {
        self.born.elapsed() < YOUNG
    }

    fn break_off(&self) {
        self.signs.is_broken.store(true, Ordering::Relaxed);
    }

    fn is_cluster(&self) -> bool {
        matches!(self.connection, Connection::Cluster(_))
    }
}
