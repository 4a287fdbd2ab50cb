//! Sizes of queues, as lmstfy's dashboard reads them.

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
/// Of how many queues of a pool there are sizes, the first by name.
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
        for (namespace, queue) in names.take(QUEUES_MAX) {
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
