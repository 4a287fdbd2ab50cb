//! Metrics: those of the library, and those that lmstfy's dashboard reads.

mod labels;

use std::sync::OnceLock;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use duly::EventId;
use duly::lease::{EncodedPayload, Leased};
use duly::metrics::Prometheus;
use duly::time::Timestamp;
use metrics::{Gauge, counter, gauge, histogram};

use self::labels::KnownLabels;

/// How long requests of webhooks took. Labels: `pool`, `namespace`, `queue`.
pub(crate) const WEBHOOK_SECONDS: &str = "duly_webhook_seconds";

/// Its upper bounds of buckets: from a millisecond to the longest timeout.
const WEBHOOK_BOUNDS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    600.0,
];

/// The upper bounds of the buckets of lmstfy's latencies, in milliseconds: 15, and 2.5 times the one
/// before.
const LATENCY_BOUNDS: &[f64] = &[
    15.0,
    37.5,
    93.75,
    234.375,
    585.937_5,
    1_464.843_75,
    3_662.109_375,
    9_155.273_437_5,
    22_888.183_593_75,
];
/// Those of the times since a publish: 15, and 3.5 times the one before.
const ELAPSED_BOUNDS: &[f64] = &[
    15.0,
    52.5,
    183.75,
    643.125,
    2_250.937_5,
    7_878.281_25,
    27_573.984_375,
];
const LATENCY: &str = "infra_lmstfy_http_latency_milliseconds";
const JOB_ELAPSED: &str = "infra_lmstfy_redis_job_elapsed_ms";
const JOB_ACK_ELAPSED: &str = "infra_lmstfy_redis_job_ack_elapsed_ms";
/// Histograms, and the upper bounds of their buckets.
const HISTOGRAMS: &[(&str, &[f64])] = &[
    (WEBHOOK_SECONDS, WEBHOOK_BOUNDS),
    (LATENCY, LATENCY_BOUNDS),
    (JOB_ELAPSED, ELAPSED_BOUNDS),
    (JOB_ACK_ELAPSED, ELAPSED_BOUNDS),
];
/// The label of the rest.
const OTHER: &str = "other";

/// Polls that wait for events, those of streams and webhooks included.
const POLLS_WAITING: &str = "duly_polls_waiting";
/// Log lines that nobody read in time.
const LOG_LINES_DROPPED: &str = "duly_log_lines_dropped";

static EXPORTER: OnceLock<Option<Prometheus>> = OnceLock::new();

/// Installs the exporter of this process, once; another recorder of the process stays.
pub(crate) fn install() {
    EXPORTER.get_or_init(|| match Prometheus::install_with(HISTOGRAMS) {
        Ok(exporter) => {
            describe();
            Some(exporter)
        }
        Err(error) => {
            tracing::warn!(%error, "metrics are not exported");
            None
        }
    });
}

/// The metrics of the server's own, as the page describes them.
const HELP: &[(&str, &str)] = &[
    (
        POLLS_WAITING,
        "Polls that wait for events, those of streams and webhooks included.",
    ),
    (LATENCY, "How long requests took that succeeded."),
    (
        "infra_lmstfy_http_http_codes",
        "Requests by the status of their response.",
    ),
    (
        "infra_lmstfy_http_rate_limit",
        "Requests that the limit of their token refused.",
    ),
    (JOB_ELAPSED, "From the publish of a job to its consume."),
    (
        JOB_ACK_ELAPSED,
        "From the publish of a job to its acknowledgement.",
    ),
    (
        "infra_lmstfy_redis_publish_jobs",
        "Jobs that were published.",
    ),
    (
        "infra_lmstfy_redis_publish_queue_jobs",
        "Jobs that were published, by queue.",
    ),
    (
        "infra_lmstfy_redis_consume_multi_jobs",
        "Jobs that were consumed in batches.",
    ),
    (
        "infra_lmstfy_redis_consume_queue_jobs",
        "Jobs that were consumed, by queue.",
    ),
    (
        "infra_lmstfy_redis_pool_add_jobs",
        "Bodies that were stored.",
    ),
    (
        "infra_lmstfy_redis_pool_get_jobs",
        "Bodies that were read for a consume.",
    ),
    (
        "infra_lmstfy_redis_pool_delete_jobs",
        "Jobs that were acknowledged or recalled.",
    ),
    (
        "infra_lmstfy_redis_timer_add_jobs",
        "Jobs that were published with a delay.",
    ),
    (
        "infra_lmstfy_redis_queue_direct_push_jobs",
        "Jobs that were published without a delay.",
    ),
    (
        "infra_lmstfy_redis_queue_pop_jobs",
        "Jobs that were taken from the ready list.",
    ),
    (
        "infra_lmstfy_redis_deadletter_respawn_jobs",
        "Dead jobs that were respawned.",
    ),
    ("infra_lmstfy_redis_queue_sizes", "Ready jobs."),
    ("infra_lmstfy_redis_deadletter_sizes", "Dead jobs."),
    (
        "infra_lmstfy_redis_timer_sizes",
        "Jobs that wait for their time.",
    ),
];

fn describe() {
    for (name, help) in HELP {
        metrics::describe_counter!(*name, *help); // the page has one description for each name
    }
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
    /// The labels of a namespace for whose requests there is a token.
    pub(crate) fn new(pool: &str, namespace: &str) -> Self {
        Self::of(pool, namespace, KnownLabels::admit)
    }

    /// Those of a request without a token, which makes no name known.
    pub(crate) fn anonymous(pool: &str, namespace: &str) -> Self {
        Self::of(pool, namespace, KnownLabels::has)
    }

    fn of(pool: &str, namespace: &str, is_known: fn(&KnownLabels, &str, &str) -> bool) -> Self {
        let key = format!("{pool}/{namespace}");
        let namespace = if is_known(&NAMESPACES, &key, &key) {
            namespace
        } else {
            OTHER
        };
        Self {
            pool: pool.to_owned(),
            namespace: namespace.to_owned(),
        }
    }
}

static NAMESPACES: KnownLabels = KnownLabels::new();
static QUEUES: KnownLabels = KnownLabels::new();
/// Of the queues whose sizes are shown: many others have counts, and are gone soon.
static SIZES: KnownLabels = KnownLabels::new();
static TOKENS: KnownLabels = KnownLabels::new();

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
            LATENCY,
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

/// Counts log lines that nobody read in time.
pub(crate) fn log_lines_dropped(lines: u64) {
    counter!(LOG_LINES_DROPPED).increment(lines);
}

/// Counts a poll that waits, as long as the returned value lives.
pub(crate) fn waits() -> WaitingPoll {
    let polls = gauge!(POLLS_WAITING);
    polls.increment(1.0);
    WaitingPoll(polls)
}

/// A poll that waits, counted.
pub(crate) struct WaitingPoll(Gauge);

impl Drop for WaitingPoll {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Counts a request over the limit of a token, which is shown by its handle.
pub(crate) fn throttled(labels: &Labels, token: &str, action: &'static str) {
    let Labels { pool, namespace } = labels.clone();
    let token = if TOKENS.admit(&format!("{pool}/{namespace}"), token) {
        token
    } else {
        OTHER
    };
    counter!(
        "infra_lmstfy_http_rate_limit",
        "pool" => pool, "namespace" => namespace, "token" => token.to_owned(), "action" => action
    )
    .increment(1);
}

/// Counts published jobs.
pub(crate) fn published(labels: &Labels, queue: &str, jobs: usize, is_direct: bool) {
    let jobs = u64::try_from(jobs).unwrap_or(u64::MAX);
    let Labels { pool, .. } = labels;
    counter!("infra_lmstfy_redis_publish_jobs", "pool" => pool.clone()).increment(jobs);
    counter!("infra_lmstfy_redis_pool_add_jobs", "pool" => pool.clone()).increment(jobs);
    let name = if is_direct {
        "infra_lmstfy_redis_queue_direct_push_jobs"
    } else {
        "infra_lmstfy_redis_timer_add_jobs"
    };
    counter!(name, "pool" => pool.clone()).increment(jobs);
    let labels = labeled(labels, queue);
    counter!("infra_lmstfy_redis_publish_queue_jobs", labels.iter()).increment(jobs);
}

/// Counts consumed jobs.
pub(crate) fn consumed(
    labels: &Labels,
    jobs: &[Leased<EncodedPayload>],
    is_batch: bool,
    now: Timestamp,
) {
    let Labels { pool, .. } = labels;
    let count = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
    if is_batch {
        counter!("infra_lmstfy_redis_consume_multi_jobs", "pool" => pool.clone()).increment(count);
    }
    counter!("infra_lmstfy_redis_queue_pop_jobs", "pool" => pool.clone()).increment(count);
    counter!("infra_lmstfy_redis_pool_get_jobs", "pool" => pool.clone()).increment(count);
    for job in jobs {
        let queue = job.queue().split_once('.').map_or("", |(_, queue)| queue);
        let labels = labeled(labels, queue);
        counter!("infra_lmstfy_redis_consume_queue_jobs", labels.iter()).increment(1);
        if job.id().tells_time() {
            histogram!(JOB_ELAPSED, labels.iter()).record(since_ms(job.id(), now));
        }
    }
}

/// Counts a deleted job; one that was leased was acked, at this time by the store's clock.
pub(crate) fn ended(labels: &Labels, queue: &str, id: EventId, acked: Option<Timestamp>) {
    counter!("infra_lmstfy_redis_pool_delete_jobs", "pool" => labels.pool.clone()).increment(1);
    if let Some(now) = acked
        && id.tells_time()
    {
        let labels = labeled(labels, queue);
        histogram!(JOB_ACK_ELAPSED, labels.iter()).record(since_ms(id, now));
    }
}

/// Returns how old an id is; ids have the time of the store, as `now` does.
fn since_ms(id: EventId, now: Timestamp) -> f64 {
    now.since(id.created()).as_secs_f64() * 1_000.0
}

/// Counts respawned jobs.
pub(crate) fn respawned(labels: &Labels, jobs: usize) {
    let jobs = u64::try_from(jobs).unwrap_or(u64::MAX);
    counter!("infra_lmstfy_redis_deadletter_respawn_jobs", "pool" => labels.pool.clone())
        .increment(jobs);
}

/// Returns the labels of the sizes of a queue; beyond a number of queues the same for all others.
pub(crate) fn labels_of_sizes(labels: &Labels, queue: &str) -> Vec<metrics::Label> {
    labels_among(&SIZES, labels, queue)
}

/// Returns the labels of the counts of a queue, likewise.
pub(crate) fn labeled(labels: &Labels, queue: &str) -> Vec<metrics::Label> {
    labels_among(&QUEUES, labels, queue)
}

fn labels_among(known: &KnownLabels, labels: &Labels, queue: &str) -> Vec<metrics::Label> {
    let Labels { pool, namespace } = labels;
    let queue = if known.admit(&format!("{pool}/{namespace}"), queue) {
        queue
    } else {
        OTHER
    };
    let label = |name: &'static str, value: &str| metrics::Label::new(name, value.to_owned());
    vec![
        label("pool", pool),
        label("namespace", namespace),
        label("queue", queue),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn labels_are_bounded_though_namespaces_come_and_go() {
        let labels = |number: usize| Labels::new("pool", &format!("namespace-{number}"));
        for all_of in [
            labels_of_sizes as fn(&Labels, &str) -> Vec<metrics::Label>,
            labeled,
        ] {
            let all: HashSet<_> = (0..3_000).map(|it| all_of(&labels(it), "queue")).collect();
            assert_eq!(all.len(), 1_001, "and one of all others");
        }
    }
}
