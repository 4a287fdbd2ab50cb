//! Tables whose first line is the base case, and whose last column compares with it.

use std::time::Duration;

use crate::{Result, wrong};

/// Throughputs.
pub(crate) struct Rates(Option<f64>);

impl Rates {
    pub(crate) fn titled(title: &str) -> Self {
        println!("\n{title}");
        println!(
            "{:<44} {:>12} {:>9} {:>9}",
            "", "events/s", "us each", "ratio"
        );
        Self(None)
    }

    /// A line: the median of passes, each of `events`; the first one is the base.
    pub(crate) fn line(&mut self, name: &str, events: usize, mut passes: Vec<Duration>) {
        passes.sort_unstable();
        let took = passes[passes.len() / 2].as_secs_f64();
        let rate = events as f64 / took;
        let ratio = rate / *self.0.get_or_insert(rate);
        let each = 1e6 / rate;
        println!("{name:<44} {rate:>12.0} {each:>9.3} {ratio:>8.2}x");
    }
}

/// How late things were.
pub(crate) struct Lateness(Option<f64>);

impl Lateness {
    pub(crate) fn titled(title: &str) -> Self {
        println!("\n{title}");
        println!(
            "{:<44} {:>8} {:>8} {:>8} {:>8} {:>9}",
            "ms", "min", "p50", "p99", "max", "ratio"
        );
        Self(None)
    }

    /// A line of sorted microseconds; `compared` picks what the ratio is of.
    ///
    /// # Errors
    ///
    /// When one was early, after the line was printed.
    pub(crate) fn line(&mut self, name: &str, late_us: &[i64], compared: f64) -> Result {
        let at = |part: f64| late_us[((late_us.len() - 1) as f64 * part) as usize] as f64 / 1e3;
        let ratio = at(compared) / *self.0.get_or_insert(at(compared));
        let (min, p50, p99, max) = (at(0.0), at(0.5), at(0.99), at(1.0));
        println!("{name:<44} {min:>8.3} {p50:>8.3} {p99:>8.3} {max:>8.3} {ratio:>8.3}x");
        if min < 0.0 {
            return Err(wrong(format!("{name}: an event was {:.3} ms early", -min)));
        }
        Ok(())
    }
}
