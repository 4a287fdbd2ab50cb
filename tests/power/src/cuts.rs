//! The power goes at any request of any work, and again while the store comes back.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;

use crate::account::Copy;
use crate::child;
use crate::kit::setting;
use crate::lossy::{Cut, Disk, Faults, Names};
use crate::story::Story;

/// How many cases are run when nobody says otherwise.
const CASES: u64 = 24;
/// How many run at the same time.
const AT_ONCE: usize = 2;
/// How often the power goes while the store comes back.
const NESTED_MAX: u32 = 3;

/// What happened in all cases.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    cuts: u64,
    torn: u64,
    /// Cuts while the store was opened after a cut.
    nested: u64,
    /// Cuts before the store was ever open.
    at_creation: u64,
    acknowledged: u64,
    /// What was answered and is not so.
    lost: u64,
    refused_opens: u64,
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.torn += other.torn;
        self.nested += other.nested;
        self.at_creation += other.at_creation;
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.refused_opens += other.refused_opens;
    }
}

/// One disk and its fate.
struct Case {
    disk: Disk,
    random: Rng,
    story: Story,
    sum: Sum,
    wrong: Vec<String>,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let names = if random.bool() {
            Names::WithFiles
        } else {
            Names::ByFolder
        };
        Self {
            disk: Disk::new(names),
            random,
            story: Story::default(),
            sum: Sum::default(),
            wrong: Vec::new(),
        }
    }

    fn run(mut self, seed: u64) -> (Sum, Vec<String>) {
        for round in 0..self.random.u64(1..=3) {
            self.work(seed, round);
            self.come_back();
            self.compare();
            if !self.wrong.is_empty() {
                break;
            }
        }
        (self.sum, self.wrong)
    }

    /// A cut at one of the first `within` requests.
    fn cut(&mut self, within: u64) -> Cut {
        Cut {
            at: self.random.u64(1..=within),
            tear: self.tear(),
        }
    }

    fn tear(&mut self) -> Option<Rng> {
        let torn = self.random.u32(..3) > 0;
        torn.then(|| self.random.fork())
    }

    /// Works until the power goes, at the latest when the work is done.
    fn work(&mut self, seed: u64, round: u64) {
        // Within the first 80 the store is made, or opened; 3,000 are more than the work takes.
        let within = if self.random.u32(..4) == 0 { 80 } else { 3_000 };
        let cut = self.cut(within);
        let mut torn = cut.tear.is_some();
        let short = (self.random.u32(..4) == 0).then(|| self.random.fork());
        let mount = self.disk.mount(Faults {
            cut: Some(cut),
            short,
            ..Faults::default()
        });
        let said = child::run(&format!("work {seed} {round}"), &mount.path());
        let before = self.story.answered;
        self.story.take(&said);
        self.sum.acknowledged += (self.story.answered - before) as u64;
        if !self.disk.is_off() {
            self.expect_well(&said);
            let tear = self.tear();
            torn = tear.is_some();
            self.disk.cut(tear);
        }
        drop(mount);
        self.sum.cuts += 1;
        self.sum.torn += u64::from(torn);
        self.sum.at_creation += u64::from(self.story.answered == 0);
    }

    /// Opens the store after a cut, and cuts that too.
    fn come_back(&mut self) {
        for _ in 0..self.random.u32(..=NESTED_MAX) {
            let cut = self.cut(60);
            let torn = cut.tear.is_some();
            let mount = self.disk.mount(Faults {
                cut: Some(cut),
                ..Faults::default()
            });
            let said = child::run("open", &mount.path());
            if !self.disk.is_off() {
                self.expect_well(&said);
                break;
            }
            drop(mount);
            self.sum.cuts += 1;
            self.sum.nested += 1;
            self.sum.torn += u64::from(torn);
        }
    }

    /// The disk was whole: nothing may have failed.
    fn expect_well(&mut self, said: &child::Said) {
        let failed = said.after("failed ");
        let failed: Vec<_> = failed
            .map(|why| format!("on a whole disk: {why}"))
            .collect();
        if failed.is_empty() && !said.status.success() {
            self.wrong
                .push(format!("the child ended with {}", said.status));
        }
        self.wrong.extend(failed);
    }

    fn compare(&mut self) {
        let copy = Copy::of(&self.disk);
        let wrong = match copy.facts(&self.story.events()) {
            Ok(facts) => self.story.settle(&facts),
            Err(why) => {
                self.sum.refused_opens += u64::from(why.contains("does not open"));
                vec![why]
            }
        };
        if !wrong.is_empty() {
            self.sum.lost += wrong.len() as u64;
            self.wrong.extend(wrong);
            self.wrong
                .push(format!("what was left of the disk is in {}", copy.keep()));
        }
    }
}

#[test]
#[allow(
    clippy::print_stdout,
    reason = "it tells which seed to run again, and the sum"
)]
fn what_was_answered_survives_any_power_cut_and_what_was_not_is_never_half() {
    let cases = setting("DULY_POWER_CASES").unwrap_or(CASES);
    let first = setting("DULY_POWER_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let next = AtomicU64::new(0);
    let all = Mutex::new((Sum::default(), Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= cases {
                        break;
                    }
                    let seed = first.wrapping_add(number);
                    let again = format!(
                        "DULY_POWER_SEED={seed} DULY_POWER_CASES=1 cargo test --manifest-path \
                         tests/power/Cargo.toml cuts::"
                    );
                    println!("{again}");
                    let (sum, wrong) = Case::new(seed).run(seed);
                    let mut all = all.lock().expect("no case panics with it");
                    all.0 += sum;
                    if !wrong.is_empty() {
                        all.1
                            .push(format!("{}\n  again: {again}", wrong.join("\n  ")));
                    }
                }
            });
        }
    });
    let (sum, wrong) = all.into_inner().expect("no case panics with it");
    println!("{cases} cases: {sum:?}");
    assert!(wrong.is_empty(), "{sum:?}\n{}", wrong.join("\n"));
    assert!(
        cases < 20 || sum.acknowledged > 100,
        "the children did next to nothing: {sum:?}"
    );
}
