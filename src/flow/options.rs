//! The options of one queue.

use std::time::Duration;

use crate::codec::Codec;
use crate::core::op::FREE_INTERRUPTIONS_MAX;
use crate::error::{Error, Result};
use crate::event::{BUCKETS_MAX, LatePolicy, QueueName, check_spread};
use crate::handler::Annotation;
use crate::retry::RetryPolicy;

/// The resolved options of one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueOptions {
    /// The number of buckets for its events, 1 to 1,024. Default: 8.
    pub buckets: u16,
    /// The most handlers that run at once, up to 65,536; 0 pauses the queue. Default: 16.
    pub workers: usize,
    /// The timeout of a handler, at most 7 days. Default: 30 s.
    pub timeout: Duration,
    /// The most attempts of an event, 1 to 1,000. Default: 16.
    pub attempts: u16,
    /// How many interruptions by a stop in a row use up no attempt of an event, at most 15. A handler
    /// that never ends within the grace period of [`Bus::shutdown`](crate::Bus::shutdown) uses up its
    /// attempts after that, and its event becomes a dead letter. Default: 10, two weeks of a stop
    /// every working day.
    pub free_interruptions: u8,
    /// The delay before the next attempt. Default: `exp(1s..10m, jitter 10%)`.
    pub backoff: RetryPolicy,
    /// The lateness policy, fixed when an event is pushed. Default: late events are delivered all
    /// the same.
    pub late: LatePolicy,
    /// The jitter window, at most a day: each event is due later than requested by a part of it
    /// that its id determines. Fixed when an event is pushed. Default: zero, no jitter.
    pub spread: Duration,
    /// The slots of its ring, a power of two from 64 to 65,536: the most events that are on their
    /// way to handlers. Default: 1,024.
    pub ring: usize,
    /// How long an idle worker polls for the next event while traffic is dense. Default: 20 µs.
    pub linger: Duration,
    /// Whether its handlers have their own runtime. Default: no.
    pub dedicated: bool,
    /// Whether this process consumes the queue. Default: yes.
    pub consume: bool,
    /// The version of its payload type. Default: 0.
    pub version: u32,
    /// Whether records keep the payload as it is stored, up to 64 KiB
    /// ([`PAYLOAD_KEPT_MAX`](crate::records::PAYLOAD_KEPT_MAX)). Fixed when an event is pushed.
    /// Default: no.
    pub keep_payload: bool,
    /// How long after its death a dead letter is dropped, from a second to ten years. Default:
    /// never, since only its owner knows whether it is still of use.
    pub dead_keep_for: Option<Duration>,
    /// The most dead letters; of more than these each bucket drops its share, those with the first
    /// ids. Default: no limit, for the same reason.
    ///
    /// Both limits are enforced about once a minute, by each process that consumes the queue; what
    /// is dropped has a record, whose actor is `retention`.
    pub dead_keep_max: Option<usize>,
    /// The codec of pushed values; stored values are read whatever their codec. Default: JSON.
    pub codec: Codec,
    /// Whether pushed values are encrypted, under the active key of the bus's [key
    /// ring](crate::codec::KeyRing). Default: no.
    pub encrypt: bool,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            buckets: 8,
            workers: 16,
            timeout: Duration::from_secs(30),
            attempts: 16,
            free_interruptions: 10,
            backoff: RetryPolicy::default(),
            late: LatePolicy::Deliver,
            spread: Duration::ZERO,
            ring: 1_024,
            linger: Duration::from_micros(20),
            dedicated: false,
            consume: true,
            version: 0,
            keep_payload: false,
            dead_keep_for: None,
            dead_keep_max: None,
            codec: Codec::Json,
            encrypt: false,
        }
    }
}

/// Partial options of a queue; `None` defers to a weaker source.
///
/// The sources, weakest first: the default, `queue_defaults` of the settings file, the annotation,
/// the queue's section of the file, the environment, the builder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueChoices {
    /// See [`QueueOptions::buckets`].
    pub buckets: Option<u16>,
    /// See [`QueueOptions::workers`].
    pub workers: Option<usize>,
    /// See [`QueueOptions::timeout`].
    pub timeout: Option<Duration>,
    /// See [`QueueOptions::attempts`].
    pub attempts: Option<u16>,
    /// See [`QueueOptions::free_interruptions`].
    pub free_interruptions: Option<u8>,
    /// See [`QueueOptions::backoff`].
    pub backoff: Option<RetryPolicy>,
    /// See [`QueueOptions::late`].
    pub late: Option<LatePolicy>,
    /// See [`QueueOptions::spread`].
    pub spread: Option<Duration>,
    /// See [`QueueOptions::ring`].
    pub ring: Option<usize>,
    /// See [`QueueOptions::linger`].
    pub linger: Option<Duration>,
    /// See [`QueueOptions::dedicated`].
    pub dedicated: Option<bool>,
    /// See [`QueueOptions::consume`].
    pub consume: Option<bool>,
    /// See [`QueueOptions::version`].
    pub version: Option<u32>,
    /// See [`QueueOptions::keep_payload`].
    pub keep_payload: Option<bool>,
    /// See [`QueueOptions::dead_keep_for`].
    pub dead_keep_for: Option<Duration>,
    /// See [`QueueOptions::dead_keep_max`].
    pub dead_keep_max: Option<usize>,
    /// See [`QueueOptions::codec`].
    pub codec: Option<Codec>,
    /// See [`QueueOptions::encrypt`].
    pub encrypt: Option<bool>,
}

impl From<&Annotation> for QueueChoices {
    fn from(said: &Annotation) -> Self {
        Self {
            buckets: said.buckets,
            workers: said.workers.map(|workers| workers as usize),
            timeout: said.timeout,
            attempts: said.attempts,
            free_interruptions: said.free_interruptions,
            backoff: said.backoff,
            late: said.late,
            spread: said.spread,
            ring: said.ring,
            linger: said.linger,
            dedicated: said.dedicated.then_some(true),
            consume: None,
            version: said.version,
            keep_payload: said.keep_payload,
            dead_keep_for: None,
            dead_keep_max: None,
            codec: said.codec,
            encrypt: said.encrypt,
        }
    }
}

impl QueueOptions {
    /// Returns these options with those set in `choices` replaced.
    #[must_use]
    pub fn with(self, choices: &QueueChoices) -> Self {
        Self {
            buckets: choices.buckets.unwrap_or(self.buckets),
            workers: choices.workers.unwrap_or(self.workers),
            timeout: choices.timeout.unwrap_or(self.timeout),
            attempts: choices.attempts.unwrap_or(self.attempts),
            free_interruptions: choices
                .free_interruptions
                .unwrap_or(self.free_interruptions),
            backoff: choices.backoff.unwrap_or(self.backoff),
            late: choices.late.unwrap_or(self.late),
            spread: choices.spread.unwrap_or(self.spread),
            ring: choices.ring.unwrap_or(self.ring),
            linger: choices.linger.unwrap_or(self.linger),
            dedicated: choices.dedicated.unwrap_or(self.dedicated),
            consume: choices.consume.unwrap_or(self.consume),
            version: choices.version.unwrap_or(self.version),
            keep_payload: choices.keep_payload.unwrap_or(self.keep_payload),
            dead_keep_for: choices.dead_keep_for.or(self.dead_keep_for),
            dead_keep_max: choices.dead_keep_max.or(self.dead_keep_max),
            codec: choices.codec.unwrap_or(self.codec),
            encrypt: choices.encrypt.unwrap_or(self.encrypt),
        }
    }

    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), with queue, value and bound.
    pub fn check(&self, queue: &QueueName) -> Result<()> {
        const WEEK: Duration = Duration::from_secs(7 * 86_400);
        let wrong = |what: String| Err(Error::invalid(format!("queue {queue}: {what}")));
        if !(1..=BUCKETS_MAX).contains(&self.buckets) {
            return wrong(format!(
                "buckets is {}; it must be 1 to {BUCKETS_MAX}",
                self.buckets
            ));
        }
        if self.workers > 65_536 {
            return wrong(format!(
                "workers is {}; it must be at most 65536",
                self.workers
            ));
        }
        if self.timeout.is_zero() || self.timeout > WEEK {
            return wrong(format!(
                "timeout is {:?}; it must be more than 0 and at most 7d",
                self.timeout
            ));
        }
        if !(1..=1_000).contains(&self.attempts) {
            return wrong(format!(
                "attempts is {}; it must be 1 to 1000",
                self.attempts
            ));
        }
        if self.free_interruptions > FREE_INTERRUPTIONS_MAX {
            return wrong(format!(
                "free_interruptions is {}; it must be at most {FREE_INTERRUPTIONS_MAX}",
                self.free_interruptions
            ));
        }
        if let Err(error) = check_spread(self.spread) {
            return wrong(error.to_string());
        }
        if !self.ring.is_power_of_two() || !(64..=65_536).contains(&self.ring) {
            return wrong(format!(
                "ring is {}; it must be a power of two from 64 to 65536",
                self.ring
            ));
        }
        const TEN_YEARS: Duration = Duration::from_secs(3_653 * 86_400);
        let keep_for = self.dead_keep_for.unwrap_or(TEN_YEARS);
        if !(Duration::from_secs(1)..=TEN_YEARS).contains(&keep_for) {
            return wrong(format!(
                "dead_keep_for is {keep_for:?}; it must be 1s to 3653d"
            ));
        }
        if !self.codec.is_built_in() {
            return wrong(format!(
                "codec is {}, which needs duly's feature `{0}`; add it in Cargo.toml",
                self.codec
            ));
        }
        Ok(())
    }
}
