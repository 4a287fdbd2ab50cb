//! How many handlers of a queue may start in a second.

use std::time::Duration;

use crate::time::Mono;

/// What was not used is kept for so long, and no longer: a burst is never larger than what starts
/// in this span, or one event.
const BURST: Duration = Duration::from_millis(10);
/// Events are taken from the store at most so long before they may start: what waits for longer
/// waits in the store, where every node can have it.
const SOON: Duration = Duration::from_millis(100);
/// Starts are not looked at more often than this.
const STRIDE: Duration = Duration::from_millis(1);

/// The pace of one queue on this node, by the generic cell rate algorithm: each start moves the
/// time of the next one by one over the rate, and nothing starts before it.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    /// On all nodes together.
    per_second: f64,
    /// Between two starts on this node.
    every: Duration,
    next: Mono,
    last: Mono,
}

impl Rate {
    /// `per_second` starts, which `nodes` nodes share.
    pub(crate) fn new(per_second: f64, nodes: usize) -> Self {
        let mut rate = Self {
            per_second,
            every: Duration::ZERO,
            next: Mono::default(),
            last: Mono::default(),
        };
        rate.share_among(nodes);
        rate
    }

    /// Goes on at another rate.
    pub(crate) fn change(&mut self, now: Mono, per_second: f64, nodes: usize) {
        self.per_second = per_second;
        self.share_among(nodes);
        self.next = self.next.min(now + self.every); // a low rate does not hold a higher one up
    }

    /// So many nodes share the rate from now on.
    pub(crate) fn share_among(&mut self, nodes: usize) {
        let nodes = u32::try_from(nodes.max(1)).unwrap_or(u32::MAX);
        let every = f64::from(nodes) / self.per_second;
        let every = Duration::try_from_secs_f64(every).unwrap_or(Duration::MAX);
        self.every = every.max(Duration::from_nanos(1));
    }

    /// How many may start now.
    pub(crate) fn allows(&self, now: Mono) -> usize {
        let from = self.from(now);
        if from > now {
            return 0;
        }
        let many = now.since(from).as_nanos() / self.every.as_nanos() + 1;
        usize::try_from(many).unwrap_or(usize::MAX)
    }

    /// So many start now.
    pub(crate) fn took(&mut self, now: Mono, many: usize) {
        let many = u32::try_from(many).unwrap_or(u32::MAX);
        self.next = self.from(now) + self.every.saturating_mul(many);
        self.last = now;
    }

    /// When to look whether more may start.
    pub(crate) fn wakes(&self) -> Mono {
        self.next.max(self.last + STRIDE)
    }

    /// How many events start so soon that they need not wait in the store.
    pub(crate) fn soon(&self) -> usize {
        let many = SOON.as_nanos() / self.every.as_nanos() + 1;
        usize::try_from(many).unwrap_or(usize::MAX)
    }

    /// When the next one could have started.
    fn from(&self, now: Mono) -> Mono {
        self.next.max(now - BURST)
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
