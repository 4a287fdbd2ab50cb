//! Times and limits of a node.

use std::time::Duration;

use crate::error::{Error, Result};

/// Times and limits of a node's state machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// The heartbeat interval, for each bucket in which the node holds leases. Default: 600 ms.
    pub heartbeat: Duration,
    /// The lease timeout: a node is reaped once its heartbeat number has not changed for this long.
    /// Default: 2 s, so that leases of a dead node are taken over within 3 s: it is suspected after
    /// 0.75 s at most.
    pub lease_timeout: Duration,
    /// The safety margin: a node stops starting handlers this long before its leases could be lost.
    /// Default: 400 ms.
    pub safety_margin: Duration,
    /// The scan interval for dead holders in a bucket that has a holder not known to be alive.
    /// Default: 150 ms.
    pub reap_every: Duration,
    /// The fallback scan interval for dead holders in any bucket. Default: 30 s; on Redis, which tells
    /// of every change, ten minutes at least.
    pub fallback_scan_every: Duration,
    /// The scan interval for dead holders while membership polls fail; one millisecond for each
    /// bucket of the node where that is longer. Dead nodes are found this much later. Default: 2 s.
    pub blind_every: Duration,
    /// The membership poll interval. Default: 250 ms. Zero is never, for a store that no other
    /// process uses.
    pub poll_every: Duration,
    /// A member whose number has not changed for this long is suspected, and its leases are
    /// checked: two polls less the time that a reply takes. Default: 450 ms.
    pub suspect_after: Duration,
    /// A member whose number has not changed for this long owns no buckets. Default: 1.5 s.
    pub absent_after: Duration,
    /// The non-owner delay: how much later than the owner the second node polls a bucket; long
    /// enough for an owner with room to be first. A full owner calls the others. Default: 100 ms.
    pub non_owner_delay: Duration,
    /// The longest time for which a lower-ranked node ignores calls of a full owner after calls
    /// that brought it nothing; doubles from `non_owner_delay` up to this. Default: 1 s.
    pub ignore_max: Duration,
    /// The prefetch window: how long before its due time an event may be leased. Zero disables
    /// prefetch. Default: 100 ms.
    pub ahead: Duration,
    /// The prefetch window for a crowd: events that many others are due with, which takes longer
    /// than `ahead` to fetch. No effect if it is not longer than `ahead`. Default: 1 s.
    pub crowd_ahead: Duration,
    /// The most prefetched events of one queue. Default: 65,536.
    pub ahead_max: usize,
    /// The most events of one fetch, move or settle, at most 1,000. Default: 500.
    pub batch: usize,
    /// How long a finished attempt waits for others to share its settle. Default: 500 µs.
    pub settle_linger: Duration,
    /// The shortest interval between two settles of a bucket, unless a batch is full: the first
    /// goes at once, the next collects what ends meanwhile. Default: 8 ms. Zero for a store that no
    /// other process uses, where a call is cheap.
    pub settle_apart: Duration,
    /// How long finished attempts may wait while due events wait to be started: those come first,
    /// also at the store. Default: 60 ms.
    pub settle_wait: Duration,
    /// The most unsettled attempts of a bucket; beyond it the bucket fetches nothing. Default:
    /// 16,384.
    pub unsettled_max: usize,
    /// The initial start window of a queue: how many unfinished events may have their start
    /// announced; at least four for each worker. On a store that several processes share, this many
    /// events lose an attempt when a node dies, whether they had started or not. Default: 64.
    pub starts_min: usize,
    /// The longest sleep without a poll of a bucket, in case a wake-up is lost. Default: 30 s; on Redis
    /// ten minutes at least, and twenty at most: a process that polls a bucket more seldom does not
    /// hear of it any more.
    pub sleep_max: Duration,
    /// By how much this node's clock may run faster than the store's, in parts per million: quartz
    /// is off by 100 at most, a clock that is being corrected by 500. Default: 1,000; 0 for a store
    /// in this process, which shares the clock.
    pub drift_ppm: u32,
    /// The first backoff after a failed call; doubles up to `retry_max`. Default: 20 ms.
    pub retry_min: Duration,
    /// The longest backoff after a failed call. Default: 2 s.
    pub retry_max: Duration,
    /// The longest backoff after an error that looks permanent: a shared store may report one and
    /// recover a minute later. Default: 30 s.
    pub refused_max: Duration,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(600),
            lease_timeout: Duration::from_secs(2),
            safety_margin: Duration::from_millis(400),
            reap_every: Duration::from_millis(150),
            fallback_scan_every: Duration::from_secs(30),
            blind_every: Duration::from_secs(2),
            poll_every: Duration::from_millis(250),
            suspect_after: Duration::from_millis(450),
            absent_after: Duration::from_millis(1_500),
            non_owner_delay: Duration::from_millis(100),
            ignore_max: Duration::from_secs(1),
            ahead: Duration::from_millis(100),
            crowd_ahead: Duration::from_secs(1),
            ahead_max: 65_536,
            batch: 500,
            settle_linger: Duration::from_micros(500),
            settle_apart: Duration::from_millis(8),
            settle_wait: Duration::from_millis(60),
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
    /// Returns the options for a store that several processes use, and whose fallback poll is so long.
    pub(crate) fn for_shared_store(self, fallback_poll_every: Duration) -> Self {
        let every = fallback_poll_every;
        Self {
            sleep_max: self.sleep_max.clamp(every, every.saturating_mul(2)),
            fallback_scan_every: self.fallback_scan_every.max(every),
            ..self
        }
    }

    /// Returns the options for a store that no other process uses: one clock, no other members,
    /// and calls that cost little.
    pub(crate) fn for_one_process(self) -> Self {
        Self {
            drift_ppm: 0,
            poll_every: Duration::ZERO,
            settle_apart: Duration::ZERO,
            ..self
        }
    }

    /// Checks that the options are consistent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the options that conflict.
    pub fn check(&self) -> Result<()> {
        if self.heartbeat * 2 + self.safety_margin > self.lease_timeout {
            return Err(Error::invalid(format!(
                "a heartbeat every {:?} does not fit twice into a lease timeout of {:?} less a \
                 safety margin of {:?}; the timeout must be at least two heartbeats and the margin",
                self.heartbeat, self.lease_timeout, self.safety_margin
            )));
        }
        let calls = [self.poll_every, self.suspect_after, self.absent_after];
        if !calls.is_sorted_by(|one, next| one < next) {
            return Err(Error::invalid(format!(
                "a membership poll every {:?}, suspicion after {:?} and absence after {:?} are not \
                 in ascending order; each must be longer than the one before",
                self.poll_every, self.suspect_after, self.absent_after
            )));
        }
        if self.starts_min == 0 {
            return Err(Error::invalid(
                "starts_min is 0, so no handler could ever start; it must be at least 1",
            ));
        }
        if self.batch == 0 || self.batch > crate::core::op::BATCH_MAX {
            return Err(Error::invalid(format!(
                "the batch size is {}; it must be 1 to {}",
                self.batch,
                crate::core::op::BATCH_MAX
            )));
        }
        Ok(())
    }
}
