//! The background writer of the registry: writes buckets in batches until the server has them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{RegisterArguments, RegisteredBucket, Registry};
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;
use crate::store::redis::link::options::RECONNECT;

/// The limit of buckets in one call.
const BATCH: usize = 1_000;
/// How long a push to a bucket with certain consumers waits for the registry.
const PATIENCE: Duration = Duration::from_millis(500);

/// Ensures that every consumer of the queue of `bucket` serves it.
///
/// A known bucket needs nothing. A bucket that consumers serve by their settings is written in the
/// background while the registry is unavailable. Any other is written first: it might have no
/// consumer.
///
/// # Errors
///
/// [`Unavailable`](ErrorKind::Unavailable) when the registry was unavailable until `until`, and any
/// other kind as soon as the server returns it.
pub(in crate::store::redis) async fn ensure(
    registry: &Arc<Registry>,
    bucket: &BucketKey,
    until: Instant,
) -> Result<()> {
    if registry.is_known(bucket) {
        compare_on_another_connection(registry);
        return Ok(());
    }
    let mut attempts = registry.attempts.subscribe();
    write(registry, [bucket.clone()]);
    let is_configured = registry.is_configured(bucket);
    let patience = if is_configured {
        until.min(Instant::now() + PATIENCE)
    } else {
        until
    };
    loop {
        if registry.is_known(bucket) {
            return Ok(());
        }
        let trouble = registry.writing().trouble.clone();
        match trouble {
            Some((ErrorKind::Unavailable | ErrorKind::Unknown, _)) if is_configured => {
                return Ok(());
            }
            None | Some((ErrorKind::Unavailable | ErrorKind::Unknown, _)) => {}
            Some((kind, words)) => return Err(Error::new(kind, words.to_string())),
        }
        match timeout_at(patience, attempts.changed()).await {
            Ok(Ok(())) => {}
            _ if is_configured => {
                let slow = || (ErrorKind::Unavailable, Arc::from("it does not respond"));
                registry.writing().trouble.get_or_insert_with(slow);
                return Ok(());
            }
            _ => return Err(unregistered(bucket)),
        }
    }
}

fn unregistered(bucket: &BucketKey) -> Error {
    let text = format!(
        "the registry of buckets cannot be reached, and bucket {bucket} is not in it yet: it is \
         beyond the buckets that the settings of its queue name, so it might have no consumer. \
         Nothing was pushed; try again"
    );
    Error::new(ErrorKind::Unavailable, text)
}

/// On another connection than before the server may lack known buckets.
fn compare_on_another_connection(registry: &Arc<Registry>) {
    let connection = *registry.hub.link.connections().borrow();
    {
        let mut writing = registry.writing();
        if writing.compared_on == connection {
            return;
        }
        writing.compared_on = connection;
        writing.must_compare = true;
    }
    start(registry);
}

/// Writes these buckets in the background, until that has succeeded.
pub(super) fn write(registry: &Arc<Registry>, buckets: impl IntoIterator<Item = BucketKey>) {
    registry.writing().missing.extend(buckets);
    start(registry);
}

fn start(registry: &Arc<Registry>) {
    {
        let mut writing = registry.writing();
        if writing.is_running {
            return;
        }
        writing.is_running = true;
    }
    tokio::spawn(run(RunningGuard {
        registry: Arc::downgrade(registry),
        is_over: false,
    }));
}

/// Guards the running task. If it is dropped, as with its runtime, the next bucket starts another.
struct RunningGuard {
    registry: Weak<Registry>,
    is_over: bool,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade().filter(|_| !self.is_over) {
            registry.writing().is_running = false;
            registry.attempts.send_modify(|attempts| *attempts += 1);
        }
    }
}

async fn run(mut running: RunningGuard) {
    let mut failures = 0;
    loop {
        let Some(registry) = running.registry.upgrade() else {
            return;
        };
        let Some((batch, must_compare)) = next(&registry) else {
            running.is_over = true; // under the lock, so that the next bucket sees it
            return;
        };
        let mut done = register(&registry, &batch).await;
        if done.is_ok() && must_compare {
            // Boxed, as comparing may start a writer.
            done = Box::pin(super::read(&registry)).await.map(drop);
        }
        {
            let mut writing = registry.writing();
            writing.trouble = done.as_ref().err().map(|error| {
                let words = format!("the bucket cannot be written into the registry: {error}");
                (error.kind(), words.into())
            });
            match &done {
                Ok(()) => registry.note(&batch),
                Err(_) => {
                    writing.missing.extend(batch);
                    writing.must_compare |= must_compare;
                }
            }
        }
        registry.attempts.send_modify(|attempts| *attempts += 1);
        match done {
            Ok(()) => {
                failures = 0;
                registry.outage.succeeded(&());
            }
            Err(error) if error.kind() == ErrorKind::Closed => return,
            Err(error) => {
                failures += 1;
                registry.outage.failed((), &error);
                drop(registry);
                tokio::time::sleep(RECONNECT.jittered(failures)).await;
            }
        }
    }
}

/// Returns what to write next, and whether to compare the list; `None` ends the task.
fn next(registry: &Registry) -> Option<(Vec<BucketKey>, bool)> {
    let mut writing = registry.writing();
    let mut batch = Vec::new();
    while batch.len() < BATCH
        && let Some(bucket) = writing.missing.pop_first()
    {
        batch.push(bucket);
    }
    let must_compare = std::mem::take(&mut writing.must_compare);
    writing.is_running = !batch.is_empty() || must_compare;
    writing.is_running.then_some((batch, must_compare))
}

async fn register(registry: &Registry, batch: &[BucketKey]) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let hub = &registry.hub;
    hub.claim_once(true).await?;
    let token = super::token();
    let call = hub.call(RegisterArguments { token: &token });
    let call = call.with_rows(batch.iter().map(|bucket| RegisteredBucket {
        bucket: bucket.to_string(),
    }));
    hub.run(&call).await.map(drop)
}
