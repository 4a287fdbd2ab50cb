//! What must be so in a world, beside what must always be so.

use duly_conformance::history::Expect;

use crate::plan::{Class, Clog, Plan};

impl Plan {
    /// What must be so in such a world beside what must always be so.
    pub fn expect(&self) -> Expect {
        // A wake, and there and back: a look that finds nothing due yet, a move, a fetch.
        let quick = self.latency_us.1 * 7 + self.options.settle_linger.as_micros() as u64;
        let is_exact = matches!(self.class, Class::Calm | Class::Full);
        let counts_at_once = is_exact || self.class == Class::Clogged;
        // A node that stays paused owns buckets all the same, and another looks after them.
        let delay = match self.stays_paused {
            Some(_) => self.options.non_owner_delay.as_micros() as u64,
            None => 0,
        };
        Expect {
            exact: is_exact,
            leases_stand: is_exact || self.class == Class::Outages,
            late_us_max: (self.roomy && self.rate.is_none()).then_some(quick + 5_000 + delay),
            calm_after_us: self.calm_after_us(),
            late_counts_from_us: if counts_at_once { 0 } else { u64::MAX },
            recovery_us_max: (self.class == Class::Crashes).then_some(3_000_000),
            early_us_max: match (self.clock_steps, self.slow) {
                (0, _) => 0,
                (_, 0) => self.latency_us.1,
                _ => self.patience_us,
            },
            ahead_us: self.options.ahead.as_micros() as u64,
            is_clogged: self.clog != Clog::Nothing,
            remembers: Some(self.remembers),
        }
    }
}
