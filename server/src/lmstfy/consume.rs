//! Consume: leases jobs of one queue or several, now or within a time.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use duly::QueueName;
use duly::lease::{EncodedPayload, LEASE_QUEUES_MAX, LEASE_WAIT_MAX, Leased};

use super::check::{Call, refused};
use super::delivered::{self, Undelivered};
use super::job::JobView;
use super::params::Params;
use super::{ApiError, Result, respawn_notes};
use crate::http::reply;
use crate::metrics;

/// The most jobs of one consume.
const COUNT_MAX: usize = 100;

pub(super) async fn consume(call: &mut Call<'_>, query: Option<&str>) -> Result<Response> {
    let defaults = call.app.settings.jobs;
    let params = Params::new(query);
    let ttr_s = params.number("ttr", defaults.ttr_s)?;
    let timeout_s = params.number("timeout", defaults.timeout_s)?;
    let count = params.number("count", 1_usize)?;
    if !(1..=COUNT_MAX).contains(&count) {
        return Err(ApiError::bad("invalid count"));
    }
    let names = call.route.queue.split(',').filter(|name| !name.is_empty());
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        return Err(ApiError::bad("invalid queue name(s)"));
    }
    let grant = call.lasting(&names).await?;
    let namespace = &call.route.namespace;
    // A name that no publish accepts is that of an empty queue.
    let queues = names
        .iter()
        .filter_map(|name| QueueName::new(&format!("{namespace}.{name}")).ok());
    let queues: Vec<QueueName> = queues.collect();
    if queues.len() > LEASE_QUEUES_MAX {
        return Err(ApiError::bad(format!(
            "too many queues, cannot exceed {LEASE_QUEUES_MAX}"
        )));
    }
    let ttr = Duration::from_secs(ttr_s.into());
    let wait = Duration::from_secs(timeout_s.into()).min(LEASE_WAIT_MAX);

    let place = call.app.waits.take(grant.owner(), queues.len()).await;
    let jobs = tokio::select! {
        // A job that is there is preferred, also while the server stops.
        biased;
        jobs = lease(call, &queues, count, ttr, wait) => Undelivered::new(jobs?),
        refusal = grant.ended(&call.app.tokens) => return Err(refused(refusal)),
        (why, what) = place.evicted() => return Err(ApiError::evicted(why, what)),
        () = call.app.closing.cancelled() => Undelivered::default(),
    };
    let jobs = jobs.allowed(&grant, &call.app.tokens).await;
    let mut jobs = jobs.map_err(refused)?;
    if jobs.jobs().is_empty() {
        return Err(ApiError::Message(
            StatusCode::NOT_FOUND,
            "no job available".to_owned(),
        ));
    }
    let (now, prefix) = (call.pool.now(), format!("{namespace}."));
    let mut views = Vec::new();
    for job in jobs.jobs() {
        let queue = job.queue().as_str();
        let queue = queue.strip_prefix(&prefix).unwrap_or(queue);
        let headers = job.event().headers();
        let known = respawn_notes::known_id(call, queue, job.id(), headers).await?;
        views.push(JobView::leased(namespace, job, known, now));
    }
    metrics::consumed(&call.labels(), jobs.jobs(), count > 1, now);
    let text = match count {
        1 => reply::json_text(&views.pop()),
        _ => reply::json_text(&views),
    };
    jobs.count(call.taken.take());
    drop(place);
    Ok(delivered::response(call.app, grant.owner(), text?, jobs).await)
}

/// Leases jobs; of no queue there will be none.
async fn lease(
    call: &Call<'_>,
    queues: &[QueueName],
    count: usize,
    ttr: Duration,
    wait: Duration,
) -> duly::Result<Vec<Leased<EncodedPayload>>> {
    if queues.is_empty() {
        tokio::time::sleep(wait).await;
        Ok(Vec::new())
    } else {
        call.pool.lease(queues, count, ttr, wait).await
    }
}
