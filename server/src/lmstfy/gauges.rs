//! Sizes of queues, as lmstfy's dashboard reads them.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use duly::admin::QueueStats;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use metrics::{Label, gauge};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout};

use crate::bus::Pool;
use crate::metrics::{Labels, labels_of_sizes};
use crate::state::App;

/// How old the sizes of a page may be.
const AGE_MAX: Duration = Duration::from_secs(5);
/// How long a page waits for its sizes.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How many queues of a pool are counted at the same time, beside those that take longer than this.
const AT_ONCE: usize = 32;
const SLOW: Duration = Duration::from_millis(100);
/// Of how many queues of a pool there are sizes.
const QUEUES_MAX: usize = 200;
/// The same with the first queues of namespaces that have no other.
const WITH_FIRST_MAX: usize = 400;

/// The sizes that were read; they are read when a page needs them, so a server without a scraper
/// reads none.
#[derive(Debug, Default)]
pub(crate) struct Gauges(Mutex<PageGauges>);

/// What the page shows.
#[derive(Debug, Default)]
struct PageGauges {
    read: Option<Instant>,
    /// The labels of queues, by the keys of these.
    labels: HashMap<String, Vec<Label>>,
}

/// The sizes of a pool and of its queues.
#[derive(Debug, Default)]
struct PoolSizes {
    pool: String,
    /// Whether its queues are known.
    is_listed: bool,
    sizes: HashMap<Vec<Label>, Size>,
    /// Of the queues that were counted, by their keys.
    counted: HashMap<String, Vec<Label>>,
    /// The keys of the queues that are shown, and not there any more.
    gone: Vec<String>,
}

/// The size of the queues that share their labels.
#[derive(Debug, Default)]
struct Size {
    stats: QueueStats,
    /// How many of them are not counted: a part of a sum would be told as the whole.
    uncounted: usize,
}

impl Gauges {
    /// Reads the sizes of all queues, unless they are recent or another page reads them.
    pub(crate) async fn refresh(&self, app: &App) {
        let Ok(mut shown) = self.0.try_lock() else {
            return;
        };
        if shown.read.is_some_and(|read| read.elapsed() < AGE_MAX) {
            return;
        }
        // All at once: one that hangs delays no other.
        let pools = app.pools.iter();
        let pools = pools.map(|pool| PoolSizes::read(app, pool, &shown.labels));
        for sizes in join_all(pools).await {
            sizes.show(&mut shown.labels);
        }
        shown.read = Some(Instant::now());
    }
}

impl PoolSizes {
    /// Reads as much as there is time for.
    async fn read(app: &App, pool: &Pool, shown: &HashMap<String, Vec<Label>>) -> Self {
        let name = pool.name();
        let mut sizes = Self {
            pool: name.to_owned(),
            ..Self::default()
        };
        match timeout(WAIT_MAX, sizes.read_all(app, pool, shown)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(pool = name, %error, "sizes of queues not read"),
            Err(_) => tracing::warn!(pool = name, "sizes of queues not read in time"),
        }
        sizes
    }

    /// Counts each queue by itself; returns the first error.
    async fn read_all(
        &mut self,
        app: &App,
        pool: &Pool,
        shown: &HashMap<String, Vec<Label>>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let name = pool.name();
        let prefix = format!("{name}/");
        let keys = app.shared.queues(&prefix).await?;
        let queues = keys.iter().filter_map(|key| {
            let (namespace, queue) = key.strip_prefix(&prefix)?.split_once('/')?;
            Some((key.as_str(), namespace, queue))
        });
        let is_listed = |key: &str| keys.binary_search_by(|it| it.as_str().cmp(key)).is_ok();
        let gone = shown.keys().filter(|key| key.starts_with(&prefix));
        self.gone = gone.filter(|key| !is_listed(key)).cloned().collect();
        let room = &Semaphore::new(AT_ONCE);
        let mut counts = FuturesUnordered::new();
        for (key, namespace, queue) in chosen(queues, |key| shown.contains_key(key)) {
            let labels = labels_of_sizes(&Labels::new(name, namespace), queue);
            self.sizes.entry(labels.clone()).or_default().uncounted += 1;
            let count = async move { pool.stats(&pool.queue(namespace, queue)?).await };
            counts.push(async move { (key, labels, past_slow(room, count).await) });
        }
        self.is_listed = true;
        let mut failed = None;
        while let Some((key, labels, stats)) = counts.next().await {
            match stats {
                Ok(stats) => {
                    let size = self.sizes.entry(labels.clone()).or_default();
                    size.stats += stats;
                    size.uncounted -= 1;
                    self.counted.insert(key.to_owned(), labels);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn show(mut self, shown: &mut HashMap<String, Vec<Label>>) {
        for labels in self.gone.iter().filter_map(|key| shown.remove(key)) {
            // What is not there any more has no jobs.
            self.sizes.entry(labels).or_default();
        }
        if self.is_listed && self.sizes.values().all(|size| size.uncounted == 0) {
            let stats = self.sizes.values().map(|size| &size.stats);
            let delayed: usize = stats.map(|stats| stats.scheduled + stats.leased).sum();
            gauge!("infra_lmstfy_redis_timer_sizes", "pool" => self.pool).set(delayed as f64);
        }
        for (labels, Size { stats, .. }) in self.sizes.iter().filter(|(_, it)| it.uncounted == 0) {
            gauge!("infra_lmstfy_redis_queue_sizes", labels.iter()).set(stats.ready as f64);
            gauge!("infra_lmstfy_redis_deadletter_sizes", labels.iter()).set(stats.dead as f64);
        }
        shown.extend(self.counted);
    }
}

/// Waits for a call, in a room that it leaves for another when it is slow: one server of several may not
/// respond, and the calls to the others are not to wait for it.
async fn past_slow<T>(room: &Semaphore, call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    let place = room.acquire().await;
    let done = timeout(SLOW, &mut call).await;
    drop(place);
    match done {
        Ok(done) => done,
        Err(_) => call.await,
    }
}

/// A queue: its key, its namespace and its name.
type Named<'a> = (&'a str, &'a str, &'a str);

/// Returns the queues whose sizes are read: those that are shown, as a size that falls means that jobs
/// are gone; then one of each namespace and the next of each, so that those of one hide nobody else's.
fn chosen<'a>(
    queues: impl Iterator<Item = Named<'a>>,
    is_shown: impl Fn(&str) -> bool,
) -> Vec<Named<'a>> {
    let (mut chosen, others): (Vec<_>, Vec<_>) = queues.partition(|(key, ..)| is_shown(key));
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, namespace, _) in &chosen {
        *turns.entry(namespace).or_default() += 1;
    }
    let in_turn = others.into_iter().map(|named| {
        let turn = turns.entry(named.1).or_default();
        *turn += 1;
        (*turn, named)
    });
    let mut in_turn: Vec<_> = in_turn.collect();
    in_turn.sort_unstable();
    for (turn, named) in in_turn {
        let most = if turn == 1 {
            WITH_FIRST_MAX
        } else {
            QUEUES_MAX
        };
        if chosen.len() < most {
            chosen.push(named);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the namespaces and names of what is chosen.
    fn chosen_of<'a>(names: &'a [(String, String)], shown: &[&str]) -> Vec<(&'a str, &'a str)> {
        let queues = names.iter().map(|(namespace, queue)| {
            // Names are keys here.
            (queue.as_str(), namespace.as_str(), queue.as_str())
        });
        let chosen = chosen(queues, |key| shown.contains(&key));
        chosen.into_iter().map(|(_, of, name)| (of, name)).collect()
    }

    fn names(namespace: &str, names: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
        let named = |name| (namespace.to_owned(), name);
        names.into_iter().map(named).collect()
    }

    #[test]
    fn one_namespace_hides_no_other() {
        let mut queues = names("a", (0..500).map(|number| format!("a{number:03}")));
        queues.extend(names("b", ["b0".to_owned(), "b1".to_owned()]));
        queues.extend(names("c", ["c0".to_owned()]));
        let chosen = chosen_of(&queues, &[]);
        assert_eq!(chosen.len(), QUEUES_MAX);
        let first = [
            ("a", "a000"),
            ("b", "b0"),
            ("c", "c0"),
            ("a", "a001"),
            ("b", "b1"),
        ];
        assert_eq!(chosen[..5], first);
    }

    #[test]
    fn what_is_shown_stays_and_others_come_beside_it() {
        let old = names("a", (0..200).map(|number| format!("old{number:03}")));
        let shown: Vec<&str> = old.iter().map(|(_, name)| name.as_str()).collect();
        let mut queues = names("a", (0..300).map(|number| format!("new{number:03}")));
        queues.extend(names("b", ["b0".to_owned(), "b1".to_owned()]));
        queues.extend(old.iter().cloned());
        for number in 0..500 {
            queues.extend(names(&format!("z{number:03}"), [format!("z{number:03}")]));
        }
        let chosen = chosen_of(&queues, &shown);
        assert!(shown.iter().all(|name| chosen.contains(&("a", name))));
        assert!(chosen.contains(&("b", "b0")) && !chosen.contains(&("b", "b1")));
        assert!(chosen.iter().all(|(_, name)| !name.starts_with("new")));
        assert_eq!(chosen.len(), WITH_FIRST_MAX);
        // A queue that is gone makes room.
        queues.retain(|(_, name)| name != "old007");
        let room = chosen_of(&queues, &shown);
        assert_eq!(
            (room.len(), room.contains(&("a", "old007"))),
            (WITH_FIRST_MAX, false)
        );
    }
}
