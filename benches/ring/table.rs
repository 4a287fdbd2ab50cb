//! Lines of throughput and cost.

use std::fs;
use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::{Plan, WORKERS, wanted};

/// Lines of throughput, each compared with the base case.
pub(crate) struct Table {
    title: &'static str,
    base: &'static str,
    lines: Vec<(&'static str, f64, f64)>,
}

impl Table {
    pub(crate) fn new(title: &'static str, base: &'static str) -> Self {
        Self {
            title,
            base,
            lines: Vec::new(),
        }
    }

    /// Measures a case that handles as many events as it is told to.
    pub(crate) fn measure<F, R>(&mut self, plan: Plan, name: &'static str, case: F)
    where
        F: Fn(usize) -> R,
        R: Future<Output = ()> + Send + 'static,
    {
        if !wanted(&format!("{}: {name}", self.title)) {
            return;
        }
        let runtime = runtime();
        let run = |events: usize| {
            let (start, cpu) = (Instant::now(), cpu_time());
            // In a task of the runtime, as a fetcher would be.
            let _ = runtime.block_on(runtime.spawn(case(events)));
            (
                start.elapsed().as_secs_f64(),
                (cpu_time() - cpu).as_secs_f64(),
            )
        };
        let mut events = 10_000;
        loop {
            let (took, _) = run(events);
            let wanted = plan.pass.as_secs_f64();
            if took * 2.0 > wanted {
                break;
            }
            events = (events as f64 * (wanted / took).clamp(1.5, 10.0)) as usize;
        }
        let mut passes: Vec<_> = (0..plan.passes).map(|_| run(events)).collect();
        passes.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (took, cpu) = passes[passes.len() / 2];
        self.lines
            .push((name, events as f64 / took, cpu * 1e9 / events as f64));
    }

    pub(crate) fn print(&self) {
        if self.lines.is_empty() {
            return;
        }
        let base = self.lines.iter().find(|(name, ..)| *name == self.base);
        let base = base.map_or(f64::NAN, |(_, rate, _)| *rate);
        println!("\n{}: 1 publisher, {WORKERS} workers", self.title);
        println!(
            "{:<32} {:>12} {:>14} {:>8}",
            "", "M events/s", "CPU ns/event", "ratio"
        );
        for (name, rate, cpu) in &self.lines {
            let (rate, ratio) = (rate / 1e6, rate / base);
            println!("{name:<32} {rate:>12.2} {cpu:>14.0} {ratio:>7.1}x");
        }
    }
}

pub(crate) fn runtime() -> Runtime {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime can be made")
}

/// Processor time of this process so far, to 10 ms; none where the system does not tell.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15 count from the process' id; its name, in parentheses, may hold spaces.
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks: u32 = fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u32>().ok())
        .sum();
    Duration::from_millis(10) * ticks
}
