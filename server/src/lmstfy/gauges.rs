//! Sizes of queues, as lmstfy's dashboard reads them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::time::Duration;

use duly::admin::QueueStats;
use metrics::{Label, gauge};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::bus::Pool;
use crate::metrics::labels_of_sizes;
use crate::shared::Table;
use crate::state::App;

/// How old the sizes of a page may be.
const AGE_MAX: Duration = Duration::from_secs(5);
/// How long a page waits for its sizes.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Of how many queues of a pool there are sizes.
const QUEUES_MAX: usize = 200;

/// The sizes that were read; they are read when a page needs them, so a server without a scraper
/// reads none.
#[derive(Debug, Default)]
pub(crate) struct Gauges(Mutex<Shown>);

/// What the page shows.
#[derive(Debug, Default)]
struct Shown {
    read: Option<Instant>,
    queues: HashSet<Vec<Label>>,
}

/// The sizes of queues by their labels, and of pools. Queues that share their labels add up.
#[derive(Debug, Default)]
struct Sizes {
    queues: HashMap<Vec<Label>, QueueStats>,
    delayed: Vec<(String, usize)>,
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
        let mut sizes = Sizes::default();
        let is_whole = match timeout(WAIT_MAX, sizes.read_all(app)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "sizes of queues not read");
                false
            }
            Err(_) => {
                tracing::warn!("sizes of queues not read in time");
                false
            }
        };
        if is_whole {
            // What is not there any more has no jobs.
            for labels in shown.queues.drain() {
                sizes.queues.entry(labels).or_default();
            }
        }
        sizes.show();
        shown.queues.extend(sizes.queues.into_keys());
        shown.read = Some(Instant::now());
    }
}

impl Sizes {
    fn show(&self) {
        for (labels, stats) in &self.queues {
            gauge!("infra_lmstfy_redis_queue_sizes", labels.iter()).set(stats.ready as f64);
            gauge!("infra_lmstfy_redis_deadletter_sizes", labels.iter()).set(stats.dead as f64);
        }
        for (pool, delayed) in &self.delayed {
            gauge!("infra_lmstfy_redis_timer_sizes", "pool" => pool.clone()).set(*delayed as f64);
        }
    }

    async fn read_all(&mut self, app: &App) -> Result<(), Box<dyn Error + Send + Sync>> {
        for pool in app.pools.iter() {
            self.read(app, pool).await?;
        }
        Ok(())
    }

    async fn read(&mut self, app: &App, pool: &Pool) -> Result<(), Box<dyn Error + Send + Sync>> {
        let name = pool.name();
        let prefix = format!("{name}/");
        let keys = app.shared.list(Table::Queues, &prefix).await?;
        let names = keys.iter().filter_map(|(key, _)| {
            let names = key.strip_prefix(&prefix)?;
            names.split_once('/')
        });
        let mut delayed = 0;
        for (namespace, queue) in in_turns(names, QUEUES_MAX) {
            let stats = pool.stats(&pool.queue(namespace, queue)?).await?;
            delayed += stats.scheduled + stats.leased;
            let labels = labels_of_sizes(name, namespace, queue);
            *self.queues.entry(labels).or_default() += stats;
        }
        self.delayed.push((name.to_owned(), delayed));
        Ok(())
    }
}

/// Returns up to `most` queues, one of each namespace and then the next of each, so that those of one
/// hide nobody else's.
fn in_turns<'a>(
    names: impl Iterator<Item = (&'a str, &'a str)>,
    most: usize,
) -> Vec<(&'a str, &'a str)> {
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    let turn_of = |(namespace, queue)| {
        let turn = turns.entry(namespace).or_default();
        *turn += 1;
        (*turn, namespace, queue)
    };
    let mut names: Vec<(usize, &str, &str)> = names.map(turn_of).collect();
    names.sort_unstable();
    let names = names.into_iter().take(most);
    names
        .map(|(_, namespace, queue)| (namespace, queue))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_namespace_hides_no_other() {
        let names = [("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("c", "1")];
        let shown = in_turns(names.into_iter(), 4);
        assert_eq!(shown, [("a", "1"), ("b", "1"), ("c", "1"), ("a", "2")]);
    }
}
