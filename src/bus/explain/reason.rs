//! The reasons why an event is where it is, and advice for each.

use std::fmt;
use std::time::Duration;

use crate::bus::admin::QueueLoad;
use crate::bus::explain::format::{format_span, with_noun};
use crate::duration::format;
use crate::error::{ErrorKind, shown};
use crate::event::{BucketId, EventId, State};
use crate::record::{Cause, NodeId};
use crate::time::{Timestamp, When};

/// Why an event is where it is; [`Display`](fmt::Display) formats it as one line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It waits for its due time.
    NotDue {
        /// When it is due.
        due: Timestamp,
        /// The time until then.
        left: Duration,
        /// Its jitter, before its first attempt.
        spread: Option<Spread>,
    },
    /// It is due, but not yet on the ready list.
    NotMoved {
        /// How long it has been due.
        late: Duration,
    },
    /// Its queue is paused, on every node.
    Paused,
    /// Its queue has 0 workers.
    NoWorkers {
        /// Whether that is set for every node, or only in this process.
        everywhere: bool,
    },
    /// No live node consumes its queue.
    NoConsumer {
        /// How many live nodes consume other queues.
        others: usize,
    },
    /// It waits for its turn under its queue's rate limit.
    RateLimited {
        /// How many handlers may start per second, over all nodes.
        per_second: f64,
        /// Whether this process declares it, in an annotation or settings, and no operator has set one.
        is_declared: bool,
        /// How many events are ready in its queue, including this one.
        ready: usize,
        /// The time until its turn at this rate, if nothing else delays it.
        turn: Duration,
    },
    /// It is ready, behind other events: consumers are busy, or were until now.
    Behind {
        /// How many events are ready in its queue, including this one.
        ready: usize,
        /// How many events of its queue are leased.
        leased: usize,
        /// How many live nodes consume its queue, including this one.
        consumers: usize,
        /// The load of its queue in this process, if it has a handler here.
        here: Option<QueueLoad>,
    },
    /// A node has leased it.
    Held {
        /// The node.
        node: NodeId,
        /// When the lease ends, if it has its own deadline; else it lasts while the node is alive.
        until: Option<Timestamp>,
        /// Whether the node is alive.
        standing: HolderStatus,
        /// How many live nodes consume its queue and would reap it from a dead one.
        consumers: usize,
        /// Whether it is its last attempt.
        is_last: bool,
    },
    /// It is a dead letter: it is not retried by itself.
    Dead {
        /// Why its last attempt failed; `None` without a record of it.
        cause: Option<Cause>,
        /// The handler's error.
        error: Option<String>,
    },
    /// It is over.
    Over {
        /// Its final state.
        state: State,
        /// When it ended, if a record says so.
        at: Option<Timestamp>,
    },
    /// The store did not respond, so facts are missing.
    StoreAway {
        /// The kind of the error.
        kind: ErrorKind,
        /// The error.
        error: String,
    },
    /// The store's time, by which events are due, differs from the clock of this machine by more
    /// than a second.
    ClockDiffers {
        /// By how much.
        by: Duration,
        /// Whether the store's time is ahead.
        is_ahead: bool,
    },
    /// No queue of this store knows it.
    NotKnown {
        /// When its id was made.
        created: Timestamp,
        /// Whether that is later than the store's time, so that the id comes from elsewhere.
        is_of_the_future: bool,
        /// The bucket of its id.
        bucket: BucketId,
        /// How many queues have such a bucket, and were queried.
        queues: usize,
    },
}

/// The jitter of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spread {
    /// The jitter window.
    pub window: Duration,
    /// How much later than requested it was made due.
    pub part: Duration,
    /// The requested time; `None` if its push did not store it.
    pub requested_due: Option<When>,
    /// When it was pushed, by the pusher's clock.
    pub pushed: Timestamp,
    /// Whether it was rescheduled since. Known if an instant was requested; a delay starts at the
    /// store's clock.
    pub rescheduled: bool,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its push requested ")?;
        match self.requested_due {
            None => {}
            Some(When::Now) => write!(f, "it at once, at {}, ", self.pushed)?,
            Some(When::After(delay)) => write!(f, "{} from {}, ", format(delay), self.pushed)?,
            Some(When::At(due)) => write!(f, "{due}, ")?,
        }
        let (part, window) = (format_span(self.part), format(self.window));
        if !self.rescheduled {
            write!(f, "{part} sooner, spread over {window}")
        } else {
            write!(
                f,
                "which was spread by {part} of {window}, and it was rescheduled since"
            )
        }
    }
}

/// Whether the node that has leased an event is alive.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HolderStatus {
    /// It is this process.
    Here {
        /// Whether its handler runs; else it waits for its time, or for a worker.
        runs: bool,
        /// The load of its queue here.
        load: Option<QueueLoad>,
    },
    /// It polls the membership.
    Answers,
    /// It is a member, but did not poll while it was observed.
    Silent,
    /// It is no member: it has left, or was silent for a minute.
    Gone,
    /// The membership could not be read.
    NotKnown,
}

impl Reason {
    /// Returns in one line what can be done; `None` where the only thing is to wait.
    #[must_use]
    pub fn advice(&self, id: EventId, queue: &str) -> Option<String> {
        let consume = || format!("start a process that consumes queue {queue}");
        Some(match self {
            Self::NotDue { .. } => format!(
                "reschedule(\"{id}\", ..) moves it, cancel(\"{id}\") cancels it, both of queue \
                 {queue}"
            ),
            Self::NotMoved { .. } => "if this lasts, check the log and the processor load of \
                                      the nodes that consume this queue"
                .to_owned(),
            Self::Paused => format!("bus.resume(\"{queue}\") resumes it"),
            Self::NoWorkers { everywhere: true } => {
                format!("bus.set_workers_everywhere(\"{queue}\", None), or a number above 0")
            }
            Self::NoWorkers { everywhere: false } => {
                format!("bus.set_workers(\"{queue}\", n) in this process")
            }
            Self::NoConsumer { .. } => format!("{}, or lease from it", consume()),
            Self::RateLimited { .. } => {
                format!("bus.set_rate(\"{queue}\", ..) sets another, over a declared one too")
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
                _ if until.is_some() => return None,
                HolderStatus::Silent | HolderStatus::Gone if *consumers == 0 => {
                    format!("{}: no live node reaps it", consume())
                }
                HolderStatus::Silent | HolderStatus::Gone => {
                    "nothing: another consumer reaps it within about 3s".to_owned()
                }
                _ => return None,
            },
            Self::Dead { .. } => format!(
                "fix the cause, then bus.dead_letters().queue(\"{queue}\") and revive([id]), \
                 edit(id, ..) before it, or drop([id])"
            ),
            Self::Over { .. } => return None,
            Self::StoreAway { kind, .. } => match kind {
                ErrorKind::Corrupt | ErrorKind::Closed => {
                    "see `Troubleshooting` in the guide to operations".to_owned()
                }
                _ => "restore the store, then explain again".to_owned(),
            },
            Self::ClockDiffers { .. } => {
                "set the clock right; see `Troubleshooting` in the guide to operations".to_owned()
            }
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
                write!(f, "it is due in {}, at {due}", format_span(*left))?;
                spread.map_or(Ok(()), |spread| write!(f, "; {spread}"))
            }
            Self::NotMoved { late } => write!(
                f,
                "it has been due for {}, and no consumer has moved it yet",
                format_span(*late)
            ),
            Self::Paused => f.write_str("the queue is paused on every node"),
            Self::NoWorkers { everywhere: true } => {
                f.write_str("the queue has 0 workers, which is set for every node")
            }
            Self::NoWorkers { everywhere: false } => {
                f.write_str("the queue has 0 workers in this process")
            }
            Self::NoConsumer { others: 0 } => f.write_str(
                "no live node has a handler; consumers that lease, as over HTTP, are no nodes",
            ),
            Self::NoConsumer { others } => write!(
                f,
                "no live node has a handler for the queue; {} other queues; consumers that lease, as \
                 over HTTP, are no nodes",
                match others {
                    1 => "one consumes".to_owned(),
                    many => format!("{many} consume"),
                }
            ),
            Self::RateLimited {
                per_second,
                is_declared,
                ready,
                turn,
            } => write!(
                f,
                "the rate limit is {per_second} per second{}; {} ready, so its turn comes within \
                 about {}",
                is_declared.then_some(", as declared").unwrap_or_default(),
                with_noun(*ready, "event is", "events are"),
                format_span(*turn)
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
                    with_noun(*ready, "event is", "events are"),
                    leased,
                    with_noun(*consumers, "consumer", "consumers")
                )?;
                here.as_ref().map_or(Ok(()), |load| write!(f, "; {load}"))
            }
            // It settles in time or not, whatever the membership says of it: consumers that pull are
            // no members.
            Self::Held {
                until: Some(until),
                is_last,
                ..
            } => write!(
                f,
                "a consumer that pulls, as over HTTP, has leased it until {until}; it is {} then, \
                 unless it is settled or extended",
                is_last.then_some("a dead letter").unwrap_or("ready again")
            ),
            Self::Held { node, standing, .. } => {
                write!(f, "node {node} has leased it while that node is alive")?;
                match standing {
                    HolderStatus::Here { runs, load } => {
                        f.write_str("; that is this process")?;
                        if *runs {
                            f.write_str(", and its handler runs")?;
                        }
                        load.as_ref().map_or(Ok(()), |load| write!(f, ": {load}"))
                    }
                    HolderStatus::Answers => f.write_str(", and it is alive"),
                    HolderStatus::Silent => f.write_str(", and it does not respond"),
                    HolderStatus::Gone => f.write_str(", and it is gone"),
                    HolderStatus::NotKnown => f.write_str("; whether it is alive is unknown"),
                }
            }
            Self::Dead { cause, error } => {
                f.write_str("it is a dead letter: ")?;
                match cause {
                    Some(cause) => write!(f, "its last attempt ended as {cause}")?,
                    None => f.write_str("the record of its last attempt was pruned")?,
                }
                match error {
                    Some(error) => write!(f, ": {}", shown(error)),
                    None => Ok(()),
                }
            }
            Self::Over { state, at } => match at {
                Some(at) => write!(f, "it is over: {state} since {at}"),
                None => write!(f, "it is over: {state}; its last record was pruned"),
            },
            Self::StoreAway { kind, error } => match kind {
                ErrorKind::Corrupt => write!(f, "the store cannot read it: {}", shown(error)),
                ErrorKind::Invalid => write!(f, "the store rejects it: {}", shown(error)),
                _ => write!(f, "the store did not respond: {}", shown(error)),
            },
            Self::ClockDiffers { by, is_ahead } => write!(
                f,
                "the store's time is {} {} the clock of this machine",
                format_span(*by),
                if *is_ahead { "ahead of" } else { "behind" }
            ),
            Self::NotKnown {
                created,
                is_of_the_future,
                bucket,
                queues,
            } => {
                match queues {
                    0 => write!(f, "this store has no queue in which it may lie")?,
                    _ => write!(
                        f,
                        "its id names bucket {bucket}, and none of the buckets in which it may lie, of \
                         {}, knows it",
                        with_noun(*queues, "queue", "queues")
                    )?,
                }
                match is_of_the_future {
                    true => write!(
                        f,
                        ", and its id was made at {created}, which is in the future"
                    ),
                    false => write!(
                        f,
                        ": the id is wrong, of another store, of an event in an outbox that is not \
                         relayed yet, or older than the tombstones; it was made at {created}"
                    ),
                }
            }
        }
    }
}

/// Formats the load of a queue, as the middle of a sentence.
impl fmt::Display for QueueLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "here {} of {} workers are active and {} of {} wait in the ring",
            self.active, self.workers, self.queued, self.ring
        )
    }
}
