//! The power goes under a journal in a file: each record whose load was answered is there afterwards,
//! once, and a load happened as a whole or not at all.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use duly::EventId;
use duly::journal::{Batch, Journal, SqliteJournal};
use duly::records::{Numbered, Outcome, Query, Record, Stages};
use duly::time::Timestamp;
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::account::Copy;
use crate::child::{self, Said, say};
use crate::kit::setting;
use crate::lossy::{Cut, Disk, Faults, Names};

/// How many cases are run when nobody says otherwise.
const CASES: u64 = 12;
/// How many records are in a load.
const IN_A_LOAD: u64 = 8;
/// How many loads are under way at a time.
const AT_ONCE: u64 = 2;
/// How often a round does that.
const ROUNDS: u64 = 25;

/// Where the journal lies on a disk: folders down that are not those of the store.
fn journal_in(folder: &Path) -> PathBuf {
    folder.join("records").join("kept").join("journal.db")
}

fn record(number: u64) -> Numbered {
    let finished_us = (1_700_000_000_000 + number) * 1_000;
    let record = Record {
        id: EventId::from_bytes(u128::from(number).to_be_bytes()),
        queue: "orders".parse().expect("a legal name"),
        key: Some(number.to_string()),
        attempt: 1,
        outcome: Outcome::Acked,
        cause: None,
        due: Timestamp::from_millis(1_700_000_000_000),
        stages: Stages {
            finished_us,
            ..Stages::default()
        },
        node: Default::default(),
        error: None,
        trace: None,
        payload: None,
        by: None,
    };
    (number, record)
}

/// Loads records, and says of each load that it was answered.
pub(crate) fn loads(folder: &Path, first: u64, rounds: u64) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let worked = runtime.expect("a runtime").block_on(async {
        let journal = std::sync::Arc::new(SqliteJournal::open(journal_in(folder))?);
        let step = IN_A_LOAD * AT_ONCE;
        for from in (first..).step_by(step as usize).take(rounds as usize) {
            let mut tasks = JoinSet::<duly::Result<()>>::new();
            for from in (from..from + step).step_by(IN_A_LOAD as usize) {
                let journal = std::sync::Arc::clone(&journal);
                tasks.spawn(async move {
                    let records = (from..from + IN_A_LOAD).map(record).collect();
                    let outbox = "store".to_owned();
                    journal.load(vec![Batch { outbox, records }]).await?;
                    say(format_args!("ok {from}"));
                    Ok(())
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.expect("no task panics")?;
            }
        }
        journal.close().await
    });
    if let Err(error) = worked {
        say(format_args!("failed {error}"));
    }
}

/// What was answered so far, on one disk: the first record of each load.
struct Case {
    disk: Disk,
    answered: BTreeSet<u64>,
}

impl Case {
    fn new(names: Names) -> Self {
        Self {
            disk: Disk::new(names),
            answered: BTreeSet::new(),
        }
    }

    /// Runs the child until it is done or the power goes, which it does at the latest then.
    fn work(&mut self, rounds: u64, cut: Option<Cut>, tear: Option<Rng>) {
        let mount = self.disk.mount(Faults {
            cut,
            ..Faults::default()
        });
        let first = self.answered.last().map_or(0, |last| last + 1_000);
        let said = child::run(&format!("loads {first} {rounds}"), &mount.path());
        if !self.disk.is_off() {
            said.expect_well("on a whole disk");
            self.disk.cut(tear);
        }
        self.take(&said);
    }

    fn take(&mut self, said: &Said) {
        let answered = said.after("ok ").map(|number| number.parse::<u64>());
        let answered = answered.map(|number| number.expect("a number"));
        self.answered.extend(answered);
    }

    /// What is wrong with what is left of the disk.
    fn wrong(&self) -> Vec<String> {
        let copy = Copy::of(&self.disk);
        let mut wrong = match found(copy.folder()) {
            Ok(mut found) => {
                found.sort_unstable();
                let all = found.iter().collect::<BTreeSet<_>>();
                let load_of = |first: u64| (first..first + IN_A_LOAD).map(|n| all.contains(&n));
                let firsts = found.iter().map(|n| n - n % IN_A_LOAD);
                let halves = firsts.filter(|first| !load_of(*first).all(|is_there| is_there));
                let halves = halves.map(|first| format!("a half of the load of {first} is there"));
                let twice = found.windows(2).filter(|two| two[0] == two[1]);
                let twice = twice.map(|two| format!("record {} is there twice", two[0]));
                let lost = self.answered.iter().filter(|n| !all.contains(n));
                let lost = lost.map(|n| format!("the load of record {n} is lost"));
                twice.chain(lost).chain(halves).collect()
            }
            Err(error) => vec![format!("it does not open: {error}")],
        };
        if !wrong.is_empty() {
            wrong.push(format!("what was left of the disk is in {}", copy.keep()));
        }
        wrong
    }
}

/// The numbers of every record in the journal.
fn found(folder: &Path) -> duly::Result<Vec<u64>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let journal = SqliteJournal::open(journal_in(folder))?;
        let (mut numbers, mut after) = (Vec::new(), None);
        loop {
            let found = journal.page(Query {
                after,
                limit: Some(Query::LIMIT_MAX),
                ..Query::default()
            });
            let found = found.await?;
            for (number, found) in found.records {
                assert_eq!((number, found), record(number));
                numbers.push(number);
            }
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        journal.close().await?;
        Ok(numbers)
    })
}

#[test]
fn records_survive_a_power_cut_right_after_the_first_start_in_a_new_deep_path() {
    for names in [Names::WithFiles, Names::ByFolder] {
        let mut case = Case::new(names);
        case.work(3, None, None);
        assert!(
            !case.answered.is_empty(),
            "nothing was loaded before the cut"
        );
        assert_eq!(case.wrong(), [""; 0]);
    }
}

#[test]
#[allow(
    clippy::print_stdout,
    reason = "it tells which seed to run again, and the sum"
)]
fn a_record_that_was_loaded_is_in_the_journal_after_any_power_cut() {
    let cases = setting("DULY_POWER_CASES").unwrap_or(CASES);
    let first = setting("DULY_POWER_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut answered = 0;
    for seed in (first..).take(cases as usize) {
        let again = format!(
            "DULY_POWER_SEED={seed} DULY_POWER_CASES=1 cargo test --manifest-path \
             tests/power/Cargo.toml journal::"
        );
        println!("{again}");
        let mut random = Rng::with_seed(seed);
        let names = match random.bool() {
            true => Names::WithFiles,
            false => Names::ByFolder,
        };
        let mut case = Case::new(names);
        for _ in 0..random.u64(1..=3) {
            // Within the first 150 the files are made, or opened; 3,000 are more than the work takes.
            let within = if random.u32(..4) == 0 { 150 } else { 3_000 };
            let at = random.u64(1..=within);
            let mut tear = || (random.u32(..3) > 0).then(|| random.fork());
            let (torn, torn_at_the_end) = (tear(), tear());
            case.work(ROUNDS, Some(Cut { at, tear: torn }), torn_at_the_end);
        }
        let wrong = case.wrong();
        assert!(wrong.is_empty(), "{}\n  again: {again}", wrong.join("\n  "));
        answered += case.answered.len();
    }
    println!("{cases} cases: {answered} loads were answered");
    assert!(
        cases < 20 || answered > 100,
        "the children did next to nothing: {answered} loads"
    );
}
