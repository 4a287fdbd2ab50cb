//! Why an event is where it is, and what can be done about it.

use std::fmt;
use std::time::Duration;

use crate::bus::QueueLoad;
use crate::bus::explain::words::{counted, spoken};
use crate::duration::format;
use crate::error::{ErrorKind, shown};
use crate::event::{BucketId, EventId, State};
use crate::record::{Cause, NodeId};
use crate::time::{Timestamp, When};

/// Why an event is where it is; [`Display`](fmt::Display) says it in one line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It waits for its due time.
    NotDue {
        /// When it is due.
        due: Timestamp,
        /// In how long that is.
        left: Duration,
        /// How it was spread when it was pushed, before its first attempt.
        spread: Option<Spread>,
    },
    /// It is due, and nobody has moved it to the publish list.
    NotMoved {
        /// For how long it has been due.
        late: Duration,
    },
    /// Its queue is paused, on every node.
    Paused,
    /// Its queue may run no handler at all.
    NoWorkers {
        /// Whether that is set for every node; else this process has chosen it for itself.
        everywhere: bool,
    },
    /// No live node consumes its queue.
    NoConsumer {
        /// How many live nodes there are that consume other queues.
        others: usize,
    },
    /// It waits for its turn under the rate of its queue.
    RateLimited {
        /// How many handlers may start in a second, on all nodes together.
        per_second: f64,
        /// How many events are ready in its queue, this one among them.
        ready: usize,
        /// At this rate its turn comes within this span, if nothing else holds it up.
        turn: Duration,
    },
    /// It is ready, and others are before it: consumers are busy, or were until now.
    Behind {
        /// How many events are ready in its queue, this one among them.
        ready: usize,
        /// How many events of its queue belong to a node.
        leased: usize,
        /// How many live nodes consume its queue, this one among them.
        consumers: usize,
        /// What its queue does in this process, if it has a handler here.
        here: Option<QueueLoad>,
    },
    /// A node holds it.
    Held {
        /// Which.
        node: NodeId,
        /// When that lease ends, if it has a deadline of its own; else it lasts for as long as the
        /// node answers.
        until: Option<Timestamp>,
        /// Whether the node answers.
        standing: Standing,
        /// How many live nodes consume its queue and would take it back from a silent one.
        consumers: usize,
    },
    /// It is a dead letter: it is not tried again by itself.
    Dead {
        /// Why its last attempt failed; `None` where its record is not there any more.
        cause: Option<Cause>,
        /// What the handler said then.
        error: Option<String>,
    },
    /// It is over.
    Over {
        /// How.
        state: State,
        /// When, if a record tells.
        at: Option<Timestamp>,
    },
    /// The store did not answer, so whatever only the store knows is missing here.
    StoreAway {
        /// What a caller can do.
        kind: ErrorKind,
        /// What it said.
        error: String,
    },
    /// No queue of this store knows it.
    NotKnown {
        /// When its id was made.
        created: Timestamp,
        /// Whether that is later than the store's time, so that the id is not of its world.
        is_of_the_future: bool,
        /// Which bucket its id names.
        bucket: BucketId,
        /// How many queues have such a bucket, and were asked.
        asked: usize,
    },
}

/// How an event was spread when it was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spread {
    /// Over which window.
    pub window: Duration,
    /// By how much later it was made due than it was asked for.
    pub part: Duration,
    /// What was asked for; `None` where its push did not write that down.
    pub asked: Option<When>,
    /// When it was pushed, by the clock of who pushed it.
    pub pushed: Timestamp,
    /// Whether it has been given another due time since. Known of what was asked to be due at an
    /// instant; after a delay, the store's clock alone knows when that began.
    pub rescheduled: bool,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its push asked for ")?;
        match self.asked {
            None => {}
            Some(When::Now) => write!(f, "it at once, at {}, ", self.pushed)?,
            Some(When::After(delay)) => write!(f, "{} from {}, ", format(delay), self.pushed)?,
            Some(When::At(due)) => write!(f, "{due}, ")?,
        }
        let (part, window) = (spoken(self.part), format(self.window));
        match self.rescheduled {
            false => write!(f, "{part} sooner, spread over {window}"),
            true => write!(
                f,
                "which was spread by {part} of {window}, and it was rescheduled since"
            ),
        }
    }
}

/// Whether the node that holds an event is there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Standing {
    /// It is this process.
    Here {
        /// Whether its handler runs; else it waits for its time, or for a worker.
        runs: bool,
        /// What its queue does here.
        load: Option<QueueLoad>,
    },
    /// It answers the roll call.
    Answers,
    /// It is on the roll, and has not answered while it was listened for.
    Silent,
    /// It is not on the roll: it has left, or was silent for a minute.
    Gone,
    /// The roll could not be called.
    NotKnown,
}

impl Reason {
    /// What can be done about it, in one line; `None` where there is nothing to do but wait.
    #[must_use]
    pub fn advice(&self, id: EventId, queue: &str) -> Option<String> {
        let consume = || format!("start a process that consumes queue {queue}");
        Some(match self {
            Self::NotDue { .. } => format!(
                "reschedule(\"{id}\", ..) moves it, cancel(\"{id}\") takes it back, both of queue \
                 {queue}"
            ),
            Self::NotMoved { .. } => "if this lasts, look at the log and the processor load of \
                                      the nodes that consume this queue"
                .to_owned(),
            Self::Paused => format!("bus.resume(\"{queue}\") lets it go on"),
            Self::NoWorkers { everywhere: true } => {
                format!("bus.set_workers_everywhere(\"{queue}\", None), or a number above 0")
            }
            Self::NoWorkers { everywhere: false } => {
                format!("bus.set_workers(\"{queue}\", n) in this process")
            }
            Self::NoConsumer { .. } => consume(),
            Self::RateLimited { .. } => {
                format!("bus.set_rate(\"{queue}\", ..) raises the rate, or takes it away")
            }
            Self::Behind { here, .. } => {
                let is_full = here.as_ref().is_some_and(QueueLoad::is_busy);
                if !is_full {
                    return None;
                }
                format!("if this lasts, more workers for queue {queue}, or more processes")
            }
            Self::Held {
                standing,
                consumers,
                until,
                ..
            } => match standing {
                Standing::Silent | Standing::Gone if *consumers == 0 => {
                    format!("{}: nobody else takes it back", consume())
                }
                Standing::Silent | Standing::Gone => match until {
                    Some(_) => "nothing: a consumer takes it back at that time".to_owned(),
                    None => "nothing: another consumer takes it back within about 3s".to_owned(),
                },
                _ => return None,
            },
            Self::Dead { .. } => format!(
                "mend the cause, then bus.dead_letters().queue(\"{queue}\") and revive([id]), \
                 edit(id, ..) before it, or drop([id])"
            ),
            Self::Over { .. } => return None,
            Self::StoreAway { kind, .. } => match kind {
                ErrorKind::Corrupt | ErrorKind::Closed => {
                    "see `When something is wrong` in the guide to operations".to_owned()
                }
                _ => "see to the store, then ask again".to_owned(),
            },
            Self::NotKnown { .. } => "compare the id with the receipt, and this store with the \
                                      one that it was pushed to"
                .to_owned(),
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDue { due, left, spread } => {
                write!(f, "it is due in {}, at {due}", spoken(*left))?;
                spread.map_or(Ok(()), |spread| write!(f, "; {spread}"))
            }
            Self::NotMoved { late } => write!(
                f,
                "it has been due for {}, and no consumer has moved it yet",
                spoken(*late)
            ),
            Self::Paused => f.write_str("the queue is paused: no handler of it starts, anywhere"),
            Self::NoWorkers { everywhere: true } => {
                f.write_str("the queue has 0 workers, which is set for every node")
            }
            Self::NoWorkers { everywhere: false } => {
                f.write_str("the queue has 0 workers in this process")
            }
            Self::NoConsumer { others: 0 } => f.write_str("no live node consumes anything here"),
            Self::NoConsumer { others } => write!(
                f,
                "no live node consumes the queue; {} other queues",
                match others {
                    1 => "one consumes".to_owned(),
                    many => format!("{many} consume"),
                }
            ),
            Self::RateLimited {
                per_second,
                ready,
                turn,
            } => write!(
                f,
                "the queue may start {per_second} a second; {} ready, so its turn comes within \
                 about {}",
                counted(*ready, "event is", "events are"),
                spoken(*turn)
            ),
            Self::Behind {
                ready,
                leased,
                consumers,
                here,
            } => {
                write!(
                    f,
                    "{} ready in the queue and {} with {}",
                    counted(*ready, "event is", "events are"),
                    leased,
                    counted(*consumers, "consumer", "consumers")
                )?;
                here.as_ref().map_or(Ok(()), |load| write!(f, "; {load}"))
            }
            Self::Held {
                node,
                until,
                standing,
                ..
            } => {
                write!(f, "node {node} holds it ")?;
                match until {
                    Some(until) => write!(f, "until {until}")?,
                    None => f.write_str("for as long as that node answers")?,
                }
                match standing {
                    Standing::Here { runs, load } => {
                        f.write_str("; that is this process")?;
                        if *runs {
                            f.write_str(", and its handler runs")?;
                        }
                        load.as_ref().map_or(Ok(()), |load| write!(f, ": {load}"))
                    }
                    Standing::Answers => f.write_str(", and it answers"),
                    Standing::Silent => f.write_str(", and it does not answer"),
                    Standing::Gone => f.write_str(", and it is not there any more"),
                    Standing::NotKnown => f.write_str("; whether it does is not known"),
                }
            }
            Self::Dead { cause, error } => {
                f.write_str("it is a dead letter: ")?;
                match cause {
                    Some(cause) => write!(f, "its last attempt ended as {cause}")?,
                    None => f.write_str("the record of its last attempt is not there any more")?,
                }
                match error {
                    Some(error) => write!(f, ": {}", shown(error)),
                    None => Ok(()),
                }
            }
            Self::Over { state, at } => match at {
                Some(at) => write!(f, "it is over: {state} since {at}"),
                None => write!(
                    f,
                    "it is over: {state}; its last record is not there any more"
                ),
            },
            Self::StoreAway { kind, error } => match kind {
                ErrorKind::Corrupt => write!(f, "the store cannot read it: {}", shown(error)),
                ErrorKind::Invalid => write!(f, "the store refuses it: {}", shown(error)),
                _ => write!(f, "the store did not answer: {}", shown(error)),
            },
            Self::NotKnown {
                created,
                is_of_the_future,
                bucket,
                asked,
            } => {
                match asked {
                    0 => write!(f, "no queue of this store has a bucket {bucket}")?,
                    _ => write!(
                        f,
                        "bucket {bucket} of {} does not know it",
                        counted(*asked, "queue", "queues")
                    )?,
                }
                match is_of_the_future {
                    true => write!(f, ", and its id says {created}, which is yet to come"),
                    false => write!(
                        f,
                        ": the id is wrong, of another store, or older than what is remembered; \
                         it says {created}"
                    ),
                }
            }
        }
    }
}

/// What a queue does in this process, as the middle of a sentence.
impl fmt::Display for QueueLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "here {} of {} workers are active and {} of {} wait in the ring",
            self.active, self.workers, self.queued, self.ring
        )
    }
}
