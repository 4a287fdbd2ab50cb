//! The times and bounds of a node.

use std::time::Duration;

use crate::error::{Error, Result};

/// The times and bounds of a node's machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// How often a node says that it is alive to each bucket it holds something of.
    /// Default: 600 ms.
    pub heartbeat: Duration,
    /// For how long a heartbeat number must not change before another node reaps. Default: 2 s, so
    /// that what a dead node held is handed on within 3 s: it is suspected after 0.75 s at most.
    pub silence: Duration,
    /// How much earlier than its lease could be lost a node stops starting handlers on it.
    /// Default: 400 ms.
    pub margin: Duration,
    /// How often a bucket is looked at in which somebody holds something who is not known to be
    /// alive. Default: 150 ms.
    pub reap_every: Duration,
    /// How often any bucket is looked at for holders that nobody suspected: the net. Default: 30 s.
    pub glance_every: Duration,
    /// How often any bucket is looked at while the roll cannot be called, so that nothing is known of
    /// anybody; a millisecond for each bucket of the node, where that is longer. Who is silent then
    /// is found so much later. Default: 2 s.
    pub blind_every: Duration,
    /// How often a node calls the roll. Default: 250 ms, and zero, which is never, for a store that
    /// no other process uses.
    pub roll_every: Duration,
    /// For how long a member's number on the roll must not change before whatever it holds is
    /// looked for: two calls, less the time that an answer takes. Default: 450 ms.
    pub suspect_after: Duration,
    /// For how long it must not change before the member owns no bucket any more. Default: 1.5 s.
    pub absent_after: Duration,
    /// How much later than a bucket's owner the next in line looks at it: long enough that an owner
    /// with room is there first. A full owner calls the others. Default: 100 ms.
    pub other_delay: Duration,
    /// For how long at most a node further back in the line does not hear the calls of a full owner,
    /// when the last ones brought it nothing: that doubles from `other_delay` on. Default: 1 s.
    pub deaf_max: Duration,
    /// How long before its due time an event may be leased. Zero reads nothing ahead.
    /// Default: 100 ms.
    pub ahead: Duration,
    /// The most events that one queue holds read ahead. Default: 65,536.
    pub ahead_max: usize,
    /// The most events of one fetch, move or settle, at most 1,000. Default: 500.
    pub batch: usize,
    /// How long a finished attempt may wait for others to be settled with. Default: 500 µs.
    pub settle_linger: Duration,
    /// How far apart the settles of a bucket are at least, unless one is full: the first goes soon, and
    /// what ends meanwhile goes with the next. Default: 8 ms, and zero for a store that no other
    /// process uses, of which a call costs little.
    pub settle_apart: Duration,
    /// How long finished attempts may wait while events that are due wait to be started.
    /// Default: 20 ms.
    pub settle_wait: Duration,
    /// The most finished attempts of a bucket that wait to be settled; beyond it the bucket
    /// fetches nothing. Default: 16,384.
    pub unsettled_max: usize,
    /// How many events of a queue may be announced to start and have not ended, while workers never
    /// wait for it; at least four for each worker. On a store that several processes share so many
    /// events lose an attempt when a node dies, whether they had started or not. Default: 64.
    pub starts_min: usize,
    /// The longest sleep without a look at a bucket: the net under lost wake-ups. Default: 30 s.
    pub sleep_max: Duration,
    /// By how much this node's clock may run faster than the store's, in parts per million: quartz
    /// is wrong by 100 at most, and a clock that is being set right runs off by 500. Default: 1,000,
    /// and 0 for a store in this process, which has the same clock.
    pub drift_ppm: u32,
    /// The first wait after a failed call; it doubles up to `retry_max`. Default: 20 ms.
    pub retry_min: Duration,
    /// The longest wait after a failed call. Default: 2 s.
    pub retry_max: Duration,
    /// The longest wait after a call that failed as if it could never succeed: a shared store may
    /// say so and be well a minute later. Default: 30 s.
    pub refused_max: Duration,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(600),
            silence: Duration::from_secs(2),
            margin: Duration::from_millis(400),
            reap_every: Duration::from_millis(150),
            glance_every: Duration::from_secs(30),
            blind_every: Duration::from_secs(2),
            roll_every: Duration::from_millis(250),
            suspect_after: Duration::from_millis(450),
            absent_after: Duration::from_millis(1_500),
            other_delay: Duration::from_millis(100),
            deaf_max: Duration::from_secs(1),
            ahead: Duration::from_millis(100),
            ahead_max: 65_536,
            batch: 500,
            settle_linger: Duration::from_micros(500),
            settle_apart: Duration::from_millis(8),
            settle_wait: Duration::from_millis(20),
            unsettled_max: 16_384,
            starts_min: 64,
            sleep_max: Duration::from_secs(30),
            drift_ppm: 1_000,
            retry_min: Duration::from_millis(20),
            retry_max: Duration::from_secs(2),
            refused_max: Duration::from_secs(30),
        }
    }
}

impl NodeOptions {
    /// Checks that the times fit together.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the one that does not.
    pub fn check(&self) -> Result<()> {
        if self.heartbeat * 2 + self.margin > self.silence {
            return Err(Error::invalid(format!(
                "a heartbeat every {:?} leaves no room for a lost one within a silence of {:?} less \
                 a margin of {:?}; silence must be at least two heartbeats and the margin",
                self.heartbeat, self.silence, self.margin
            )));
        }
        let calls = [self.roll_every, self.suspect_after, self.absent_after];
        if !calls.is_sorted_by(|one, next| one < next) {
            return Err(Error::invalid(format!(
                "with a roll call every {:?} a member cannot be suspected after {:?} and be absent \
                 after {:?}; each must be longer than the one before",
                self.roll_every, self.suspect_after, self.absent_after
            )));
        }
        if self.starts_min == 0 {
            return Err(Error::invalid(
                "nothing can start where no start may be announced; starts_min must be 1 or more",
            ));
        }
        if self.batch == 0 || self.batch > crate::core::op::BATCH_MAX {
            return Err(Error::invalid(format!(
                "a batch of {} is not possible, it is 1 to {}",
                self.batch,
                crate::core::op::BATCH_MAX
            )));
        }
        Ok(())
    }
}
