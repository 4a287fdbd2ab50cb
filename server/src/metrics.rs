//! Metrics: those of the library, and those that lmstfy's dashboard reads.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use duly::lease::{EncodedPayload, Leased};
use duly::metrics::Prometheus;
use metrics::{counter, histogram};

use crate::clock;
use crate::webhook::{SECONDS, SECONDS_BOUNDS};

/// How many pairs of pool and namespace have a label of their own; the rest share one.
const LABELS_MAX: usize = 1_000;
/// The label of the rest.
const OTHER: &str = "other";

static EXPORTER: OnceLock<Option<Prometheus>> = OnceLock::new();

/// Installs the exporter of this process, once; another recorder of the process stays.
pub(crate) fn install() {
    EXPORTER.get_or_init(
        || match Prometheus::install_with(&[(SECONDS, SECONDS_BOUNDS)]) {
            Ok(exporter) => Some(exporter),
            Err(error) => {
                tracing::warn!(%error, "metrics are not exported");
                None
            }
        },
    );
}

/// Returns the page for Prometheus.
pub(crate) fn page() -> String {
    let exporter = EXPORTER.get().and_then(Option::as_ref);
    exporter.map(Prometheus::render).unwrap_or_default()
}

/// The labels of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    pool: String,
    namespace: String,
}

impl Labels {
    pub(crate) fn new(pool: &str, namespace: &str) -> Self {
        static KNOWN: LazyLock<Mutex<HashSet<(String, String)>>> = LazyLock::new(Mutex::default);
        let pair = (pool.to_owned(), namespace.to_owned());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = known.contains(&pair);
        if !is_known && known.len() >= LABELS_MAX {
            return Self {
                pool: pair.0,
                namespace: OTHER.to_owned(),
            };
        }
        if !is_known {
            known.insert(pair.clone());
        }
        Self {
            pool: pair.0,
            namespace: pair.1,
        }
    }
}

/// Counts a request.
pub(crate) fn served(
    labels: &Labels,
    api: &'static str,
    method: &Method,
    status: StatusCode,
    took: Duration,
) {
    let Labels { pool, namespace } = labels.clone();
    let method = method.to_string();
    if status.as_u16() < 300 {
        histogram!(
            "infra_lmstfy_http_latency_milliseconds",
            "pool" => pool.clone(), "namespace" => namespace.clone(), "api" => api,
            "method" => method.clone()
        )
        .record(took.as_secs_f64() * 1_000.0);
    }
    counter!(
        "infra_lmstfy_http_http_codes",
        "pool" => pool, "namespace" => namespace, "api" => api, "method" => method,
        "code" => status.as_u16().to_string()
    )
    .increment(1);
}

/// Counts a request over its limit.
pub(crate) fn throttled(labels: &Labels, action: &'static str) {
    let Labels { pool, namespace } = labels.clone();
    counter!(
        "infra_lmstfy_http_rate_limit",
        "pool" => pool, "namespace" => namespace, "action" => action
    )
    .increment(1);
}

/// Counts published jobs.
pub(crate) fn published(labels: &Labels, queue: &str, jobs: usize, is_direct: bool) {
    let jobs = u64::try_from(jobs).unwrap_or(u64::MAX);
    let Labels { pool, namespace } = labels.clone();
    counter!("infra_lmstfy_redis_publish_jobs", "pool" => pool.clone()).increment(jobs);
    counter!("infra_lmstfy_redis_pool_add_jobs", "pool" => pool.clone()).increment(jobs);
    let name = match is_direct {
        true => "infra_lmstfy_redis_queue_direct_push_jobs",
        false => "infra_lmstfy_redis_timer_add_jobs",
    };
    counter!(name, "pool" => pool.clone()).increment(jobs);
    let labels = labeled(&pool, &namespace, queue);
    counter!("infra_lmstfy_redis_publish_queue_jobs", labels.iter()).increment(jobs);
}

/// Counts consumed jobs.
pub(crate) fn consumed(labels: &Labels, jobs: &[Leased<EncodedPayload>], is_batch: bool) {
    let Labels { pool, namespace } = labels.clone();
    let count = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
    if is_batch {
        counter!("infra_lmstfy_redis_consume_multi_jobs", "pool" => pool.clone()).increment(count);
    }
    counter!("infra_lmstfy_redis_queue_pop_jobs", "pool" => pool.clone()).increment(count);
    counter!("infra_lmstfy_redis_pool_get_jobs", "pool" => pool.clone()).increment(count);
    for job in jobs {
        let queue = job.queue().split_once('.').map_or("", |(_, queue)| queue);
        let labels = labeled(&pool, &namespace, queue);
        counter!("infra_lmstfy_redis_consume_queue_jobs", labels.iter()).increment(1);
        let elapsed = clock::now().since(job.id().created());
        histogram!("infra_lmstfy_redis_job_elapsed_ms", labels.iter())
            .record(elapsed.as_secs_f64() * 1_000.0);
    }
}

/// Counts respawned jobs.
pub(crate) fn respawned(labels: &Labels, jobs: usize) {
    let jobs = u64::try_from(jobs).unwrap_or(u64::MAX);
    counter!("infra_lmstfy_redis_deadletter_respawn_jobs", "pool" => labels.pool.clone())
        .increment(jobs);
}

/// Returns the labels of a queue; beyond a number of queues the same for all others.
pub(crate) fn labeled(pool: &str, namespace: &str, queue: &str) -> Vec<metrics::Label> {
    static KNOWN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let key = format!("{pool}/{namespace}/{queue}");
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_shown = known.contains(&key) || known.len() < LABELS_MAX && known.insert(key);
    let queue = if is_shown { queue } else { OTHER };
    let label = |name: &'static str, value: &str| metrics::Label::new(name, value.to_owned());
    vec![
        label("pool", pool),
        label("namespace", namespace),
        label("queue", queue),
    ]
}
