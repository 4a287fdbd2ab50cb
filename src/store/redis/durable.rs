//! Calls that are answered only when they are as durable as was asked.
//!
//! `WAIT` and `WAITAOF` hold up whatever comes after them on their connection, so these calls have
//! a connection of their own; and they confirm everything that the connection wrote before, so
//! calls that come while one group waits form the next group and share its wait. A server that
//! syncs once a second so confirms any number of calls a second later, instead of one a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::cluster_routing::Slot;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::oneshot;

use super::link::{Link, with_text};
use super::topology::accepted;
use crate::error::{Error, ErrorKind, Result};

/// The most calls of one group.
const GROUP_MAX: usize = 256;

/// What a call waits for after it has been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wait {
    /// Until the server has synced its append-only file; Redis 7.2 or later.
    pub(super) disk: bool,
    /// Until so many replicas have it.
    pub(super) replicas: u16,
    /// And no longer than this.
    pub(super) timeout: Duration,
}

/// How far a call has come when the wait was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) disk: bool,
    pub(super) replicas: u16,
}

impl Wait {
    fn command(&self) -> Cmd {
        let millis = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        // Zero would be without end.
        let millis = millis.max(1);
        let mut command = redis::cmd(if self.disk { "WAITAOF" } else { "WAIT" });
        if self.disk {
            command.arg(1);
        }
        command.arg(self.replicas).arg(millis);
        command
    }

    fn reached(&self, answer: Value) -> RedisResult<Reached> {
        let answer = accepted(answer)?;
        let (synced, replicas): (u64, u64) = if self.disk {
            redis::from_redis_value(answer)?
        } else {
            (0, redis::from_redis_value(answer)?)
        };
        Ok(Reached {
            disk: synced > 0,
            replicas: u16::try_from(replicas).unwrap_or(u16::MAX),
        })
    }
}

/// One call, and whoever waits for it.
struct Call {
    command: Cmd,
    text: Arc<str>,
    answer: oneshot::Sender<Result<(Value, Reached)>>,
}

/// What shares a group: the wait, and in a cluster the slot, so the node.
type Lot = (Option<Slot>, Wait);

/// The calls that wait for their group, and the link that carries them.
pub(super) struct Durable {
    link: Link,
    waiting: Mutex<HashMap<Lot, Vec<Call>>>,
}

impl Durable {
    /// Over a link that carries nothing else.
    pub(super) fn new(link: Link) -> Arc<Self> {
        Arc::new(Self {
            link,
            waiting: Mutex::new(HashMap::new()),
        })
    }

    /// Carries out one call with whichever others come at the same time.
    pub(super) async fn run(
        self: &Arc<Self>,
        text: &str,
        call: &Cmd,
        wait: Wait,
    ) -> Result<(Value, Reached)> {
        let lot = (self.link.slot_of(call), wait);
        let (answer, answered) = oneshot::channel();
        let call = Call {
            command: call.clone(),
            text: text.into(),
            answer,
        };
        let is_first = {
            let mut waiting = self.waiting();
            let is_first = !waiting.contains_key(&lot);
            waiting.entry(lot).or_default().push(call);
            is_first
        };
        if is_first {
            let carrier = Carrier {
                durable: Arc::clone(self),
                lot,
                is_done: false,
            };
            tokio::spawn(carrier.carry());
        }
        answered.await.unwrap_or_else(|_| {
            let words = "the call was given up before its answer";
            Err(Error::new(ErrorKind::Unknown, words))
        })
    }

    /// Lets go of the connection.
    pub(super) fn close(&self) {
        self.link.close();
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Lot, Vec<Call>>> {
        // Every change under the lock is one step.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one group, and its wait behind it.
    async fn send(&self, (slot, wait): Lot, calls: &[Call]) -> Result<(Vec<Value>, Value)> {
        let mut answers = self
            .exchange(slot, wait, calls.iter().map(|call| call.command.clone()))
            .await?;
        let unknown: Vec<usize> = (0..calls.len())
            .filter(|call| is_noscript(&answers.0[*call]))
            .collect();
        if !unknown.is_empty() {
            let texts = unknown.iter().map(|call| &calls[*call]);
            let texts = texts.map(|call| with_text(&call.text, &call.command));
            // The second wait confirms what the first group wrote as well.
            let (again, confirmed) = self.exchange(slot, wait, texts).await?;
            for (call, answer) in unknown.into_iter().zip(again) {
                answers.0[call] = answer;
            }
            answers.1 = confirmed;
        }
        Ok(answers)
    }

    async fn exchange(
        &self,
        slot: Option<Slot>,
        wait: Wait,
        commands: impl Iterator<Item = Cmd>,
    ) -> Result<(Vec<Value>, Value)> {
        let mut pipeline = Pipeline::new();
        for command in commands {
            pipeline.add_command(command);
        }
        pipeline.add_command(wait.command());
        let mut answers = self.link.send_all(&pipeline, slot, wait.timeout).await?;
        match answers.pop() {
            Some(confirmed) if answers.len() + 1 == pipeline.len() => Ok((answers, confirmed)),
            _ => Err(Error::new(
                ErrorKind::Unknown,
                "the server sent fewer answers than it was sent calls",
            )),
        }
    }
}

/// Carries one lot, group after group, until nobody waits.
struct Carrier {
    durable: Arc<Durable>,
    lot: Lot,
    is_done: bool,
}

impl Carrier {
    async fn carry(mut self) {
        while let Some(calls) = self.next_group() {
            let outcome = self.durable.send(self.lot, &calls).await;
            self.answer(calls, outcome);
        }
        self.is_done = true;
    }

    /// The next calls; where there are none the lot is gone, and the next call brings it back.
    fn next_group(&self) -> Option<Vec<Call>> {
        let mut waiting = self.durable.waiting();
        let calls = waiting.get_mut(&self.lot)?;
        if calls.is_empty() {
            waiting.remove(&self.lot);
            return None;
        }
        let rest = calls.split_off(calls.len().min(GROUP_MAX));
        Some(std::mem::replace(calls, rest))
    }

    fn answer(&self, calls: Vec<Call>, outcome: Result<(Vec<Value>, Value)>) {
        let link = &self.durable.link;
        let (answers, confirmed) = match outcome {
            Ok(answers) => answers,
            Err(error) => {
                for call in calls {
                    let shared = Error::new(error.kind(), error.to_string());
                    let _ = call.answer.send(Err(shared));
                }
                return;
            }
        };
        let reached = self.lot.1.reached(confirmed);
        for (call, answer) in calls.into_iter().zip(answers) {
            let outcome = match (accepted(answer), &reached) {
                (Err(refused), _) => Err(link.refused(refused)),
                (Ok(answer), Ok(reached)) => Ok((answer, *reached)),
                (Ok(_), Err(error)) => Err(unconfirmed(error)),
            };
            // Whoever does not wait any more does not want to know.
            let _ = call.answer.send(outcome);
        }
    }
}

/// A runtime that stops takes the carrier with it; those who wait are told.
impl Drop for Carrier {
    fn drop(&mut self) {
        if !self.is_done {
            self.durable.waiting().remove(&self.lot);
        }
    }
}

fn unconfirmed(error: &redis::RedisError) -> Error {
    let text = format!("it was carried out, and nobody confirms how durably ({error})");
    Error::new(ErrorKind::Unknown, text)
}

fn is_noscript(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "NOSCRIPT")
}
