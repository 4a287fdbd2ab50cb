//! A rate limiter for handler starts.

use std::time::Duration;

use crate::time::Mono;

/// Unused starts of this span may happen at once: it bounds a burst, which is at least one event.
const BURST: Duration = Duration::from_millis(10);
/// Unused starts of up to this span are caught up slowly: a thread that is repeatedly late would
/// otherwise stay below its rate.
const OWED: Duration = Duration::from_millis(300);
/// How much faster catching up is; together with a burst no second exceeds the rate by more than 5
/// %.
const HURRY_PERCENT: u32 = 3;
/// Events are fetched at most this long before they may start: what waits longer stays in the
/// store, where every node can fetch it.
const SOON: Duration = Duration::from_millis(100);
/// The shortest interval between two checks.
const STRIDE: Duration = Duration::from_millis(1);

/// The rate of one queue on this node, by two instances of the generic cell rate algorithm: each
/// start moves the time of the next by one over the rate, and nothing starts earlier. One runs at
/// the rate itself and remembers up to [`OWED`]; the other runs a little faster and remembers only
/// [`BURST`].
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    /// Over all nodes.
    per_second: f64,
    /// The interval between two starts on this node.
    every: Duration,
    /// When the next start may happen at the rate itself; `None` before the first.
    next: Option<Mono>,
    /// When the next start may happen at the faster rate.
    at_most: Mono,
    last: Mono,
}

impl Rate {
    /// Creates a limiter of `per_second` starts that `nodes` nodes share.
    pub(crate) fn new(per_second: f64, nodes: usize) -> Self {
        let mut rate = Self {
            per_second,
            every: Duration::ZERO,
            next: None,
            at_most: Mono::default(),
            last: Mono::default(),
        };
        rate.share_among(nodes);
        rate
    }

    /// Changes the rate.
    pub(crate) fn change(&mut self, now: Mono, per_second: f64, nodes: usize) {
        self.per_second = per_second;
        self.share_among(nodes);
        self.next = None; // nothing is caught up at the old rate
        self.at_most = self.at_most.min(now + self.every); // a low rate does not delay a higher one
    }

    /// Sets how many nodes share the rate.
    pub(crate) fn share_among(&mut self, nodes: usize) {
        let nodes = u32::try_from(nodes.max(1)).unwrap_or(u32::MAX);
        let every = f64::from(nodes) / self.per_second;
        let every = Duration::try_from_secs_f64(every).unwrap_or(Duration::MAX);
        self.every = every.max(Duration::from_nanos(1));
    }

    /// Delays all starts until `at`.
    pub(crate) fn hold_until(&mut self, at: Mono) {
        self.at_most = self.at_most.max(at);
    }

    /// Returns how many may start now.
    pub(crate) fn allows(&self, now: Mono) -> usize {
        let since = |from: Mono, every: Duration| {
            if from > now {
                0
            } else {
                now.since(from).as_nanos() / every.as_nanos() + 1
            }
        };
        let at_rate = since(self.from(now), self.every);
        let at_most = since(self.next_at_most(now), self.in_a_hurry());
        usize::try_from(at_rate.min(at_most)).unwrap_or(usize::MAX)
    }

    /// Takes `many` starts.
    pub(crate) fn took(&mut self, now: Mono, many: usize) {
        let many = u32::try_from(many).unwrap_or(u32::MAX);
        self.at_most = self.next_at_most(now) + self.in_a_hurry().saturating_mul(many);
        self.next = Some(self.from(now) + self.every.saturating_mul(many));
        self.last = now;
    }

    /// Returns when to check again whether more may start.
    pub(crate) fn wakes(&self) -> Mono {
        let next = self.next.unwrap_or_default();
        next.max(self.at_most).max(self.last + STRIDE)
    }

    /// Returns how many events start soon enough to be fetched.
    pub(crate) fn soon(&self) -> usize {
        let many = SOON.as_nanos() / self.every.as_nanos() + 1;
        usize::try_from(many).unwrap_or(usize::MAX)
    }

    /// Returns when the next start could have happened.
    fn from(&self, now: Mono) -> Mono {
        match self.next {
            Some(next) => next.max(now - OWED),
            None => now - BURST,
        }
    }

    /// Returns when the next start could have happened at the faster rate.
    fn next_at_most(&self, now: Mono) -> Mono {
        self.at_most.max(now - BURST)
    }

    /// Returns the interval between two starts while catching up.
    fn in_a_hurry(&self) -> Duration {
        let every = self.every.saturating_mul(100) / (100 + HURRY_PERCENT);
        every.max(Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Mono {
        Mono::default() + Duration::from_millis(ms)
    }

    /// Starts what is allowed at each of its times.
    fn starts(rate: &mut Rate, from: Mono, until: Mono) -> usize {
        let (mut now, mut starts) = (from, 0);
        while now < until {
            let many = rate.allows(now);
            if many > 0 {
                rate.took(now, many);
                starts += many;
            }
            now = rate.wakes().max(now);
        }
        starts
    }

    #[test]
    fn each_second_has_its_number_of_starts() {
        for per_second in [0.5, 7.0, 500.0, 999.0, 25_000.0] {
            let mut rate = Rate::new(per_second, 1);
            let counted = starts(&mut rate, ms(1_000), ms(21_000)) as f64;
            let wanted = per_second * 20.0;
            let burst = per_second * 0.01 + 2.0;
            assert!((counted - wanted).abs() <= burst, "{counted} of {wanted}");
        }
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut rate = Rate::new(1_000.0, 1);
        starts(&mut rate, ms(1_000), ms(2_000));
        assert!(rate.allows(ms(60_000)) <= 11);
    }

    #[test]
    fn who_comes_late_again_and_again_makes_up_for_it_and_no_second_has_too_many() {
        let mut rate = Rate::new(500.0, 1);
        let (mut now, mut times) = (ms(1_000), Vec::new());
        while now < ms(41_000) {
            let many = rate.allows(now);
            rate.took(now, many);
            times.extend(std::iter::repeat_n(now, many));
            now = rate.wakes().max(now);
            // Each second, a stall of 25 ms.
            if now.as_nanos() % 1_000_000_000 < 25_000_000 {
                now = now + Duration::from_millis(25);
            }
        }
        let within = |from: Mono, span: u64| {
            let until = from + Duration::from_millis(span);
            times.partition_point(|time| *time < until) - times.partition_point(|time| *time < from)
        };
        let counted = within(ms(2_000), 20_000);
        assert!((9_900..=10_100).contains(&counted), "{counted}");
        let most = times.iter().map(|from| within(*from, 1_000)).max();
        assert!(most.is_some_and(|most| most <= 525), "{most:?}");
    }

    #[test]
    fn what_was_not_wanted_is_owed_for_a_moment_only() {
        let mut rate = Rate::new(500.0, 1);
        starts(&mut rate, ms(1_000), ms(2_000));
        let counted = starts(&mut rate, ms(60_000), ms(80_000));
        assert!((10_000..=10_200).contains(&counted), "{counted}");
    }

    #[test]
    fn nothing_starts_while_it_is_held() {
        let mut rate = Rate::new(500.0, 1);
        rate.hold_until(ms(1_500));
        assert_eq!(starts(&mut rate, ms(1_000), ms(1_500)), 0);
        assert!(starts(&mut rate, ms(1_500), ms(2_500)) >= 500);
    }

    #[test]
    fn nodes_share_a_rate() {
        let mut rate = Rate::new(300.0, 3);
        let counted = starts(&mut rate, ms(1_000), ms(11_000));
        assert!((995..=1_005).contains(&counted), "{counted}");
        assert_eq!(rate.soon(), 11);
    }

    #[test]
    fn a_higher_rate_counts_from_now() {
        let mut rate = Rate::new(0.001, 1);
        starts(&mut rate, ms(1_000), ms(1_001));
        rate.change(ms(2_000), 100.0, 1);
        assert!(starts(&mut rate, ms(2_000), ms(3_000)) >= 99);
    }
}
