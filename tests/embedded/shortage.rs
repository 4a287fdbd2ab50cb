//! Shortages of the process and of the disk that come and go: nothing is lost by one, nothing of
//! what was refused happened, and when it is over everything works again without a restart.
//!
//! A child lowers and raises its own limits, so that no other test is short of anything.
//! `DULY_SHORTAGE_CASES` sets how many children there are, `DULY_SHORTAGE_SEED` the first seed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duly::event::{Envelope, Payload};
use duly::records::Query;
use duly::store::operation::{
    AttemptOutcome, Delivery, Fetch, Fetched, NewEvent, Reply, StartMark, StoreOp,
};
use duly::store::{CheckTask, EmbeddedOptions, EmbeddedStore, Setting, Store};
use duly::time::When;
use duly::{Error, ErrorKind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::embedded::child::{self, Running};
use crate::embedded::full::on_a_small_disk;
use crate::embedded::harness::*;

const SEED: &str = "DULY_SHORTAGE_SEED";
/// How often in a child something is short, and how much is done meanwhile.
const ROUNDS: usize = 10;
const STEPS: usize = 12;
/// So many notes fill a file of them.
const NOTES: usize = (1 << 18) / 32;

/// What there is too little of, as long as this lives.
enum Short {
    Limit(Resource, Rlimit),
    Disk(PathBuf),
}

impl Short {
    /// Lowers a limit of this process, which can raise it again.
    fn of(resource: Resource, most: u64) -> Self {
        let before = getrlimit(resource);
        let lower = Rlimit {
            current: Some(most),
            maximum: before.maximum,
        };
        setrlimit(resource, lower).expect("a lower limit");
        Self::Limit(resource, before)
    }

    /// Leaves descriptors for so many files more.
    fn descriptors(more: usize) -> Self {
        let open: Vec<u64> = fs::read_dir("/proc/self/fd")
            .expect("the descriptors")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        // The first that is free, or the one after it, and so on; the folder itself was one.
        let free = (0..).filter(|number| !open.contains(number) || Some(number) == open.last());
        let limit = free.take(more + 1).last().expect("numbers do not end");
        Self::of(Resource::Nofile, limit)
    }

    /// Leaves so many bytes of the disk.
    fn disk(path: &Path, left: usize) -> Self {
        let spare = path.with_file_name("spare");
        fs::write(&spare, vec![1; left]).ok();
        let ballast = crate::embedded::full::ballast(path);
        fs::remove_file(spare).ok();
        Self::Disk(ballast)
    }

    fn random(path: &Path, rng: &mut fastrand::Rng) -> (&'static str, Self) {
        let len = |suffix: &str| {
            let mut path = path.as_os_str().to_owned();
            path.push(suffix);
            fs::metadata(path).map_or(0, |file| file.len())
        };
        match rng.usize(..4) {
            0 | 1 => ("descriptors", Self::descriptors(rng.usize(..3))),
            2 => {
                let sizes = [0, len(""), len("-wal"), 1 << 18, rng.u64(..4 << 20)];
                let size = sizes[rng.usize(..sizes.len())] + rng.u64(..3) * 1_000;
                ("size of files", Self::of(Resource::Fsize, size))
            }
            _ => ("disk", Self::disk(path, rng.usize(..300_000))),
        }
    }
}

impl Drop for Short {
    fn drop(&mut self) {
        match self {
            Self::Limit(resource, before) => {
                setrlimit(*resource, before.clone()).expect("the limit of before");
            }
            Self::Disk(ballast) => fs::remove_file(ballast).expect("the ballast"),
        }
    }
}

/// What is known of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Stored,
    Over,
    Absent,
    /// Its last change was answered with `Unknown`.
    Either,
}

/// A store, and what it has answered.
struct Story {
    store: EmbeddedStore,
    events: BTreeMap<u64, Known>,
    leased: Vec<Delivery>,
    request: u64,
    unanswered: Option<Fetch>,
    rng: fastrand::Rng,
    /// What is short, for the message of a failure.
    now: String,
}

impl Story {
    fn new(path: &Path, seed: u64) -> Self {
        let options = EmbeddedOptions::new().reserve_bytes(1 << 20).cache_bytes(0); // so that bodies are read
        Self {
            store: EmbeddedStore::open_with(path, options).expect("a store"),
            events: BTreeMap::new(),
            leased: Vec::new(),
            request: 0,
            unanswered: None,
            rng: fastrand::Rng::with_seed(seed),
            now: String::new(),
        }
    }

    async fn ask(&self, op: StoreOp) -> Result<Reply, Error> {
        self.fine(self.store.apply(&key(), op).await)
            .map(|answer| answer.reply)
    }

    /// A shortage is an error that says so, and no other.
    fn fine<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &answer {
            use ErrorKind::{Full, Unavailable, Unknown};
            let is_fine = matches!(error.kind(), Full | Unavailable | Unknown);
            assert!(is_fine, "{}: {error}", self.now);
        }
        answer
    }

    async fn push(&mut self) -> Result<(), Error> {
        let next = self.events.len() as u64 + 1;
        let numbers: Vec<u64> = (next..next + self.rng.u64(1..20)).collect();
        let len = self.rng.usize(1..12_000);
        let new = |n: &u64| -> NewEvent {
            let mut event = event(*n, When::Now, 100);
            let payload = Payload::from(vec![*n as u8; len]);
            Arc::make_mut(&mut event.envelope).payload = payload;
            event
        };
        let pushed = self
            .ask(StoreOp::Push(numbers.iter().map(new).collect()))
            .await;
        let known = match &pushed {
            Ok(_) => Known::Stored,
            Err(error) if error.kind() == ErrorKind::Unknown => Known::Either,
            Err(_) => Known::Absent,
        };
        self.events.extend(numbers.iter().map(|n| (*n, known)));
        pushed.map(drop)
    }

    async fn fetch(&mut self) -> Result<(), Error> {
        let moved = StoreOp::MoveDue {
            limit: 1_000,
            calls: false,
        };
        self.ask(moved).await?;
        // One that was not answered is repeated: the events are leased all the same.
        let fetch = self.unanswered.take().unwrap_or_else(|| {
            self.request += 1;
            let mut fetch = fetch_of(self.request);
            fetch.limit = 1 + self.rng.usize(..60);
            fetch
        });
        match self.ask(StoreOp::Fetch(fetch.clone())).await {
            Ok(Reply::Fetched(Fetched { deliveries, .. })) => {
                self.leased.extend(deliveries);
                Ok(())
            }
            Ok(other) => panic!("a fetch was answered with {other:?}"),
            Err(error) => {
                self.unanswered = Some(fetch);
                Err(error)
            }
        }
    }

    fn start(&mut self) -> Result<(), Error> {
        let leased: Vec<&Delivery> = self.leased.iter().collect();
        self.fine(self.store.starting(&key().queue, &leased))?;
        // Of nobody, so that the file of notes is written anew.
        let other = Delivery {
            id: id(1 << 40),
            body: Arc::new(Envelope::new(id(1 << 40), key().queue, payload(1))),
            due: START,
            attempt: 1,
            request: 1,
            place: 0,
            moved_us: 0,
        };
        for _ in 0..3 {
            self.fine(self.store.starting(&key().queue, &vec![&other; NOTES / 2]))?;
        }
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), Error> {
        let leased = std::mem::take(&mut self.leased);
        let verdicts: Vec<_> = leased
            .iter()
            .map(|_| match self.rng.usize(..4) {
                0 => AttemptOutcome::Release,
                1 => AttemptOutcome::Snooze(Duration::ZERO),
                _ => AttemptOutcome::Ack,
            })
            .collect();
        let settlements = leased.iter().zip(&verdicts);
        let settlements = settlements.map(|(one, verdict)| settlement(one, verdict.clone()));
        let settled = self
            .ask(StoreOp::Settle {
                node: NODE,
                settlements: settlements.collect(),
                started: StartMark::default(),
            })
            .await;
        for (delivery, verdict) in leased.iter().zip(&verdicts) {
            let known = match (&settled, verdict) {
                (_, AttemptOutcome::Release | AttemptOutcome::Snooze(_)) => continue,
                (Ok(_), _) => Known::Over,
                (Err(_), _) => Known::Either,
            };
            self.events.insert(delivery.id.entropy(), known);
        }
        settled.map(drop)
    }

    async fn read(&mut self) -> Result<(), Error> {
        self.ask(StoreOp::Stats).await?;
        let n = 1 + self.rng.u64(..self.events.len().max(1) as u64);
        self.ask(StoreOp::Get { id: id(n) }).await?;
        self.fine(self.store.damaged().await)?;
        let page = duly::testing::records(&self.store, Query::default()).await;
        self.fine(page).map(drop)
    }

    async fn administer(&mut self) -> Result<(), Error> {
        let setting = Setting::Workers(Some(self.rng.u16(1..9)));
        self.fine(self.store.set(&key().queue, setting).await)?;
        let damage = self.fine(self.store.check_store(CheckTask::new(false)).await)?;
        let is_full = |words: &str| words.contains("the disk is full");
        assert!(
            damage.iter().all(|one| is_full(&one.words)),
            "{}: {damage:?}",
            self.now
        );
        Ok(())
    }

    /// Does something; each error is one that a shortage may have.
    async fn step(&mut self) {
        let _ = match self.rng.usize(..8) {
            0..=2 => self.push().await,
            3 => self.fetch().await,
            4 => self.start(),
            5 | 6 => self.settle().await,
            _ => match self.rng.bool() {
                true => self.read().await,
                false => self.administer().await,
            },
        };
    }

    /// Nothing is short: everything works, at the latest after a while.
    #[allow(clippy::disallowed_methods)] // real time: this is about a real disk
    async fn works(&mut self) {
        let began = std::time::Instant::now();
        loop {
            let done = async {
                // What is stored may fill the disk by right.
                self.fetch().await?;
                while !self.leased.is_empty() {
                    self.settle().await?;
                    self.fetch().await?;
                }
                self.push().await?;
                self.fetch().await?;
                self.start()?;
                self.settle().await?;
                self.read().await?;
                self.administer().await
            };
            let Err(error) = done.await else { break };
            let waited = began.elapsed();
            assert!(
                waited < Duration::from_secs(30),
                "{} is over, and still {error}",
                self.now
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Opens it again and compares.
    async fn ends(mut self, path: &Path) {
        let closed = self.store.close().await;
        closed.expect("a close");
        drop(std::mem::replace(
            &mut self.store,
            EmbeddedStore::open(path.with_file_name("other.db")).expect("a store"),
        ));
        let events = std::mem::take(&mut self.events);
        assert_all(path, &events);
    }
}

/// What is in the store at `path` is what it has answered.
fn assert_all(path: &Path, events: &BTreeMap<u64, Known>) {
    let options = EmbeddedOptions::inline().reserve_bytes(4_096);
    let store = EmbeddedStore::open_with(path, options).expect("a store");
    for (n, known) in events {
        let found = get(&store, *n).filter(|found| !found.state.is_final());
        match known {
            Known::Stored => assert!(found.is_some(), "event {n} was answered and is lost"),
            Known::Over | Known::Absent => {
                assert!(found.is_none(), "event {n} is {known:?}: {found:?}")
            }
            Known::Either => {}
        }
    }
    store.check().expect("a sound store");
}

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |set| set.parse().expect("a number"))
}

#[test]
#[allow(clippy::print_stdout)] // a failure says its seed
fn when_a_shortage_is_over_everything_works_and_nothing_was_lost() {
    let first = number(SEED, fastrand::u64(..1 << 32));
    let cases = number("DULY_SHORTAGE_CASES", 3);
    // They wait for most of their time.
    let seeds: Vec<u64> = (first..first + cases).collect();
    for seeds in seeds.chunks(4) {
        let run = |seed: &u64| {
            println!("{SEED}={seed}");
            let mount = tempfile::tempdir().expect("a directory");
            let mut command = on_a_small_disk("shortage::comes_and_goes", mount.path());
            command.env(SEED, seed.to_string());
            (*seed, mount, Running::start(command))
        };
        for (seed, _mount, mut child) in seeds.iter().map(run).collect::<Vec<_>>() {
            let passed = child.next("passed");
            let end = child.child.wait().expect("its end");
            assert!(end.success() && passed.is_some(), "{SEED}={seed}: {end}");
        }
    }
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn comes_and_goes() {
    let Some(path) = child::path() else { return };
    let mut story = Story::new(&path, number(SEED, 0));
    story.works().await;
    for round in 0..ROUNDS {
        let (what, short) = Short::random(&path, &mut story.rng);
        story.now = format!("round {round}, {what}");
        for _ in 0..STEPS {
            story.step().await;
        }
        drop(short);
        story.works().await;
    }
    story.ends(&path).await;
    println!("passed");
}

/// At each file that it opens, and with each size that a file may have.
#[test]
fn an_open_that_finds_too_little_says_so_and_helps_when_it_is_there() {
    let place = Place::new();
    let mut child = Running::start(child::command("shortage::opens", &place.path()));
    let passed = child.next("passed");
    let end = child.child.wait().expect("its end");
    assert!(end.success() && passed.is_some(), "{end}");
}

#[test]
#[allow(clippy::print_stdout)] // it talks to its parent
fn opens() {
    let Some(path) = child::path() else { return };
    let place = Place::new();
    let limits = (0..20).map(|more| (Resource::Nofile, more));
    let sizes = [0, 1, 4_095, 20_000, 60_000, 200_000, 300_000, 1 << 20];
    let (mut refused, mut opened) = (0, 0);
    for (number, (resource, most)) in limits
        .chain(sizes.map(|size| (Resource::Fsize, size)))
        .enumerate()
    {
        for is_new in [true, false] {
            let path = match is_new {
                true => path.with_file_name(format!("{number}.db")),
                false => path.clone(),
            };
            let open = || EmbeddedStore::open_with(&path, place.options());
            if !is_new {
                drop(open().expect("nothing is short"));
            }
            let short = match resource {
                Resource::Nofile => Short::descriptors(most as usize),
                _ => Short::of(resource, most),
            };
            match open() {
                Ok(store) => {
                    opened += 1;
                    drop(store);
                }
                Err(error) => {
                    refused += 1;
                    let words = error.to_string();
                    match resource {
                        Resource::Nofile => {
                            assert_eq!(error.kind(), ErrorKind::Unavailable, "{words}");
                            assert!(words.contains("limits"), "{words}");
                        }
                        _ => assert_eq!(error.kind(), ErrorKind::Full, "{words}"),
                    }
                }
            }
            drop(short);
            push_now(
                &open().unwrap_or_else(|error| panic!("{number}: {error}")),
                number as u64 + 1,
            );
        }
    }
    assert!(refused > 10 && opened > 10, "{refused} and {opened}");
    println!("passed");
}

/// Rust ends a process that finds no memory for what it must have; what SQLite, threads and mappings
/// do not find is an error.
#[test]
fn a_process_without_memory_loses_nothing() {
    for spare in [64 << 10, 512 << 10, 3 << 20] {
        let place = Place::new();
        let mut command = child::command("shortage::memory_runs_out", &place.path());
        command.env(SEED, u64::to_string(&spare));
        let mut child = Running::start(command);
        let mut events = BTreeMap::new();
        let mut is_through = false;
        while let Some(Ok(line)) = child.lines.next() {
            let Some((_, said)) = line.split_once("event ") else {
                is_through |= line.contains("passed");
                continue;
            };
            let (n, known) = said.split_once(' ').expect("what is known");
            let known = match known {
                "stored" => Known::Stored,
                "over" => Known::Over,
                _ => Known::Either,
            };
            events.insert(n.parse().expect("a number"), known);
        }
        let end = child.child.wait().expect("its end");
        assert!(is_through == end.success(), "{end}");
        assert!(!events.is_empty());
        assert_all(&place.path(), &events);
    }
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn memory_runs_out() {
    let Some(path) = child::path() else { return };
    let mut story = Story::new(&path, 7);
    story.works().await;
    let pages = fs::read_to_string("/proc/self/statm").expect("its size");
    let pages: u64 = pages
        .split(' ')
        .next()
        .and_then(|pages| pages.parse().ok())
        .expect("a number");
    let short = Short::of(Resource::As, pages * 4_096 + number(SEED, 0));
    let tell = |story: &Story| {
        for (n, known) in &story.events {
            println!("event {n} {}", format!("{known:?}").to_lowercase());
        }
    };
    tell(&story);
    for _ in 0..30 {
        // What was on its way when it died may be so or not.
        let next = story.events.len() as u64 + 1;
        (next..next + 20).for_each(|n| println!("event {n} either"));
        for delivery in &story.leased {
            println!("event {} either", delivery.id.entropy());
        }
        story.step().await;
        tell(&story);
    }
    drop(short);
    story.works().await;
    tell(&story);
    story.store.close().await.expect("a close");
    println!("passed");
}
