//! `duly event replay`: the events of records are pushed once more, at a rate, with a place from which
//! an interrupted replay goes on.

use clap::Args;
use duly::__server::timing::BulkPacer;
use duly::QueueName;
use duly::time::Timestamp;
use duly_server::api::ReplayedRecords;
use serde_json::json;

use super::bulk_source::BulkSource;
use super::error::{CommandError, Result};
use super::interruption::until_interrupted;
use super::output::{Output, confirm, plain, progress};
use super::records::RecordArguments;
use super::source::Source;
use super::values;
use super::view::{RecordFilter, ReplayStep};

/// `duly event replay`.
#[derive(Args, Debug)]
pub(crate) struct ReplayArguments {
    /// The name of the replay: a command that is repeated under the same name pushes nothing again, for
    /// a minute at least and a day at most: on Redis while its events are among the last 10,000 that ended
    /// in their bucket
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The queue
    #[arg(long, short, value_name = "QUEUE")]
    queue: QueueName,
    #[command(flatten)]
    filter: RecordArguments,
    /// The version of the payloads that name none, as they do not unless they were replaced [default: 0]
    #[arg(long, value_name = "N")]
    version: Option<u32>,
    /// Counts what would be pushed, and pushes nothing
    #[arg(long)]
    dry_run: bool,
    /// Pushes at most so many in a second
    #[arg(long, value_name = "N", value_parser = values::rate)]
    rate: Option<f64>,
    /// Goes on where a replay was interrupted, with the same name, filters and --until
    #[arg(long, value_name = "CURSOR", requires = "until")]
    resume: Option<String>,
    /// Does not ask
    #[arg(long)]
    yes: bool,
}

pub(super) async fn replay<S: Source + BulkSource>(
    source: &S,
    output: Output,
    arguments: ReplayArguments,
) -> Result<()> {
    let queue = arguments.queue.as_str();
    source.queue(queue).await?;
    let filter = arguments.filter.filter(Some(&arguments.queue));
    if let Some(outcome) = filter.outcome.filter(|outcome| !outcome.is_final()) {
        return Err(CommandError::usage(format!(
            "outcome is {}; an event that is replayed has ended: acked, discarded, cancelled, expired or \
             dropped. Dead letters are revived",
            outcome.as_str()
        )));
    }
    if !arguments.dry_run {
        let name = plain(&arguments.name);
        let what = format!("Push the matching events of {queue} once more, as the replay {name}?");
        confirm(arguments.yes, &what)?;
        if arguments.resume.is_none() {
            let target = format!("{queue}, replay {}", arguments.name);
            source.audit("records replayed", &target).await?;
        }
    }
    let bar = progress(None, "replayed");
    let mut sum = ReplayedRecords {
        next: arguments.resume.clone(),
        until_ms: filter.until.unwrap_or_default().as_millis(),
        ..ReplayedRecords::default()
    };
    let show = |many| bar.set_position(many);
    let ended = until_interrupted(sweep(source, (filter, &arguments), &mut sum, &show)).await;
    bar.finish_and_clear();
    if let Err(error) = ended {
        let pushed = sum.pushed;
        let until = Timestamp::from_millis(sum.until_ms);
        let place = sum.next.map_or_else(String::new, |next| {
            format!("; go on with the same name and filters, --until {until} and --resume '{next}'")
        });
        let text = format!("{error}; {pushed} events were replayed before{place}");
        return Err(CommandError::new(error.failure, text));
    }
    said(output, arguments.dry_run, &sum)
}

/// Goes through all matches; `sum` is accurate at any time, but for the step that is under way.
async fn sweep<S: BulkSource>(
    source: &S,
    (mut filter, arguments): (RecordFilter, &ReplayArguments),
    sum: &mut ReplayedRecords,
    progress: &dyn Fn(u64),
) -> Result<()> {
    let mut pace = BulkPacer::new(arguments.rate);
    loop {
        pace.wait().await;
        let after = sum.next.clone();
        let step = ReplayStep {
            name: &arguments.name,
            version: arguments.version,
            dry_run: arguments.dry_run,
            after: after.as_deref(),
            limit: pace.stride(),
        };
        let step = source.replay(&filter, step).await?;
        // What is replayed has records of its own, which end after the first step and are left alone.
        filter.until = Some(Timestamp::from_millis(step.until_ms));
        sum.until_ms = step.until_ms;
        sum.pushed += step.pushed;
        sum.repeated += step.repeated;
        sum.without_payload += step.without_payload;
        sum.unreadable += step.unreadable;
        progress(sum.pushed);
        pace.count(step.pushed);
        sum.next = step.next;
        if sum.next.is_none() {
            return Ok(());
        }
    }
}

fn said(output: Output, dry_run: bool, sum: &ReplayedRecords) -> Result<()> {
    let value = json!({
        "pushed": sum.pushed, "repeated": sum.repeated, "without_payload": sum.without_payload,
        "unreadable": sum.unreadable, "dry_run": dry_run,
    });
    let mut text = if dry_run {
        format!("{} events would be pushed; nothing was changed", sum.pushed)
    } else {
        format!("{} events are pushed", sum.pushed)
    };
    let others = [
        (sum.repeated, "were pushed by this replay before"),
        (
            sum.without_payload,
            "have no payload: their queue does not keep it (keep_payload)",
        ),
        (sum.unreadable, "have a payload for which there is no key"),
    ];
    for (many, what) in others.into_iter().filter(|(many, _)| *many > 0) {
        text.push_str(&format!("\n{many} {what}"));
    }
    output.value(&value, &text)
}
