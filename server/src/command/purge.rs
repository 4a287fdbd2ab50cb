//! `duly queue purge`: cancels what waits in a queue, at a rate.

use duly::__server::timing::BulkPacer;
use serde_json::{Value, json};

use super::error::{CommandError, Result};
use super::interruption::until_interrupted;
use super::output::{Output, confirm, progress};

use super::source::Source;

/// A purge of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purge<'a> {
    pub(super) queue: &'a str,
    pub(super) dry_run: bool,
    pub(super) rate: Option<f64>,
    /// Whether it does not ask.
    pub(super) yes: bool,
}

pub(super) async fn run<S: Source>(source: &S, output: Output, purge: Purge<'_>) -> Result<()> {
    let queue = purge.queue;
    let view = source.queue(queue).await?;
    let waiting = (view.scheduled + view.ready) as u64;
    let said = |cancelled: u64| -> Value {
        let dry_run = purge.dry_run;
        json!({"queue": queue, "matched": waiting, "cancelled": cancelled, "dry_run": dry_run})
    };
    if purge.dry_run {
        let text = format!("{waiting} events would be cancelled; nothing was changed");
        return output.value(&said(0), &text);
    }
    let question = format!("Cancel {waiting} events of queue {queue} for good?");
    confirm(purge.yes, &question)?;
    source.audit("queue purged", queue).await?;
    let bar = progress(Some(waiting), "cancelling");
    let mut cancelled = 0;
    let show = |many| bar.set_position(many);
    let ended = until_interrupted(sweep(source, purge, &mut cancelled, &show)).await;
    bar.finish_and_clear();
    if let Err(error) = ended {
        let text = format!("{error}; {cancelled} events were cancelled before");
        return Err(CommandError::new(error.failure, text));
    }
    output.value(
        &said(cancelled),
        &format!("{cancelled} events are cancelled"),
    )
}

/// Cancels them all; `cancelled` is accurate at any time, but for the step that is under way.
async fn sweep<S: Source>(
    source: &S,
    purge: Purge<'_>,
    cancelled: &mut u64,
    progress: &dyn Fn(u64),
) -> Result<()> {
    let mut pace = BulkPacer::new(purge.rate);
    let mut after = None;
    loop {
        pace.wait().await;
        let step = source.purge(purge.queue, after.as_deref(), pace.stride());
        let (many, next) = step.await?;
        *cancelled += many;
        progress(*cancelled);
        pace.count(many);
        after = next;
        if after.is_none() {
            return Ok(());
        }
    }
}
