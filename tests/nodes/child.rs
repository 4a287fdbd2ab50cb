//! What a child does until it is killed: it pushes, cancels and handles.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duly::config::QueueChoices;
use duly::prelude::*;
use duly::time::{Clock, Mono, SystemClock};
use duly::{Annotation, ErrorKind};
use duly_conformance::history::{EntryKind, PushResult};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::log::Log;

/// How often an event is tried at most.
pub(crate) const ATTEMPTS: u16 = 4;
/// What is left by 20 of the payloads whose handlers never end by themselves.
pub(crate) const HANGS: u64 = 17;
/// What a child is called with: folder, URL and role, as JSON.
pub(super) const SITE: &str = "DULY_NODE_SITE";

const WORK: Annotation = Annotation::new("work")
    .attempts(ATTEMPTS)
    .backoff(RetryPolicy::fixed(Duration::from_millis(15)))
    .ring(64);

/// What a node is and does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Role {
    /// Which numbers it draws.
    pub(crate) seed: u64,
    /// How many tasks push; with none it only handles.
    pub(crate) pushers: u64,
    /// How long each of them waits between two pushes.
    pub(crate) pace: Duration,
    /// Whether a payload may kill the process.
    pub(crate) mortal: bool,
    /// Whether a handler never ends, whatever its payload says.
    pub(crate) holds: bool,
    pub(crate) workers: usize,
    pub(crate) buckets: u16,
    /// The slots of its ring, where they are not 64.
    pub(crate) ring: Option<usize>,
    pub(crate) timeout: Duration,
    /// For how long a handler blocks its thread before it does anything.
    pub(crate) blocks: Duration,
    /// How many threads its runtime has; with 0 it is of the current thread.
    pub(crate) threads: usize,
    /// By how many seconds its wall clock is wrong.
    pub(crate) clock_s: i64,
    /// The newest format of bodies and records that it reads, and writes: it stands for a build
    /// that is newer than this one.
    pub(crate) format: Option<u8>,
    /// The URL of its journal; that of its site, where that names one.
    pub(crate) journal: Option<String>,
}

impl Default for Role {
    /// Four pushers that do not wait, and eight workers with a mortal handler.
    fn default() -> Self {
        Self {
            seed: 0,
            pushers: 4,
            pace: Duration::ZERO,
            mortal: true,
            holds: false,
            workers: 8,
            buckets: 8,
            ring: None,
            timeout: Duration::from_millis(200),
            blocks: Duration::ZERO,
            threads: 2,
            clock_s: 0,
            format: None,
            journal: None,
        }
    }
}

impl Role {
    /// Pushes nothing, kills nobody, and handles: what works off a store.
    pub(crate) fn worker() -> Self {
        Self {
            pushers: 0,
            mortal: false,
            ..Self::default()
        }
    }
}

/// The machine's clock, and always as wrong.
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

/// Writes down that it started, and then does what the payload says.
struct Work {
    log: Arc<Log>,
    mortal: bool,
    holds: bool,
    blocks: Duration,
}

impl Handler for Work {
    type Payload = u64;

    async fn handle(&self, event: Event<u64>, cx: &Context) -> Result<(), Failure> {
        let started = EntryKind::Started {
            lease: cx.lease().expect("it comes from the store"),
            attempt: event.attempt(),
            due: event.due().expect("it comes from the store"),
            payload: event.payload,
        };
        self.log.of(event.id(), started);
        std::thread::sleep(self.blocks);
        if self.holds {
            std::future::pending::<()>().await;
        }
        match event.payload % 20 {
            0..10 => Ok(()),
            10..13 if event.attempt() < 3 => Err(Failure::retry("not yet")),
            13 => Err(Failure::retry("never")),
            14 => Err(Failure::permanent("no")),
            15 => Err(Failure::discard("no use")),
            16 => std::panic::resume_unwind(Box::new("on purpose")), // without a word to the console
            HANGS => std::future::pending().await,
            18 if self.mortal && event.payload % 1_000 == 18 => std::process::abort(),
            _ => {
                tokio::time::sleep(Duration::from_millis(event.payload % 25)).await;
                Ok(())
            }
        }
    }
}

/// A bus on a store, whose handler writes the log.
pub(crate) async fn bus(url: &str, log: &Arc<Log>, role: &Role) -> duly::Result<Bus> {
    let handler = Work {
        log: Arc::clone(log),
        mortal: role.mortal,
        holds: role.holds,
        blocks: role.blocks,
    };
    let choices = QueueChoices {
        buckets: Some(role.buckets),
        workers: Some(role.workers),
        ring: role.ring,
        timeout: Some(role.timeout),
        ..QueueChoices::default()
    };
    let mut builder = Bus::builder()
        .only_registered()
        .settings(Default::default())
        .store_url(url)
        .queue("work", choices)
        .register_as(WORK, handler);
    if let Some(url) = &role.journal {
        builder = builder.journal_url(url);
    }
    if role.clock_s != 0 {
        builder = builder.clock(Arc::new(WrongClock(SystemClock::new(), role.clock_s)));
    }
    let bus = builder.start().await?;
    let (node, process) = (bus.node_id(), std::process::id());
    log.add(None, EntryKind::Joined { node, process });
    Ok(bus)
}

/// What the test `child` runs: in a child process a node, elsewhere nothing.
pub(crate) fn child() {
    if let Ok(site) = std::env::var(SITE) {
        let warnings = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
        warnings
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .init();
        let site: (PathBuf, String, Role) = serde_json::from_str(&site).expect("a site");
        live(&site.0, &site.1, &site.2);
    }
}

/// Pushes, cancels and handles, until it is killed or standard input ends.
fn live(folder: &Path, url: &str, role: &Role) {
    let mut runtime = match role.threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        threads => {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            runtime.worker_threads(threads);
            runtime
        }
    };
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let log = Arc::new(Log::open(folder));
        let bus = bus(url, &log, role).await.expect("the store opens");
        let queue: Queue<u64> = bus.queue_named("work").expect("a legal name");
        let stop = CancellationToken::new();
        let pushers = (0..role.pushers).map(|number| {
            let random = fastrand::Rng::with_seed(role.seed * 10 + number);
            let stop = stop.clone();
            tokio::spawn(push(
                queue.clone(),
                Arc::clone(&log),
                random,
                role.pace,
                stop,
            ))
        });
        let pushers: Vec<_> = pushers.collect();
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        ended.await.expect("it is read").expect("it can be read");
        stop.cancel();
        for pusher in pushers {
            pusher.await.expect("a pusher does not panic");
        }
        bus.shutdown(Duration::from_secs(10)).await.expect("a stop");
    });
}

/// Pushes one event, and writes it down.
pub(crate) async fn push_one(queue: &Queue<u64>, log: &Log, payload: u64) {
    let (id, attempts) = (queue.new_id(), ATTEMPTS);
    log.of(id, EntryKind::PushAsked { payload, attempts });
    let receipt = queue.event(payload).id(id).push().await;
    let what = EntryKind::PushAnswered {
        verdict: PushResult::Accepted,
        payload,
        due: Some(receipt.expect("it is accepted").due()),
    };
    log.of(id, what);
}

/// Pushes until it is stopped, between two events: what it asked is always logged. An id is pushed
/// again after an answer was lost, half the time; after a refusal it never is, so that it can be
/// seen that nothing happened.
async fn push(
    queue: Queue<u64>,
    log: Arc<Log>,
    mut random: fastrand::Rng,
    pace: Duration,
    stop: CancellationToken,
) {
    let pause = Duration::from_millis(10);
    let attempts = ATTEMPTS;
    while !stop.is_cancelled() {
        let (id, payload) = (queue.new_id(), random.u64(..1_000_000));
        let delay = Duration::from_millis(random.u64(..300).saturating_sub(100));
        // One of few, so that many are kept out.
        let unique = (random.u8(..4) == 0).then(|| random.u64(..3));
        log.of(id, EntryKind::PushAsked { payload, attempts });
        let is_pushed = loop {
            let mut event = queue.event(payload).id(id).after(delay);
            if let Some(key) = unique {
                event = event.unique(format!("one of {key}"), Unique::Keep);
            }
            match event.push().await {
                Ok(receipt) => {
                    let other = Some(receipt.id()).filter(|other| *other != id);
                    if let Some(key) = unique {
                        let (replaces, taken_by) = (false, other);
                        let what = EntryKind::UniqueAsked {
                            key,
                            replaces,
                            taken_by,
                        };
                        log.of(id, what);
                    }
                    let verdict = match other {
                        Some(_) => PushResult::KeyTaken,
                        None => PushResult::Accepted,
                    };
                    let what = EntryKind::PushAnswered {
                        verdict,
                        payload,
                        due: Some(receipt.due()),
                    };
                    log.of(id, what);
                    break other.is_none();
                }
                Err(error) if error.kind() == ErrorKind::Unknown => {
                    log.of(id, EntryKind::Unknown);
                    tokio::time::sleep(pause).await;
                    if random.bool() {
                        break false;
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Full) => {
                    log.of(id, EntryKind::PushRefused);
                    tokio::time::sleep(pause).await;
                    break false;
                }
                Err(error) => panic!("{id}: {:?}: {error}", error.kind()),
            }
        };
        if is_pushed && random.u8(..8) == 0 {
            let answer = queue.cancel(id).await;
            if let Ok(answer) = answer {
                let truth = answer.into();
                log.of(id, EntryKind::CancelAnswered { truth });
            }
        }
        if !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
    }
}
