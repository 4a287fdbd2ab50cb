//! Sizes of queues, as lmstfy's dashboard reads them.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::gauge;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::metrics::labeled;
use crate::shared::Table;
use crate::state::App;

/// How old the sizes of a page may be.
const AGE_MAX: Duration = Duration::from_secs(5);
/// How long a page waits for its sizes.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Of how many queues of a pool there are sizes.
const QUEUES_MAX: usize = 200;

/// When the sizes were read; they are read when a page needs them, so a server without a scraper
/// reads none.
#[derive(Debug, Default)]
pub(crate) struct Gauges(Mutex<Option<Instant>>);

impl Gauges {
    /// Reads the sizes of all queues, unless they are recent or another page reads them.
    pub(crate) async fn refresh(&self, app: &App) {
        let Ok(mut read) = self.0.try_lock() else {
            return;
        };
        if read.is_some_and(|read| read.elapsed() < AGE_MAX) {
            return;
        }
        match timeout(WAIT_MAX, read_all(app)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "sizes of queues not read"),
            Err(_) => tracing::warn!("sizes of queues not read in time"),
        }
        *read = Some(Instant::now());
    }
}

async fn read_all(app: &App) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    for pool in app.pools.iter() {
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
            let labels = labeled(name, namespace, queue);
            gauge!("infra_lmstfy_redis_queue_sizes", labels.iter()).set(stats.ready as f64);
            gauge!("infra_lmstfy_redis_deadletter_sizes", labels.iter()).set(stats.dead as f64);
            delayed += stats.scheduled + stats.leased;
        }
        gauge!("infra_lmstfy_redis_timer_sizes", "pool" => name.to_owned()).set(delayed as f64);
    }
    Ok(())
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
