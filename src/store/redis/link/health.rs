//! The health of one connection: what it has heard, and whether it is of any more use.
//!
//! A connection that a NAT or a balancer has forgotten looks like one on which nothing happens. So
//! one that nothing uses is probed, and one that was quiet is given up after the first call without
//! a reply, while a busy one may miss some.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use redis::RedisResult;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A connection is dropped after this many unanswered calls in a row.
const UNANSWERED_MAX: u32 = 3;

/// A call that its caller gave up after this time without a reply counts as unanswered.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// A connection that ends sooner than this without having carried a call counts as a failed attempt.
const YOUNG: Duration = Duration::from_secs(2);

/// A connection that got no reply for this long is idle: its next call may be the first that finds out
/// that it was forgotten.
const IDLE: Duration = Duration::from_secs(1);

/// How long a call on an idle connection waits for its reply before a second connection is opened:
/// longer than a round trip around the world, and than a first retransmission.
pub(super) const DOUBT_AFTER: Duration = Duration::from_millis(400);

/// How long it has at least before its connection is given up: longer than a second retransmission.
pub(super) const SILENT_FOR: Duration = Duration::from_millis(800);

/// The health of a connection; its users, its reader and its probe share it.
#[derive(Debug)]
pub(in crate::store::redis) struct Health {
    born: Instant,
    /// The timeout of a call.
    timeout: Duration,
    /// Whether it is of no more use to further calls.
    is_broken: AtomicBool,
    /// Whether nothing comes from it any more.
    has_ended: AtomicBool,
    ends: Notify,
    /// Calls that wait on the server, so that what follows them does too.
    blocking: AtomicU32,
    /// Calls since the last reply of any kind.
    unanswered: AtomicU32,
    /// Whether a call has succeeded.
    is_proven: AtomicBool,
    /// Whether a call got a reply since the probe's last turn.
    was_used: AtomicBool,
    /// Whether none did in the interval before that turn.
    is_quiet: AtomicBool,
    /// When the last reply came, in microseconds since its birth.
    heard_us: AtomicU64,
    /// Whether it is being tried if the server is there and only the way to it is not.
    is_doubted: AtomicBool,
}

/// A call, from its sending to its reply. If it is dropped in between, its caller has given up.
pub(in crate::store::redis) struct CallGuard<'h> {
    health: &'h Health,
    /// The end of its timeout; `None` for one that waits on the server.
    deadline: Option<Instant>,
    is_over: bool,
}

impl CallGuard<'_> {
    /// Notes that the call has a reply, or timed out.
    pub(in crate::store::redis) fn over(mut self) {
        self.is_over = true;
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        match self.deadline {
            None => {
                self.health.blocking.fetch_sub(1, Ordering::Relaxed);
            }
            Some(_) if self.is_over => {}
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left + GIVEN_UP <= self.health.timeout && self.health.unanswered() {
                    self.health.end();
                }
            }
        }
    }
}

impl Health {
    /// Creates the health of a connection whose calls take `timeout` at most.
    pub(in crate::store::redis) fn new(timeout: Duration) -> Self {
        Self {
            born: Instant::now(),
            timeout,
            is_broken: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            ends: Notify::new(),
            blocking: AtomicU32::new(0),
            unanswered: AtomicU32::new(0),
            is_proven: AtomicBool::new(false),
            was_used: AtomicBool::new(false),
            is_quiet: AtomicBool::new(false),
            heard_us: AtomicU64::new(0),
            is_doubted: AtomicBool::new(false),
        }
    }

    /// Notes that a call is sent whose reply is awaited until `deadline`.
    pub(in crate::store::redis) fn call(&self, deadline: Instant) -> CallGuard<'_> {
        CallGuard {
            health: self,
            deadline: Some(deadline),
            is_over: false,
        }
    }

    /// Notes that a call is sent that waits on the server.
    pub(in crate::store::redis) fn blocking_call(&self) -> CallGuard<'_> {
        self.blocking.fetch_add(1, Ordering::Relaxed);
        CallGuard {
            health: self,
            deadline: None,
            is_over: false,
        }
    }

    /// Notes a reply of any kind.
    pub(in crate::store::redis) fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
        self.was_used.store(true, Ordering::Relaxed);
        self.is_quiet.store(false, Ordering::Relaxed);
        self.heard_us.store(self.age_us(), Ordering::Relaxed);
    }

    fn age_us(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Returns when the last reply came, if nothing has come for a while.
    pub(super) fn idle_since(&self) -> Option<u64> {
        let heard_us = self.heard_us.load(Ordering::Relaxed);
        let is_idle = self.age_us().saturating_sub(heard_us) >= IDLE.as_micros() as u64;
        is_idle.then_some(heard_us)
    }

    /// Returns whether no reply came after the one at that time.
    pub(super) fn is_silent_since(&self, heard_us: u64) -> bool {
        self.heard_us.load(Ordering::Relaxed) == heard_us
    }

    /// Returns whether it may be tried if the server is there: once for a connection at a time.
    pub(super) fn takes_doubt(&self) -> bool {
        !self.is_broken() && !self.is_doubted.swap(true, Ordering::Relaxed)
    }

    /// Notes that nothing came of a doubt.
    pub(super) fn trusted(&self) {
        self.is_doubted.store(false, Ordering::Relaxed);
    }

    /// Notes that a call was carried out.
    pub(in crate::store::redis) fn succeeded(&self) {
        self.answered();
        self.is_proven.store(true, Ordering::Relaxed);
    }

    /// Notes a call without a reply in time; returns whether the connection is to be dropped.
    pub(in crate::store::redis) fn unanswered(&self) -> bool {
        let unanswered = self.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
        unanswered >= UNANSWERED_MAX || self.is_quiet.load(Ordering::Relaxed)
    }

    /// Notes that the connection is of no more use to further calls.
    pub(in crate::store::redis) fn break_off(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// Notes that nothing comes from the connection any more: calls in flight fail.
    pub(in crate::store::redis) fn end(&self) {
        self.break_off();
        self.has_ended.store(true, Ordering::Release);
        self.ends.notify_waiters();
    }

    /// Returns the reply to a call, or an error as soon as the connection has ended.
    ///
    /// The package forgets a call that meets the end of its connection on another thread: its
    /// message stays in the channel whose reader has gone, and has no reply for ever.
    pub(in crate::store::redis) async fn or_ended<T>(
        &self,
        reply: impl Future<Output = RedisResult<T>>,
    ) -> RedisResult<T> {
        let mut ended = pin!(self.ends.notified());
        ended.as_mut().enable();
        if self.has_ended.load(Ordering::Acquire) {
            return Err(cut());
        }
        tokio::select! {
            biased;
            reply = reply => reply,
            () = ended => Err(cut()),
        }
    }

    /// Returns whether the connection is of no more use.
    pub(in crate::store::redis) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Returns whether its end counts as a failed attempt: it was new, and no call has succeeded.
    pub(in crate::store::redis) fn is_unproven(&self) -> bool {
        !self.is_proven.load(Ordering::Relaxed) && self.born.elapsed() < YOUNG
    }

    /// Takes the probe's turn: returns whether no call got a reply since the last one, so that only a
    /// probe can tell whether it lives. The replies to probes are no use.
    pub(in crate::store::redis) fn takes_probe(&self) -> bool {
        let is_quiet = !self.was_used.swap(false, Ordering::Relaxed);
        self.is_quiet.store(is_quiet, Ordering::Relaxed);
        is_quiet && self.blocking.load(Ordering::Relaxed) == 0
    }
}

/// Returns the error of a call whose connection ended.
fn cut() -> redis::RedisError {
    std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        Health::new(Duration::from_secs(5))
    }

    #[tokio::test(start_paused = true)]
    async fn one_silent_call_costs_a_quiet_connection_and_three_a_busy_one() {
        let health = health();
        assert_eq!([(); 3].map(|()| health.unanswered()), [false, false, true]);
        health.succeeded();
        assert!(!health.takes_probe(), "it was used");
        assert!(!health.unanswered());
        health.answered();
        assert!(!health.takes_probe(), "it was used");
        assert!(health.takes_probe());
        assert!(health.unanswered(), "it was quiet");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_on_the_server_is_not_disturbed_by_a_probe() {
        let health = health();
        let call = health.blocking_call();
        assert!(!health.takes_probe());
        drop(call);
        assert!(health.takes_probe());
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_give_up_cost_a_connection_that_is_silent_and_no_other() {
        let health = health();
        let call = || health.call(Instant::now() + Duration::from_secs(5));
        for _ in 0..100 {
            drop(call());
            let answered = call();
            tokio::time::advance(GIVEN_UP).await;
            answered.over();
        }
        assert!(!health.is_broken(), "none has waited for long");
        for is_broken in [false, false, true] {
            let call = call();
            tokio::time::advance(GIVEN_UP).await;
            drop(call);
            assert_eq!(health.is_broken(), is_broken);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_its_connection_has_forgotten_ends_with_it() {
        let health = health();
        let forgotten = || {
            let reply = health.or_ended(std::future::pending::<RedisResult<()>>());
            tokio::time::timeout(Duration::from_secs(60), reply)
        };
        let (waited, ()) = tokio::join!(forgotten(), async { health.end() });
        let error = waited.expect("it ends").expect_err("it has ended");
        assert!(error.is_io_error());
        assert!(forgotten().await.expect("it ends").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_carried_a_call_is_no_failed_attempt() {
        let refused = health();
        refused.answered();
        assert!(refused.is_unproven(), "a refusal proves nothing");
        refused.succeeded();
        assert!(!refused.is_unproven());
        let idle = health();
        tokio::time::advance(YOUNG).await;
        assert!(!idle.is_unproven());
    }
}
