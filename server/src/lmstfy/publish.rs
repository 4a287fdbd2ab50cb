//! Publish, bulk and republish.

use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use duly::time::When;
use duly::{CancelOutcome, ErrorKind, EventBuilder, EventId, Queue, Unique};
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::check::{Call, header_text};
use super::job::{VERSION_MARK, attribute_header};
use super::jobs::Replaced;
use super::params::Params;
use super::{ApiError, JOB_BYTES_MAX, Result};
use crate::auth::{Action, LimitedCall};
use crate::bus::{Body, Pool};
use crate::http::reply;
use crate::job_id;
use crate::metrics;

/// The most jobs of a bulk.
const BULK_MAX: usize = 64;
/// The largest body of a bulk: that many jobs, and what separates them.
const BULK_BYTES_MAX: usize = BULK_MAX * (JOB_BYTES_MAX + 1_024);
/// The most attributes of a job.
const ATTRIBUTES_MAX: usize = 16;
/// The longest name of an attribute, in bytes; the rest is cut.
const NAME_BYTES_MAX: usize = 32;
/// The longest value of an attribute, in bytes; the rest is cut.
const VALUE_BYTES_MAX: usize = 128;
/// How long after its end a job that has replaced another one is known to who sends the same again.
const RETRIED_FOR: Duration = Duration::from_secs(300);
/// How often a push is tried under new ids when one of them is taken.
const TRIES_MAX: usize = 4;

/// What a publish wants beside the body.
#[derive(Debug)]
struct Options {
    delay_s: u32,
    ttl_s: u32,
    tries: u16,
}

impl Options {
    fn parse(call: &Call<'_>, query: Option<&str>) -> Result<Self> {
        let defaults = call.app.settings.jobs;
        let params = Params::new(query);
        let delay_s = params.number("delay", defaults.delay_s)?;
        let ttl_s = params.number("ttl", defaults.ttl_s)?;
        if 0 < ttl_s && ttl_s < delay_s {
            return Err(ApiError::bad("ttl is shorter than delay"));
        }
        let tries = params.number("tries", defaults.tries)?;
        if tries == 0 {
            return Err(ApiError::bad("tries shouldn't be zero"));
        }
        Ok(Self {
            delay_s,
            ttl_s,
            tries,
        })
    }
}

/// The attributes of a job; `None` without a versioned id.
#[derive(Clone, Debug)]
struct Attributes(Option<Vec<(String, String)>>);

impl Attributes {
    fn parse(headers: &HeaderMap) -> Result<Self> {
        let enabled = header_text(headers, "enable-job-version");
        if !enabled.is_some_and(|enabled| enabled.eq_ignore_ascii_case("yes")) {
            return Ok(Self(None));
        }
        let mut attributes = Vec::new();
        for name in headers.keys() {
            let Some(key) = name.as_str().strip_prefix("job-attr-") else {
                continue;
            };
            // Names of headers are ASCII, so any byte is a boundary.
            let key = &key[..key.len().min(NAME_BYTES_MAX)];
            let value = header_text(headers, name.as_str()).unwrap_or_default();
            let value = &value[..value.floor_char_boundary(VALUE_BYTES_MAX)];
            if !key.is_empty() && !value.is_empty() {
                attributes.push((attribute_header(key.to_owned()), value.to_owned()));
            }
        }
        if attributes.len() > ATTRIBUTES_MAX {
            return Err(ApiError::bad("too many attributes, cannot exceed 16"));
        }
        Ok(Self(Some(attributes)))
    }

    fn is_versioned(&self) -> bool {
        self.0.is_some()
    }
}

pub(super) async fn publish(
    call: &mut Call<'_>,
    parts: &Parts,
    body: HttpBody,
) -> Result<Response> {
    let (options, attributes, body) = one(call, parts, body).await?;
    let bodies = vec![Body::new(body)];
    let ids = push(call, &options, &attributes, (bodies, None)).await?;
    Ok(published(&ids, &attributes))
}

/// Publishes under a new id, and then ends the old job: a crash between the two may deliver both,
/// and loses neither. Who sends the same again while the old one is there, as its end has failed,
/// finds the new one there already. Where the token may not end the old one, as a consumer has taken
/// it in between, the new one is taken back, unless that was taken, too.
pub(super) async fn republish(
    call: &mut Call<'_>,
    id: &str,
    parts: &Parts,
    body: HttpBody,
) -> Result<Response> {
    let (options, attributes, body) = one(call, parts, body).await?;
    // A limit counts what replaces nothing, as that is a publish.
    let _turn = match job_id::parse(id).filter(|_| call.limits(Action::Produce)) {
        Some(id) => Some(call.turn_of(id).await?),
        None => None,
    };
    let old = Replaced::find(call, id).await?;
    let (taken, once) = if old.is_there {
        (None, Some(once(id, &options, &attributes, &body)))
    } else {
        (call.take_of(Action::Produce).await?, None)
    };
    let bodies = vec![Body::new(body)];
    let ids = push(call, &options, &attributes, (bodies, once.as_deref())).await?;
    match old.end(call).await {
        Err(refusal @ ApiError::Refused(StatusCode::FORBIDDEN, _)) => {
            if recall(call, &ids).await? {
                return Err(refusal);
            }
        }
        ended => ended?,
    }
    taken.into_iter().for_each(LimitedCall::keep);
    Ok(published(&ids, &attributes))
}

/// Returns the unique key of what replaces a job.
fn once(id: &str, options: &Options, Attributes(attributes): &Attributes, body: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{options:?} {attributes:?} "));
    hash.update(body);
    let hash = hash.finalize();
    let hash = hash.iter().map(|byte| format!("{byte:02x}"));
    format!("in place of {id} {}", hash.collect::<String>())
}

/// Cancels new jobs that still wait; returns whether all of them did.
async fn recall(call: &Call<'_>, ids: &[EventId]) -> Result<bool> {
    let (queue, mut all) = (call.queue()?, true);
    for id in ids {
        let cancelled = queue.cancel(*id).await?;
        all &= !matches!(cancelled, CancelOutcome::TooLate(_));
    }
    Ok(all)
}

async fn one(
    call: &mut Call<'_>,
    parts: &Parts,
    body: HttpBody,
) -> Result<(Options, Attributes, Bytes)> {
    let options = Options::parse(call, parts.uri.query())?;
    let (body, _room) = call.read(body, JOB_BYTES_MAX).await?;
    Ok((options, Attributes::parse(&parts.headers)?, body))
}

fn published(ids: &[EventId], attributes: &Attributes) -> Response {
    let id = ids
        .first()
        .map(|id| job_id::text(*id, attributes.is_versioned()));
    reply::json(
        StatusCode::CREATED,
        &json!({"job_id": id, "msg": "published"}),
    )
}

pub(super) async fn bulk(call: &mut Call<'_>, parts: &Parts, body: HttpBody) -> Result<Response> {
    let options = Options::parse(call, parts.uri.query())?;
    let (body, _room) = call.read(body, BULK_BYTES_MAX).await?;
    let attributes = Attributes::parse(&parts.headers)?;
    let bodies = elements(&body)?;
    drop(body);
    let ids = push(call, &options, &attributes, (bodies, None)).await?;
    let ids = ids
        .iter()
        .map(|id| job_id::text(*id, attributes.is_versioned()));
    let ids: Vec<String> = ids.collect();
    Ok(reply::json(
        StatusCode::CREATED,
        &json!({"job_ids": ids, "msg": "published"}),
    ))
}

/// Returns the elements of an array, each as it is written there.
fn elements(body: &[u8]) -> Result<Vec<Body>> {
    let parsed = serde_json::from_slice::<Option<Vec<&RawValue>>>(body);
    let elements = parsed
        .map_err(|_| ApiError::bad("request body should be an array of objects"))?
        .unwrap_or_default();
    if elements.is_empty() {
        return Err(ApiError::bad("no jobs"));
    }
    if elements.len() > BULK_MAX {
        return Err(ApiError::bad("too many jobs"));
    }
    if elements
        .iter()
        .any(|element| element.get().len() > JOB_BYTES_MAX)
    {
        return Err(ApiError::too_large("job too large"));
    }
    Ok(elements
        .into_iter()
        .map(|element| Body::Json(element.to_owned()))
        .collect())
}

/// Pushes jobs, all or none. With a unique key there is one, which may have been pushed before.
async fn push(
    call: &Call<'_>,
    options: &Options,
    attributes: &Attributes,
    (bodies, once): (Vec<Body>, Option<&str>),
) -> Result<Vec<EventId>> {
    let queue = call.queue()?;
    let route = &call.route;
    call.app
        .note_queue(call.pool.name(), &route.namespace, &route.queue)
        .await?;
    for _ in 0..TRIES_MAX {
        let ids: Vec<EventId> = bodies
            .iter()
            .map(|_| call.app.job_ids.next(&queue, once, options.delay_s))
            .collect();
        let jobs = (&*ids, &*bodies, once);
        let sent = send(call, &queue, jobs, options, attributes).await?;
        if let Sent::Before(id) = sent {
            return Ok(vec![id]);
        }
        if sent == Sent::New {
            metrics::published(
                &call.labels(),
                &route.queue,
                ids.len(),
                options.delay_s == 0,
            );
            return Ok(ids);
        }
    }
    Err(ApiError::Internal(
        "new ids are taken again and again".into(),
    ))
}

/// What became of jobs that were pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    New,
    /// The job of the unique key is this one.
    Before(EventId),
    /// One of the ids was taken, and none was pushed.
    Conflict,
}

/// Pushes jobs under these ids.
async fn send(
    call: &Call<'_>,
    queue: &Queue<Body>,
    (ids, bodies, once): (&[EventId], &[Body], Option<&str>),
    options: &Options,
    attributes: &Attributes,
) -> Result<Sent> {
    let events = bodies.iter().zip(ids).map(|(body, id)| {
        let mut event = Pool::event(queue, body.clone()).id(*id);
        if let Some(once) = once {
            event = event.unique(once, Unique::Keep).unique_for(RETRIED_FOR);
        }
        with_options(event, options, attributes)
    });
    let (mut accepted, mut unknown, mut failed) = (Vec::new(), Vec::new(), None);
    for ((id, body), pushed) in ids
        .iter()
        .zip(bodies)
        .zip(queue.push_many(events, When::Now).each().await?)
    {
        match pushed {
            Ok(receipt) if receipt.is_accepted() => accepted.push(receipt.id()),
            Ok(receipt) if receipt.id() != *id => return Ok(Sent::Before(receipt.id())),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => {
                if error.kind() == ErrorKind::Unknown {
                    unknown.push((*id, body)); // it may have been pushed all the same
                }
                failed = failed.or(Some(error));
            }
        }
    }
    if failed.is_none() && accepted.len() == ids.len() {
        return Ok(Sent::New);
    }
    // A taken id is somebody else's job, which stays.
    if ids.len() > 1 {
        for (id, body) in unknown {
            match call.pool.get(queue, id).await {
                Ok(Some(found)) if found.body == body.bytes() => accepted.push(id),
                Ok(_) => {}
                Err(error) => tracing::error!(%id, %error, "job of a failed bulk not looked for"),
            }
        }
        for id in &accepted {
            if let Err(error) = call.pool.end(queue, *id, |_| true).await {
                tracing::error!(%id, %error, "job of a failed bulk not removed");
            }
        }
    }
    failed.map_or(Ok(Sent::Conflict), |error| Err(error.into()))
}

fn with_options(
    event: EventBuilder<Body>,
    options: &Options,
    attributes: &Attributes,
) -> EventBuilder<Body> {
    let mut event = event.attempts(options.tries);
    if options.delay_s > 0 {
        event = event.after(Duration::from_secs(options.delay_s.into()));
    }
    if options.ttl_s > 0 {
        event = event.expires_after(Duration::from_secs(options.ttl_s.into()));
    }
    if let Some(attributes) = &attributes.0 {
        event = event.header(VERSION_MARK, "1");
        for (name, value) in attributes {
            event = event.header(name.clone(), value.clone());
        }
    }
    event
}
