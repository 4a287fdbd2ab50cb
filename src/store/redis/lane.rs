//! One connection, from the time that it came up until it is given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redis::cluster_routing::Slot;
use redis::{Cmd, Pipeline, PushKind, RedisResult, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use super::fault::{self, Effect, Failure, Fault, Stage};
use super::options::LinkOptions;
use super::topology::{self, Connection, Pushes};
use super::url::{Place, Target};
use crate::error;

/// After so many calls in a row without an answer a connection is given up.
const UNANSWERED_MAX: u32 = 3;

/// A connection that ends sooner than this has not helped.
const YOUNG: Duration = Duration::from_secs(2);

/// One connection.
///
/// In a cluster it stands for one to each node, which come back by themselves. There a call may have
/// been sent more than once, so that a refusal of the last attempt says nothing about the first.
#[derive(Debug)]
pub(super) struct Lane {
    connection: Connection,
    signs: Arc<Signs>,
    /// Calls since the last answer of any kind.
    unanswered: AtomicU32,
    born: Instant,
    /// The failed attempts in a row before this one.
    pub(super) failures: u32,
}

/// What a connection says about itself.
#[derive(Debug, Default)]
struct Signs {
    is_broken: AtomicBool,
}

impl Lane {
    /// Connects. `made` counts on when a node of a cluster is lost, since its client puts another
    /// connection in the place of the one by itself.
    pub(super) async fn open(
        target: &Target,
        options: &LinkOptions,
        made: &watch::Sender<u64>,
        failures: u32,
    ) -> error::Result<Self> {
        let signs = Arc::new(Signs::default());
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

    /// Sends one command and waits for its answer until `deadline`.
    pub(super) async fn ask(&self, command: &Cmd, deadline: Instant) -> Result<Value, Failure> {
        self.ask_noted(command, deadline).await.0
    }

    /// The same; says as well whether the command may have been sent more than once, so that the
    /// answer is to a repeat.
    pub(super) async fn ask_noted(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> (Result<Value, Failure>, bool) {
        let mut connection = self.connection.clone();
        let (answer, is_repeat) = connection.ask(command, deadline).await;
        (self.judge(answer, is_repeat), is_repeat)
    }

    /// Sends one command to every server there is.
    pub(super) async fn ask_everywhere(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<Value>, Failure> {
        let mut connection = self.connection.clone();
        let answers = connection.ask_everywhere(command, deadline).await;
        self.judge(answers, false)
    }

    /// Sends several commands in one piece; one that is refused has its error for an answer. Says as
    /// well whether they may have been sent more than once.
    pub(super) async fn ask_all(
        &self,
        commands: &Pipeline,
        slot: Option<Slot>,
        deadline: Instant,
    ) -> (Result<Vec<Value>, Failure>, bool) {
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

    /// Notes what the answer says of the connection.
    fn judge<T>(&self, answer: RedisResult<T>, is_repeat: bool) -> Result<T, Failure> {
        let cause = match answer {
            Ok(answer) => {
                self.unanswered.store(0, Ordering::Relaxed);
                return Ok(answer);
            }
            Err(cause) => cause,
        };
        let mut fault = fault::of(&cause, Stage::Sent);
        if fault.effect == Effect::None && is_repeat {
            fault = fault.doubted();
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
        Err(Failure { fault, cause })
    }

    fn note(&self, fault: &Fault) {
        if fault.breaks && !self.is_cluster() {
            self.break_off();
        }
    }

    /// Whether the connection is of no more use.
    pub(super) fn is_broken(&self) -> bool {
        self.signs.is_broken.load(Ordering::Relaxed)
    }

    /// Whether it came up so recently that its end is like a failed attempt.
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
