//! The k-th write or sync fails, for every k: from then on nothing is answered, and what was
//! answered before is there: after a new start, after a power cut, and after both with work between.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use duly::ErrorKind;
use duly::event::BucketKey;
use duly::store::operation::{Delivery, FetchReport, Reply, StoreOp};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};

use crate::account::Copy;
use crate::act::{Act, End};
use crate::child::{self, say};
use crate::kit::{self, setting};
use crate::lossy::{Cut, Disk, ERRORS, Faults, Lasts, Names};
use crate::story::{Fact, Story};

/// How many groups each of the two lives of the script pushes.
const GROUPS: u64 = 4;
/// How many scripts run at the same time.
const AT_ONCE: usize = 2;
/// How many writes and syncs fail when nobody says otherwise.
const FAULTS: u64 = 40;

/// The script: one act after the other, each on disk before it is answered.
struct Script<'a> {
    folder: &'a Path,
    store: EmbeddedStore,
    requests: u64,
}

/// The store said no.
struct Refused(duly::Error);

impl<'a> Script<'a> {
    fn begin(folder: &'a Path) -> Result<Self, Refused> {
        let options = EmbeddedOptions::inline().reserve_bytes(16 << 10);
        let store = EmbeddedStore::open_with(kit::store_in(folder), options).map_err(Refused)?;
        Ok(Self {
            folder,
            store,
            requests: 0,
        })
    }

    fn ask(&self, bucket: &BucketKey, op: StoreOp) -> Result<Reply, Refused> {
        let answer = kit::wait(self.store.apply(bucket, op)).map_err(Refused)?;
        Ok(answer.reply)
    }

    fn does(&self, act: &Act, op: StoreOp) -> Result<(), Refused> {
        let before = errors(self.folder);
        say(format_args!("do s {act}"));
        self.ask(&act.bucket(), op)?;
        say("ok s");
        if before > 0 {
            say(format_args!(
                "failed {act} was answered after the disk had failed"
            ));
        }
        Ok(())
    }

    fn act(&self, act: Act) -> Result<(), Refused> {
        let op = act.op();
        self.does(&act, op)
    }

    fn fetch(&mut self, n: u64) -> Result<Vec<Delivery>, Refused> {
        self.requests += 1;
        let bucket = kit::bucket(n);
        self.ask(
            &bucket,
            StoreOp::MoveDue {
                limit: 100,
                calls: false,
            },
        )?;
        let reply = self.ask(&bucket, kit::fetch(self.requests, 100))?;
        let Reply::Fetched(FetchReport { deliveries, .. }) = reply else {
            panic!("a fetch returned {reply:?}");
        };
        Ok(deliveries)
    }

    /// Pushes, changes, takes back, handles, buries and revives: all that is ever written.
    fn live(&mut self, first: u64) -> Result<(), Refused> {
        for group in 0..GROUPS {
            // Of one queue, as numbers tell them apart.
            let from = first + group * 10;
            let events = (0..3).map(|n| from + n * kit::QUEUES).collect();
            self.act(Act::Push {
                later: false,
                events,
            })?;
            let one = from + 8;
            self.act(Act::Push {
                later: true,
                events: vec![one],
            })?;
            match group % 3 {
                0 => self.act(Act::Update(one, 1))?,
                1 => self.act(Act::Reschedule(one))?,
                _ => self.act(Act::Cancel(one))?,
            }
            if group % 2 == 1 {
                self.handle(from, group)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, n: u64, group: u64) -> Result<(), Refused> {
        let deliveries = self.fetch(n)?;
        let events: Vec<u64> = deliveries.iter().map(|one| one.id.entropy()).collect();
        let queue = kit::bucket(n).queue;
        let started: Vec<&Delivery> = deliveries.iter().collect();
        let before = errors(self.folder);
        say(format_args!("do s {}", Act::Start(events.clone())));
        self.store.starting(&queue, &started).map_err(Refused)?;
        if before > 0 {
            say("failed a handler was started after the disk had failed");
        }
        let ends = (0..).map(|at| End::ALL[(at + group as usize) % End::ALL.len()]);
        let ends: Vec<(u64, End)> = events.into_iter().zip(ends).collect();
        let settlements = deliveries.iter().zip(&ends);
        let settlements = settlements.map(|(one, (_, end))| kit::settlement(one, end.verdict()));
        let op = kit::settle(settlements.collect());
        let buried = ends
            .iter()
            .filter(|(_, end)| *end == End::Bury)
            .map(|(n, _)| *n);
        let buried: Vec<u64> = buried.collect();
        self.does(&Act::Settle(ends), op)?;
        match buried.first() {
            Some(n) if group < 4 => self.act(Act::Revive(vec![*n])),
            Some(n) => self.act(Act::Drop(vec![*n])),
            None => Ok(()),
        }
    }

    /// After the first refusal everything is refused, in the same words.
    fn is_stopped(&mut self) {
        for n in 0..3 {
            let events = vec![900_000 + n];
            let act = Act::Push {
                later: false,
                events,
            };
            say(format_args!("do probe-{n} {act}"));
            match self.ask(&act.bucket(), act.op()) {
                Ok(_) => say(format_args!(
                    "failed {act} was answered by a store in doubt"
                )),
                Err(Refused(error)) if error.kind() == ErrorKind::Closed => {}
                Err(Refused(error)) => say(format_args!("failed not closed: {error}")),
            }
            if self.fetch(n).is_ok() {
                say("failed a store in doubt gave out work");
            }
        }
        if kit::wait(self.store.close()).is_ok() {
            say("failed a store in doubt was closed as if all were well");
        }
    }
}

/// How many requests have failed until now, and how many with something in doubt since.
fn failures(folder: &Path) -> (u64, u64) {
    let text = fs::read_to_string(folder.join(ERRORS)).expect("the disk counts them");
    let (failed, errors) = text.trim().split_once(' ').expect("two numbers");
    let number = |text: &str| text.parse().expect("a number");
    (number(failed), number(errors))
}

/// How many are in doubt.
fn errors(folder: &Path) -> u64 {
    failures(folder).1
}

/// In a child: two lives of a store, each until the disk fails.
pub(crate) fn script(folder: &Path) {
    for life in 0..2 {
        let mut script = match Script::begin(folder) {
            Ok(script) => script,
            Err(Refused(error)) => return refused(folder, &error),
        };
        if let Err(Refused(error)) = script.live(life * 1_000) {
            refused(folder, &error);
            return script.is_stopped();
        }
        let closed = kit::wait(script.store.close());
        if let Err(error) = closed {
            return refused(folder, &error);
        }
    }
}

fn refused(folder: &Path, error: &duly::Error) {
    let fits = matches!(
        error.kind(),
        ErrorKind::Unknown | ErrorKind::Closed | ErrorKind::Unavailable
    );
    if failures(folder).0 == 0 || !fits {
        say(format_args!("failed {:?}: {error}", error.kind()));
    }
    say(format_args!("refused {error}"));
}

/// In a child: a start after the disk failed, and some more work.
pub(crate) fn goes_on(folder: &Path, first: u64) {
    // Until the power goes, or it is done.
    let _ = Script::begin(folder).and_then(|mut script| {
        say("opened");
        script.live(first)
    });
}

/// What became of the script with the k-th write or sync failing.
struct Trial {
    k: u64,
    lasts: Lasts,
    names: Names,
}

impl Trial {
    fn run(&self) -> Option<String> {
        let disk = Disk::new(self.names);
        let mount = disk.mount(Faults {
            error: Some((self.k, self.lasts)),
            ..Faults::default()
        });
        let said = child::run("script", &mount.path());
        drop(mount);
        let mut wrong: Vec<String> = said.after("failed ").map(str::to_owned).collect();
        if disk.errors() > 0 && said.after("refused ").next().is_none() {
            wrong.push("the disk failed and nobody noticed".to_owned());
        }
        let mut story = Story::default();
        story.take(&said);
        let found = facts(&disk, &story);
        wrong.extend(judge(&found, &mut story.clone(), "after a new start"));
        let dark = disk.twin();
        dark.cut(None);
        let left = facts(&dark, &story);
        wrong.extend(judge(&left, &mut story.clone(), "after a power cut"));
        // The machine runs on: what the failed sync left behind looks as if it were on disk.
        // The cut comes before the log is copied into the file, or after it.
        let at = fastrand::Rng::with_seed(self.k).u64(20..250);
        let mount = disk.mount(Faults {
            cut: Some(Cut { at, tear: None }),
            ..Faults::default()
        });
        let said = child::run("on 5000", &mount.path());
        disk.cut(None);
        drop(mount);
        // Whatever a store shows once it is open is on disk: somebody may have acted on it.
        if said.after("opened").next().is_some()
            && let Ok(found) = &found
        {
            drop(story.settle(found));
        }
        story.take(&said);
        let left = facts(&disk, &story);
        wrong.extend(judge(&left, &mut story, "after going on and a power cut"));
        let Self { k, lasts, names } = self;
        let case = format!("request {k} fails, {lasts:?}, names {names:?}");
        let more = wrong.len().saturating_sub(1);
        let first = wrong.into_iter().next();
        first.map(|first| format!("{case}: {first}, and {more} more"))
    }
}

type Facts = Result<BTreeMap<u64, Fact>, String>;

fn facts(disk: &Disk, story: &Story) -> Facts {
    Copy::of(disk).facts(&story.events())
}

fn judge(found: &Facts, story: &mut Story, when: &str) -> Vec<String> {
    let wrong = match found {
        Ok(found) => story.settle(found),
        Err(why) => vec![why.clone()],
    };
    let said = wrong.into_iter().map(|wrong| format!("{when}: {wrong}"));
    said.collect()
}

/// How many writes and syncs the script makes on a whole disk.
fn requests() -> u64 {
    let disk = Disk::new(Names::ByFolder);
    let mount = disk.mount(Faults::default());
    child::run("script", &mount.path()).expect_well("the script on a whole disk");
    drop(mount);
    disk.seen().writes_and_syncs
}

#[test]
#[allow(clippy::print_stdout, reason = "it tells the seed")]
fn whichever_write_or_sync_fails_nothing_is_answered_any_more_and_nothing_is_lost() {
    let requests = requests();
    assert!(requests > 100, "{requests}");
    let faults = setting("DULY_POWER_FAULTS").unwrap_or(FAULTS).max(1);
    let seed = setting("DULY_POWER_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let step = (requests / faults).max(1);
    let sample = (1 + seed % step..=requests).step_by(usize::try_from(step).expect("a few"));
    println!(
        "each {step}th of {requests} writes and syncs: DULY_POWER_SEED={seed} DULY_POWER_FAULTS={faults}"
    );
    let trials: Vec<Trial> = sample
        .flat_map(|k| {
            // Every k with both; the two ways of keeping names alternate.
            let names = [Names::WithFiles, Names::ByFolder];
            [Lasts::Once, Lasts::Always].map(|lasts| Trial {
                k,
                lasts,
                names: names[((k + u64::from(lasts == Lasts::Once)) % 2) as usize],
            })
        })
        .collect();
    let next = AtomicU64::new(0);
    let wrong = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let found = trial.run();
                    wrong.lock().expect("no trial panics with it").extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no trial panics with it");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
