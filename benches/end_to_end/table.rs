//! Tables whose first line is the baseline, and whose last column is relative to it.

use std::time::Duration;

use crate::watch::Took;
use crate::{Result, wrong};

/// Throughputs.
pub(crate) struct Rates(Option<f64>);

impl Rates {
    pub(crate) fn titled(title: &str) -> Self {
        println!("\n{title}");
        println!(
            "{:<46} {:>11} {:>16} {:>8}",
            "", "events/s", "cpu ns an event", "ratio"
        );
        Self(None)
    }

    /// A line: the median of passes, each of `events`, and the processor time of all of them; the
    /// first one is the base.
    pub(crate) fn line(&mut self, name: &str, events: usize, mut passes: Vec<Took>) {
        let cpu: Duration = passes.iter().map(|took| took.cpu).sum();
        let cpu = cpu.as_secs_f64() * 1e9 / (events * passes.len()) as f64;
        passes.sort_unstable_by_key(|took| took.time);
        let took = passes[passes.len() / 2];
        let rate = events as f64 / took.time.as_secs_f64();
        let ratio = rate / *self.0.get_or_insert(rate);
        println!("{name:<46} {rate:>11.0} {cpu:>16.0} {ratio:>7.2}x");
    }
}

/// Throughputs in turns, each of which is compared with its neighbour.
pub(crate) struct Pairs;

impl Pairs {
    pub(crate) fn titled(title: &str) -> Self {
        println!("\n{title}");
        println!(
            "{:<36} {:>11} {:>16} {:>8} {:>8} {:>16}",
            "", "events/s", "cpu ns an event", "cpu", "ratio", "its middle half"
        );
        Self
    }

    /// A line: of pairs of a base and what is compared, the median and the quartiles of their
    /// ratios, and the ratio of all their processor time.
    pub(crate) fn line(&mut self, name: &str, events: usize, took: &[(Took, Took)]) {
        let cpu = |of: fn(&(Took, Took)) -> Took| {
            let sum: Duration = took.iter().map(|pair| of(pair).cpu).sum();
            sum.as_secs_f64() * 1e9 / (events * took.len()) as f64
        };
        let (base, own) = (cpu(|pair| pair.0), cpu(|pair| pair.1));
        let rate = |took: Took| events as f64 / took.time.as_secs_f64();
        let rates = sorted(took.iter().map(|pair| rate(pair.1)));
        let ratios = sorted(took.iter().map(|pair| rate(pair.1) / rate(pair.0)));
        let at = |quarter: usize| ratios[(ratios.len() - 1) * quarter / 4];
        let middle = format!("{:.3} to {:.3}", at(1), at(3));
        println!(
            "{name:<36} {:>11.0} {own:>16.0} {:>7.3}x {:>7.3}x {middle:>16}",
            rates[rates.len() / 2],
            own / base,
            at(2)
        );
    }
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
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
