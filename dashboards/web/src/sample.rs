//! The sampler: a picture of all queues in memory, which a bounded number of questions keeps
//! current while somebody looks.
//!
//! Pages of many queues are rendered from the picture, so that a visitor more costs the store one
//! question: what is set of queues. It is taken only while somebody looks, and for a minute longer: a
//! dashboard that nobody opens asks nothing. The minutes before are in the records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duly::admin::{NodeInfo, QueueLoad, QueueStats};
use duly::records::NodeId;
use duly::store::Control;
use duly::time::Timestamp;
use duly::{Bus, QueueName};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::minutes::Minutes;
use crate::picture::{DeadReason, NodeNow, Picture, Point};
use crate::questions::{PATIENCE, in_time};

/// The time between two rounds.
const ROUND: Duration = Duration::from_secs(2);
/// The queues that one question counts, and the most that a round counts.
const QUEUES_AT_ONCE: usize = 500;
const QUEUES_MAX: usize = 5_000;
/// How long a round counts queues; the next one goes on. A visitor waits for the first round.
const COUNTING: Duration = Duration::from_millis(150);
const COUNTING_FIRST: Duration = Duration::from_millis(50);
/// How long the first round reads what costs more.
const DETAILS_FIRST: Duration = Duration::from_millis(50);
/// How long it goes on when nobody looks any more.
const LINGER: Duration = Duration::from_secs(60);
/// How many points of history are kept: ten minutes.
const POINTS_MAX: usize = 300;
/// The time between two readings of what costs more.
const DETAILS_EVERY: Duration = Duration::from_secs(10);
/// Of how many queues the next hour is counted, and its steps.
pub(crate) const FORECASTS_MAX: usize = 8;
const FORECAST_STEP: Duration = Duration::from_secs(120);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
/// Of how many queues dead letters are read, and how many of each.
const DEAD_QUEUES_MAX: usize = 5;
const DEAD_MAX: usize = 20;

/// The sampler of a bus.
#[derive(Debug)]
pub(crate) struct Sampler {
    bus: Bus,
    picture: RwLock<Arc<Picture>>,
    rounds: watch::Sender<u64>,
    runs: AtomicBool,
    looked: Mutex<Instant>,
    /// What actions have changed since the round that runs began.
    changed: Mutex<BTreeSet<QueueName>>,
}

/// The settings of queues, and what this process does with them.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) controls: BTreeMap<QueueName, Control>,
    pub(crate) load: Vec<QueueLoad>,
}

impl Sampler {
    pub(crate) fn new(bus: Bus) -> Self {
        Self {
            bus,
            picture: RwLock::default(),
            rounds: watch::Sender::new(0),
            runs: AtomicBool::new(false),
            looked: Mutex::new(Instant::now()),
            changed: Mutex::default(),
        }
    }

    /// Counts a queue again that an action has changed, so that the next page shows what it did and not
    /// what the last round saw.
    pub(crate) async fn refresh(&self, queue: &QueueName) {
        // What cannot be read now is read by the next round.
        let Ok(stats) = in_time(self.bus.stats(queue)).await else {
            return;
        };
        let mut picture = self.picture.write();
        if picture.round == 0 {
            return;
        }
        let mut newer = Picture::clone(&picture);
        newer.count(queue.clone(), stats);
        *picture = Arc::new(newer);
        self.changed.lock().insert(queue.clone());
    }

    /// Returns the picture; the first visitor waits for it.
    pub(crate) async fn picture(self: &Arc<Self>) -> Arc<Picture> {
        self.look();
        let mut rounds = self.rounds.subscribe();
        // Without a first round a page shows that there is none.
        let _ = tokio::time::timeout(PATIENCE, rounds.wait_for(|round| *round > 0)).await;
        self.now()
    }

    /// Returns the settings of queues, which anybody may have changed since the last round, and the load
    /// of this process before they were read: a pause that its handlers follow is among them.
    pub(crate) async fn settings(&self, picture: &Picture) -> Settings {
        let load = self.bus.load();
        let is_away = picture.error.is_some();
        if !is_away && let Ok(controls) = in_time(self.bus.controls()).await {
            return Settings { controls, load };
        }
        // Older settings do not say why handlers run or do not.
        Settings {
            controls: picture.controls.clone(),
            load: Vec::new(),
        }
    }

    fn now(&self) -> Arc<Picture> {
        Arc::clone(&self.picture.read())
    }

    /// Returns the numbers of rounds, as they end.
    pub(crate) fn rounds(&self) -> watch::Receiver<u64> {
        self.rounds.subscribe()
    }

    /// Starts the rounds, or lets them go on.
    pub(crate) fn look(self: &Arc<Self>) {
        *self.looked.lock() = Instant::now();
        if self.runs.swap(true, Ordering::AcqRel) {
            return;
        }
        let sampler = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut progress = Progress::default();
            while let Some(sampler) = sampler.upgrade() {
                let looked = *sampler.looked.lock();
                if looked.elapsed() > LINGER {
                    // The history has a gap now, and begins anew.
                    *sampler.picture.write() = Arc::default();
                    sampler.rounds.send_replace(0);
                    sampler.runs.store(false, Ordering::Release);
                    return;
                }
                sampler.round(&mut progress).await;
                drop(sampler);
                tokio::time::sleep(ROUND).await;
            }
        });
    }

    async fn round(&self, progress: &mut Progress) {
        let mut picture = {
            let picture = self.picture.read();
            self.changed.lock().clear();
            Picture::clone(&picture)
        };
        picture.error = None;
        picture.outbox = self.bus.outbox_backlog();
        if let Err(error) = self.count(&mut picture, progress).await {
            picture.error = Some(error.to_string());
        }
        if let Ok(controls) = in_time(self.bus.controls()).await {
            picture.controls = controls;
        }
        if let Ok(nodes) = in_time(self.bus.nodes()).await {
            progress.hear(nodes, self.bus.store_time(), &mut picture);
        }
        let details = progress
            .details
            .is_none_or(|at| at.elapsed() >= DETAILS_EVERY);
        if details && picture.error.is_none() {
            // A visitor waits for the first round: what it has not read of a store with many queues
            // is read by the next one.
            let patience = match (picture.round, picture.is_whole) {
                (0, false) => DETAILS_FIRST,
                _ => Duration::MAX,
            };
            let read = tokio::time::timeout(patience, self.read_details(&mut picture)).await;
            progress.details = read.ok().map(|()| Instant::now());
        }
        if picture.is_whole {
            let sum = |of: fn(&QueueStats) -> usize| {
                picture.queues.values().map(|queue| of(&queue.stats)).sum()
            };
            let point = Point {
                ready: sum(|stats| stats.ready),
                leased: sum(|stats| stats.leased),
            };
            picture.history.push_back(point);
            if picture.history.len() > POINTS_MAX {
                picture.history.pop_front();
            }
        }
        picture.round += 1;
        let round = picture.round;
        let mut last = self.picture.write();
        // This round may have read them before.
        for queue in self.changed.lock().iter() {
            if let Some(counted) = last.queues.get(queue) {
                picture.count(queue.clone(), counted.stats);
            }
        }
        *last = Arc::new(picture);
        drop(last);
        self.rounds.send_replace(round);
    }

    /// Counts the next queues, once around at most.
    async fn count(&self, picture: &mut Picture, progress: &mut Progress) -> duly::Result<()> {
        let began = Instant::now();
        let counting = match picture.round {
            0 => COUNTING_FIRST,
            _ => COUNTING,
        };
        let mut counted = 0;
        while counted < QUEUES_MAX {
            // It gives each queue its time, so that one takes none from the others.
            let page = self.bus.stats_page(progress.after.clone(), QUEUES_AT_ONCE);
            let page = page.await?;
            counted += page.items.len();
            for (queue, stats) in page.items {
                progress.seen.insert(queue.clone());
                match stats {
                    Ok(stats) => picture.count(queue, stats),
                    Err(error) => drop(picture.uncounted.insert(queue, error.to_string())),
                }
            }
            progress.after = page.next;
            if progress.after.is_none() {
                let seen = std::mem::take(&mut progress.seen);
                picture.queues.retain(|queue, _| seen.contains(queue));
                picture.uncounted.retain(|queue, _| seen.contains(queue));
                picture.is_whole = true;
                return Ok(());
            }
            if began.elapsed() >= counting {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads minutes, the next hour, and why dead letters died.
    async fn read_details(&self, picture: &mut Picture) {
        picture.minutes = Minutes::read(&self.bus, picture.queues.len()).await;
        picture.coming.clear();
        picture.coming_error = None;
        for queue in picture.largest(FORECASTS_MAX, |stats| stats.scheduled) {
            let steps = self.bus.forecast(&queue, HOUR, FORECAST_STEP);
            let steps = match in_time(steps).await {
                Ok(steps) => steps,
                Err(error) => {
                    picture.coming_error = Some(error.to_string());
                    break;
                }
            };
            let steps = steps.into_iter().map(|step| step.events).collect();
            picture.coming.push((queue, steps));
        }
        picture.dead.clear();
        for queue in picture.largest(DEAD_QUEUES_MAX, |stats| stats.dead) {
            let letters = self.bus.dead_letters().queue(&queue).limit(DEAD_MAX);
            let Ok(page) = in_time(letters.page()).await else {
                continue;
            };
            let mut errors: BTreeMap<String, usize> = BTreeMap::new();
            for letter in &page.items {
                let error = letter
                    .error()
                    .or(letter.cause().map(|cause| cause.as_str()));
                *errors
                    .entry(error.unwrap_or("unknown").to_owned())
                    .or_default() += 1;
            }
            if let Some((error, count)) = errors.into_iter().max_by_key(|(_, count)| *count) {
                let of = page.items.len();
                picture.dead.insert(queue, DeadReason { error, count, of });
            }
        }
    }
}

/// Where the rounds are.
#[derive(Debug, Default)]
struct Progress {
    after: Option<QueueName>,
    seen: BTreeSet<QueueName>,
    beats: BTreeMap<NodeId, (u64, Timestamp)>,
    details: Option<Instant>,
}

impl Progress {
    /// Notes which nodes have polled since the round before.
    fn hear(&mut self, nodes: Vec<NodeInfo>, now: Timestamp, picture: &mut Picture) {
        let before = std::mem::take(&mut self.beats);
        let nodes = nodes.into_iter().map(|node| {
            let known = before.get(&node.id);
            let is_alive = node.is_here || known.is_none_or(|(beat, _)| *beat != node.beat);
            let last_beat = known
                .filter(|_| !is_alive)
                .map_or(now, |(_, last_beat)| *last_beat);
            self.beats.insert(node.id, (node.beat, last_beat));
            NodeNow {
                node,
                is_alive,
                last_beat,
            }
        });
        picture.nodes = nodes.collect();
    }
}
