//! Many worlds side by side, and what they come to.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::world::{BrokenPromise, World};

/// A sum to which each thread contributes.
pub trait Merge: Default + Send {
    fn merge(&mut self, other: Self);
}

impl<T: Send> Merge for Vec<T> {
    fn merge(&mut self, other: Self) {
        self.extend(other);
    }
}

/// Does `work` for each item, on as many threads as there are processors.
pub fn in_parallel<T: Send, S: Merge>(
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T, &mut S) + Sync,
) -> S {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let items = Mutex::new(items);
    thread::scope(|scope| {
        let run = || {
            let mut sum = S::default();
            loop {
                let next = items
                    .lock()
                    .expect("no thread panics while it holds it")
                    .next();
                match next {
                    Some(item) => work(item, &mut sum),
                    None => return sum,
                }
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut sum = S::default();
        for thread in threads {
            match thread.join() {
                Ok(other) => sum.merge(other),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        sum
    })
}

/// What many worlds come to.
#[derive(Debug)]
pub struct Sum {
    began: Instant,
    worlds: u64,
    steps: u64,
    virtual_us: u64,
    pub starts: u64,
    leases_lost: u64,
    /// For each promise that was broken: how often, and the first time.
    pub broken: BTreeMap<String, First>,
}

/// The first time that a promise was broken.
#[derive(Debug)]
pub struct First {
    times: u64,
    seed: u64,
    pub story: String,
}

impl fmt::Display for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} times, first in seed {}", self.times, self.seed)
    }
}

impl Default for Sum {
    #[allow(clippy::disallowed_methods)] // how long it took, for the summary alone
    fn default() -> Self {
        Self {
            began: Instant::now(),
            worlds: 0,
            steps: 0,
            virtual_us: 0,
            starts: 0,
            leases_lost: 0,
            broken: BTreeMap::new(),
        }
    }
}

impl Sum {
    pub fn add(&mut self, seed: u64, world: &World, broken: Option<&BrokenPromise>) {
        self.worlds += 1;
        self.steps += world.steps;
        self.virtual_us += world.now_us;
        self.starts += world.checker.starts();
        self.leases_lost += world.checker.leases_lost();
        if let Some(broken) = broken {
            let first = || First {
                times: 0,
                seed,
                story: story(seed, world, broken),
            };
            let known = self.broken.entry(broken.broken.to_string());
            known.or_insert_with(first).times += 1;
        }
    }
}

impl Merge for Sum {
    fn merge(&mut self, other: Self) {
        self.began = self.began.min(other.began);
        self.worlds += other.worlds;
        self.steps += other.steps;
        self.virtual_us += other.virtual_us;
        self.starts += other.starts;
        self.leases_lost += other.leases_lost;
        for (text, other) in other.broken {
            match self.broken.get_mut(&text) {
                Some(known) => {
                    let times = known.times + other.times;
                    if other.seed < known.seed {
                        *known = other;
                    }
                    known.times = times;
                }
                None => {
                    self.broken.insert(text, other);
                }
            }
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = self
            .began
            .elapsed()
            .max(Duration::from_millis(1))
            .as_secs_f64();
        write!(
            f,
            "{} seeds, {} broken, {} steps, {} starts, {} leases lost: {:.0} seeds a second, \
             {:.0} times as fast as life",
            self.worlds,
            self.broken.values().map(|first| first.times).sum::<u64>(),
            self.steps,
            self.starts,
            self.leases_lost,
            self.worlds as f64 / took,
            self.virtual_us as f64 / 1e6 / took
        )
    }
}

/// What happened to the event whose promise was broken, and how to see it again.
fn story(seed: u64, world: &World, broken: &BrokenPromise) -> String {
    let mut text = format!(
        "\nseed {seed}, at {:.3} ms: {}\n{:?}\n",
        broken.at_us as f64 / 1_000.0,
        broken.broken,
        world.plan
    );
    for (at, node) in world.nodes.iter().enumerate() {
        let loads: Vec<_> = node.loads().collect();
        let _ = writeln!(text, "node {at} accounts for {loads:?}");
    }
    for entry in world.trace.of(broken.broken.id) {
        let _ = writeln!(text, "{entry}");
    }
    let again = "cargo test --test simulation no_seed";
    let _ = writeln!(text, "again: DULY_SEED={seed} {again}");
    text
}
