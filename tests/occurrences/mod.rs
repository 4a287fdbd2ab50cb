//! Schedules carried out by processes that are killed with `kill -9`: each instant of a calendar is
//! one event, whatever dies.
//!
//! Children run 40 schedules with an instant every second or two until they are killed, at random
//! moments. Then one more carries out what is left, and records and starts are compared with the
//! calendar. `DULY_OCCURRENCE_KILLS` sets the number of kills, `DULY_OCCURRENCE_SEED` the moments.

#![allow(clippy::unwrap_used)] // what fails in a helper fails its test

mod troubles;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duly::Annotation;
use duly::event::Occurrence;
use duly::prelude::*;
use duly::schedule::{MissedPolicy, OverlapPolicy, ScheduleOptions};
use duly::time::{Clock, Mono, SystemClock, Timestamp};

use self::troubles::change;
use crate::servers::{Cluster, Redis};

/// What a child is called with: folder, URL, and by how many seconds its clock is wrong.
const SITE: &str = "DULY_OCCURRENCE_SITE";
/// What is killed again and again has attempts left, soon after.
const REPORT: Annotation = Annotation::new("report")
    .workers(64)
    .attempts(1_000)
    .backoff(RetryPolicy::fixed(Duration::from_millis(100)));
/// How many kills there are when nobody says otherwise.
const KILLS: u64 = 5;
/// How long nothing of what is left may come: longer than a dead process holds up what it was at.
const PATIENCE: Duration = Duration::from_secs(120);

/// Not a test by itself: it is what a child process runs.
#[test]
fn child() {
    let Ok(site) = std::env::var(SITE) else {
        return;
    };
    let (folder, url, clock_s): (PathBuf, String, i64) = serde_json::from_str(&site).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let log = File::options()
            .append(true)
            .create(true)
            .open(folder.join("starts"));
        let report = Report(Arc::new(log.unwrap()));
        let bus = Bus::builder()
            .only_registered()
            .settings(Default::default())
            .store_url(url)
            .clock(Arc::new(WrongClock(SystemClock::new(), clock_s)))
            .register_as(REPORT, report)
            .start()
            .await
            .unwrap();
        report_ends(&bus, &folder).await;
    });
}

/// Once somebody wants to know, writes the ends of all occurrences into a file, again and again: a
/// file of events is read by the process that has it.
async fn report_ends(bus: &Bus, folder: &Path) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        if folder.join("wanted").exists() {
            let ends: Vec<_> = ends(bus).await.into_iter().collect();
            let new = folder.join("ends.new");
            std::fs::write(&new, serde_json::to_vec(&ends).unwrap()).unwrap();
            std::fs::rename(new, folder.join("ends")).unwrap();
        }
    }
}

/// What a child has written last.
fn reported_ends(folder: &Path) -> Ends {
    let Ok(ends) = std::fs::read(folder.join("ends")) else {
        return Ends::new();
    };
    let ends: Vec<_> = serde_json::from_slice(&ends).unwrap();
    ends.into_iter().collect()
}

#[derive(Debug)]
struct WrongClock(SystemClock, i64);

impl Clock for WrongClock {
    fn wall_us(&self) -> u64 {
        self.0.wall_us().saturating_add_signed(self.1 * 1_000_000)
    }

    fn mono(&self) -> Mono {
        self.0.mono()
    }
}

/// Notes each start in one write, and takes some time for some.
struct Report(Arc<File>);

impl Handler for Report {
    type Payload = Occurrence;

    async fn handle(&self, event: Event<Occurrence>, _: &Context) -> Result<(), Failure> {
        let (one, id) = (&event.payload, event.id());
        let (instant, at) = (one.instant.as_millis(), now().as_millis());
        let line = format!("{} {instant} {id} {at}\n", one.schedule);
        (&*self.0).write_all(line.as_bytes()).unwrap();
        if one.schedule.starts_with("slow") {
            tokio::time::sleep(Duration::from_millis(1_300)).await;
        }
        Ok(())
    }
}

/// The schedules, by name.
fn schedules() -> BTreeMap<String, ScheduleOptions> {
    let of = |when: &str| {
        ScheduleOptions::new("report", when)
            .unwrap()
            .missed(MissedPolicy::All(1_000))
    };
    let mut all = BTreeMap::new();
    for number in 0..10 {
        all.insert(format!("plain-{number}"), of("every 1s"));
        all.insert(format!("cron-{number}"), of("*/2 * * * * * Europe/Berlin"));
        all.insert(
            format!("slow-skips-{number}"),
            of("every 1s").overlap(OverlapPolicy::Skip),
        );
        all.insert(
            format!("slow-waits-{number}"),
            of("every 2s").overlap(OverlapPolicy::Wait),
        );
    }
    all
}

/// A child; killed when this is dropped.
struct Node(Child);

impl Node {
    fn start(folder: &Path, url: &str, clock_s: i64) -> Self {
        let site = serde_json::to_string(&(folder, url, clock_s)).unwrap();
        let err = File::options()
            .append(true)
            .create(true)
            .open(folder.join("err"));
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "occurrences::child", "--nocapture"])
            .env(SITE, site)
            .stdout(Stdio::null())
            .stderr(err.unwrap())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

async fn pushing(url: &str) -> Bus {
    let builder = Bus::builder()
        .only_registered()
        .settings(Default::default());
    builder.publish_only().store_url(url).start().await.unwrap()
}

/// The final records: of each schedule and instant the ids and outcomes.
type Ends = BTreeMap<(String, Timestamp), Vec<(String, String)>>;

async fn ends(bus: &Bus) -> Ends {
    let (mut ends, mut after) = (Ends::new(), None);
    loop {
        let page = bus.records().queue("report").limit(1_000).after(after);
        let page = page.page().await.unwrap();
        for record in page.items.into_iter().filter(|record| record.is_final()) {
            let key = (record.key.unwrap(), record.due);
            ends.entry(key)
                .or_default()
                .push((record.id.to_string(), record.outcome.to_string()));
        }
        after = page.next;
        if after.is_none() {
            return ends;
        }
    }
}

/// Whether an instant has its event, apart from those that were taken back.
fn is_over(ends: &Ends, key: &(String, Timestamp)) -> bool {
    let all = ends.get(key).map_or(&[][..], Vec::as_slice);
    all.iter().any(|(_, outcome)| outcome != "cancelled")
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// `nodes`: how many run at a time, with their wrong clocks. `opens`: whether others may use the store
/// beside them.
#[allow(clippy::disallowed_methods, clippy::print_stdout)] // real time and processes; tells the seed
async fn killed(url: &str, clocks: &[i64], is_shared: bool) {
    let kills = number("DULY_OCCURRENCE_KILLS").unwrap_or(KILLS);
    carried_out(url, clocks, is_shared, (kills, None)).await;
}

/// What happens to a store beside a change of a schedule; returns from when until when writes may have
/// been lost that it had accepted.
type Trouble = Arc<dyn Fn(u64) -> Option<(Timestamp, Timestamp)> + Send + Sync>;
/// How long before or after that an event may start that was pushed by a write that is lost.
const LOST: Duration = Duration::from_secs(2);

/// Carries schedules out while so many nodes are killed, or the store has `trouble` so often; then
/// compares with the calendar.
#[allow(clippy::disallowed_methods, clippy::print_stdout)] // real time and processes; tells the seed
async fn carried_out(
    url: &str,
    clocks: &[i64],
    is_shared: bool,
    (kills, trouble): (u64, Option<Trouble>),
) {
    let seed = number("DULY_OCCURRENCE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("DULY_OCCURRENCE_SEED={seed} DULY_OCCURRENCE_KILLS={kills}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let schedules = schedules();
    let bus = pushing(url).await;
    for (name, options) in &schedules {
        bus.schedules().set(name, options.clone()).await.unwrap();
    }
    let began = now();
    let bus = if is_shared {
        Some(bus)
    } else {
        bus.shutdown(Duration::from_secs(5)).await.unwrap();
        None
    };
    let start = |number: usize| Node::start(folder.path(), url, clocks[number % clocks.len()]);
    let mut nodes: Vec<_> = (0..clocks.len()).map(start).collect();
    let mut lost = Vec::new();
    for kill in 0..kills {
        // While it opens the store, pushes what follows, or handles.
        std::thread::sleep(Duration::from_micros(random.u64(100_000..2_000_000)));
        let moving = trouble.clone().map(|trouble| {
            tokio::task::spawn_blocking(move || trouble(kill)) // while the schedule is changed
        });
        if let Some(bus) = &bus {
            let name = format!("plain-{}", random.u64(..10));
            change(bus, (&name, &schedules[&name]), &mut random).await;
        }
        if let Some(moving) = moving {
            lost.extend(moving.await.unwrap());
        } else {
            let victim = random.usize(..nodes.len());
            drop(nodes.swap_remove(victim));
            nodes.push(start(kill as usize));
        }
    }
    if let Some(bus) = bus.as_ref().filter(|_| trouble.is_some()) {
        for name in schedules.keys() {
            bus.schedules().resume(name).await.unwrap(); // a failover forgets the last changes
        }
    }
    let ended = now();
    // One carries out what is left.
    nodes.truncate(1);
    let expected = |name: &str, options: &ScheduleOptions| -> Vec<(String, Timestamp)> {
        let instants = options.instants(began).take_while(|at| *at <= ended);
        instants.map(|at| (name.to_owned(), at)).collect()
    };
    let expected: Vec<_> = schedules
        .iter()
        .flat_map(|(name, it)| expected(name, it))
        .collect();
    // Those that wait for one another are behind after many kills, and catch up one by one.
    let (mut waits, mut least) = (Instant::now(), usize::MAX);
    File::create(folder.path().join("wanted")).unwrap();
    let ends = loop {
        let ends = match &bus {
            Some(bus) => ends(bus).await,
            None => reported_ends(folder.path()),
        };
        let missing = expected.iter().filter(|key| !is_over(&ends, key)).count();
        if missing == 0 {
            break ends;
        }
        if missing < least {
            (waits, least) = (Instant::now(), missing);
        }
        let said = std::fs::read_to_string(folder.path().join("err")).unwrap_or_default();
        let first = expected.iter().find(|key| !is_over(&ends, key));
        assert!(
            waits.elapsed() < PATIENCE,
            "{missing} have no record, such as {first:?}: {said}"
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    drop(nodes);
    // Each instant is one event, and none is outside of the calendar.
    for ((name, instant), all) in &ends {
        let run = all.iter().filter(|(_, it)| it != "cancelled");
        assert!(run.count() <= 1, "{name} at {instant}: {all:?}");
        let just_before = Timestamp::from_millis(instant.as_millis() - 1);
        let next = schedules[name].instants(just_before).next();
        assert_eq!(next, Some(*instant), "{name}");
    }
    let mut started: BTreeMap<(String, u64), BTreeMap<String, Timestamp>> = BTreeMap::new();
    for line in std::fs::read_to_string(folder.path().join("starts"))
        .unwrap()
        .lines()
    {
        let words: Vec<_> = line.split(' ').collect();
        let key = (words[0].to_owned(), words[1].parse().unwrap());
        let at = Timestamp::from_millis(words[3].parse().unwrap());
        let ids = started.entry(key).or_default();
        ids.entry(words[2].to_owned()).or_insert(at);
    }
    for (key, ids) in &started {
        let first = ids.values().min().unwrap();
        let was_lost = |(from, until): &(Timestamp, Timestamp)| {
            from.since(*first).max(first.since(*until)) < LOST
        };
        let most = 1 + lost.iter().filter(|span| was_lost(span)).count();
        assert!(ids.len() <= most, "{key:?} was {ids:?}; lost: {lost:?}");
    }
    let acked = ends.values();
    let acked = acked.filter(|all| all.iter().any(|(_, it)| it == "acked"));
    let acked = acked.count();
    println!(
        "{} instants, {acked} acked, {} started",
        ends.len(),
        started.len()
    );
    assert!(acked * 2 > expected.len(), "{acked} of {}", expected.len());
}

#[allow(clippy::disallowed_methods)] // the time of every server on this machine
fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp::from_millis(since.unwrap().as_millis() as u64)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instant_is_one_event_on_redis_whichever_node_is_killed() {
    let redis = Redis::plain();
    killed(&redis.url(), &[0, 5, -5], true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instant_is_one_event_on_a_cluster_whichever_node_is_killed() {
    let cluster = Cluster::masters(3);
    killed(&cluster.url(), &[0, 5], true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instant_is_one_event_on_the_embedded_store_whenever_its_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("duly.db").display());
    killed(&url, &[0], false).await;
}
