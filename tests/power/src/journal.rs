//! The power goes under a bus that keeps its records in a journal: each record that was answered is
//! in the outbox or in the journal afterwards, and one that was trimmed is in the journal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duly::Bus;
use duly::config::Settings;
use duly::journal::{RecordChoices, RecorderOptions};
use duly::store::EmbeddedStore;
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::account::Copy;
use crate::child::{self, Said, say};
use crate::kit::{self, setting};
use crate::lossy::{Cut, Disk, Faults, Names};

/// How many cases are run when nobody says otherwise.
const CASES: u64 = 24;
/// How many events are pushed and taken back at the same time.
const AT_ONCE: u64 = 8;
/// How often a round does that.
const ROUNDS: u64 = 25;

/// Where the journal lies on a disk: folders down that are not those of the store.
fn journal_in(folder: &Path) -> PathBuf {
    folder.join("records").join("kept").join("journal.db")
}

async fn start(folder: &Path) -> duly::Result<Bus> {
    let store = EmbeddedStore::open_with(kit::store_in(folder), kit::options())?;
    Bus::builder()
        .settings(Settings::default())
        .store(store)
        .records(RecordChoices {
            journal: Some(format!("sqlite:{}", journal_in(folder).display())),
            ..RecordChoices::default()
        })
        .recorder_options(RecorderOptions {
            linger: Duration::from_millis(1),
            retry_max: Duration::from_millis(50),
            ..RecorderOptions::default()
        })
        .publish_only()
        .start()
        .await
}

/// Pushes and cancels, and says of each event that it was answered so: it has a record.
pub(crate) fn cancels(folder: &Path, first: u64, rounds: u64) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let worked = runtime.expect("a runtime").block_on(async {
        let bus = start(folder).await?;
        for from in (first..).step_by(AT_ONCE as usize).take(rounds as usize) {
            let mut tasks = JoinSet::<duly::Result<()>>::new();
            for number in from..from + AT_ONCE {
                let queue = bus.queue_named::<u64>("orders")?;
                tasks.spawn(async move {
                    let event = queue.event(number).after(kit::LATER);
                    let receipt = event.key(number.to_string()).send().await?;
                    let _ = queue.cancel(receipt.id()).await?;
                    say(format_args!("ok {number}"));
                    Ok(())
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.expect("no task panics")?;
            }
            say_recorded(&bus);
        }
        bus.shutdown(Duration::from_secs(5)).await?; // it records what is left
        say_recorded(&bus);
        Ok::<_, duly::Error>(())
    });
    if let Err(error) = worked {
        say(format_args!("failed {error}"));
    }
}

fn say_recorded(bus: &Bus) {
    let status = bus.journal_status().expect("there is a journal");
    say(format_args!("recorded {}", status.recorded));
}

/// What happened in a case, or in all of them.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    answered: usize,
    /// How many records were in the journal, by its own word, when the power went.
    recorded: u64,
}

/// What was answered so far, on one disk.
struct Case {
    disk: Disk,
    answered: BTreeSet<u64>,
    recorded: u64,
}

impl Case {
    fn new(names: Names) -> Self {
        Self {
            disk: Disk::new(names),
            answered: BTreeSet::new(),
            recorded: 0,
        }
    }

    /// Runs the child until it is done or the power goes, which it does at the latest then.
    fn work(&mut self, rounds: u64, cut: Option<Cut>, tear: Option<Rng>) {
        let mount = self.disk.mount(Faults {
            cut,
            ..Faults::default()
        });
        let first = self.answered.last().map_or(0, |last| last + 1_000);
        let said = child::run(&format!("cancels {first} {rounds}"), &mount.path());
        if !self.disk.is_off() {
            said.expect_well("on a whole disk");
            self.disk.cut(tear);
        }
        self.take(&said);
    }

    fn take(&mut self, said: &Said) {
        let numbers = |word| said.after(word).map(|number| number.parse::<u64>());
        let answered = numbers("ok ").map(|number| number.expect("a number"));
        self.answered.extend(answered);
        let recorded = numbers("recorded ").last();
        self.recorded += recorded.map_or(0, |number| number.expect("a number"));
    }

    /// What is wrong with what is left of the disk.
    fn wrong(&self) -> Vec<String> {
        let copy = Copy::of(&self.disk);
        let mut wrong = match found(copy.folder()) {
            Ok(mut found) => {
                found.sort_unstable();
                let twice = found.windows(2).filter(|two| two[0] == two[1]);
                let twice = twice.map(|two| format!("event {} has two records", two[0]));
                let lost = self.answered.iter().filter(|n| !found.contains(n));
                let lost = lost.map(|n| format!("the record of event {n} is lost"));
                twice.chain(lost).collect()
            }
            Err(error) => vec![format!("it does not open: {error}")],
        };
        if !wrong.is_empty() {
            wrong.push(format!("what was left of the disk is in {}", copy.keep()));
        }
        wrong
    }
}

/// The keys of every record in the outbox and the journal.
fn found(folder: &Path) -> duly::Result<Vec<u64>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let bus = start(folder).await?;
        let mut records = bus.records().stream();
        let mut found = Vec::new();
        while let Some(record) = records.next().await {
            let key = record?.key.expect("each has one");
            found.push(key.parse().expect("a number"));
        }
        bus.shutdown(Duration::from_secs(5)).await?;
        Ok(found)
    })
}

#[test]
fn records_survive_a_power_cut_right_after_the_first_start_in_a_new_deep_path() {
    for names in [Names::WithFiles, Names::ByFolder] {
        let mut case = Case::new(names);
        case.work(3, None, None);
        assert!(case.recorded > 0, "nothing was recorded before the cut");
        assert_eq!(case.wrong(), [""; 0]);
    }
}

#[test]
#[allow(
    clippy::print_stdout,
    reason = "it tells which seed to run again, and the sum"
)]
fn a_record_is_in_the_outbox_or_the_journal_after_any_power_cut() {
    let cases = setting("DULY_POWER_CASES").unwrap_or(CASES);
    let first = setting("DULY_POWER_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut sum = Sum::default();
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
        sum.answered += case.answered.len();
        sum.recorded += case.recorded;
    }
    println!("{cases} cases: {sum:?}");
    assert!(
        cases < 20 || sum.answered > 100 && sum.recorded > 100,
        "the children did next to nothing: {sum:?}"
    );
}
