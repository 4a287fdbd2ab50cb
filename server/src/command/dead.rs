//! `duly dead`: list, show, revive, drop.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use duly::__server::dead_letters::died_before;
use duly::__server::timing::BulkPacer;
use duly::records::{Cause, NodeId};
use duly::time::Timestamp;
use duly::{EventId, QueueName};
use serde_json::json;

use super::bulk_source::BulkSource;
use super::error::{CommandError, Result};
use super::interruption::until_interrupted;
use super::output::{Colour, Output, confirm, payload, plain, progress, time};
use super::source::{PAGE, Source};
use super::values;
use super::view::{DeadAction, DeadFilter, DeadView};

/// The most dead letters that are looked through for one of an id.
const SHOW_SCAN_MAX: usize = 1_000_000;

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// Lists dead letters
    List {
        #[command(flatten)]
        filter: FilterArguments,
        /// The most dead letters
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Shows a dead letter, with its error and payload
    Show {
        /// The id of the event
        id: EventId,
        /// Its queue; needed with --server
        #[arg(long, short, value_name = "QUEUE")]
        queue: Option<QueueName>,
    },
    /// Makes dead letters ready again, with all their attempts
    Revive(BulkArguments),
    /// Removes dead letters for good
    Drop(BulkArguments),
}

/// Filters; all must match.
#[derive(Args, Debug)]
pub(crate) struct FilterArguments {
    /// Those of this queue
    #[arg(long, short, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Those that died at this time or later: 2026-01-31T12:00:00Z, or a duration ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    since: Option<Timestamp>,
    /// Those that died before this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    until: Option<Timestamp>,
    /// Those whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Those whose last attempt failed for this cause, such as failed, timed_out or panicked
    #[arg(long, value_name = "CAUSE")]
    cause: Option<Cause>,
    /// Those whose last attempt was on this node, as `duly node list` names it
    #[arg(long, value_name = "NODE", value_parser = values::node)]
    node: Option<NodeId>,
    /// Those with this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

impl FilterArguments {
    fn filter(&self) -> DeadFilter {
        DeadFilter {
            queue: self.queue.as_ref().map(QueueName::to_string),
            since: self.since,
            until: self.until,
            cause: self.cause,
            error: self.error.clone(),
            node: self.node,
            key: self.key.clone(),
        }
    }

    /// Whether it selects more than a queue.
    fn is_empty(&self) -> bool {
        self.since.is_none()
            && self.until.is_none()
            && self.error.is_none()
            && self.cause.is_none()
            && self.node.is_none()
            && self.key.is_none()
    }
}

#[derive(Args, Debug)]
pub(crate) struct BulkArguments {
    /// The ids of the events; none means those that match the filters
    #[arg(value_name = "ID")]
    ids: Vec<EventId>,
    #[command(flatten)]
    filter: FilterArguments,
    /// Every dead letter, where no id and no filter beside a queue is given
    #[arg(long)]
    all: bool,
    /// Counts what would be changed, and changes nothing
    #[arg(long)]
    dry_run: bool,
    /// Changes at most so many in a second
    #[arg(long, value_name = "N", value_parser = values::rate)]
    rate: Option<f64>,
    /// Changes at most so many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Does not ask
    #[arg(long)]
    yes: bool,
}

impl BulkArguments {
    /// What the audit says that was changed.
    fn target(&self) -> String {
        let filter = &self.filter;
        let queue = filter.queue.as_deref().unwrap_or("every queue");
        let mut words = vec![queue.to_owned()];
        match self.ids.as_slice() {
            [] => {}
            [id] => words = vec![format!("{queue}/{id}")],
            ids => words.push(format!("{} ids", ids.len())),
        }
        words.extend(filter.key.as_ref().map(|key| format!("key {key}")));
        words.extend(filter.error.as_ref().map(|text| format!("error {text}")));
        words.extend(filter.cause.map(|cause| format!("cause {cause}")));
        words.extend(filter.node.map(|node| format!("node {node}")));
        words.extend(filter.since.map(|at| format!("since {at}")));
        words.extend(filter.until.map(|at| format!("until {at}")));
        words.join(", ")
    }
}

pub(crate) async fn run<S: Source + BulkSource>(
    source: &S,
    output: Output,
    command: DeadCommand,
) -> Result<()> {
    match command {
        DeadCommand::List { filter, limit } => list(source, output, &filter.filter(), limit).await,
        DeadCommand::Show { id, queue } => show(source, output, id, queue).await,
        DeadCommand::Revive(arguments) => bulk(source, output, DeadAction::Revive, arguments).await,
        DeadCommand::Drop(arguments) => bulk(source, output, DeadAction::Drop, arguments).await,
    }
}

async fn list<S: Source>(
    source: &S,
    output: Output,
    filter: &DeadFilter,
    limit: usize,
) -> Result<()> {
    let (mut letters, mut next) = (Vec::new(), None);
    while letters.len() < limit {
        let left = (limit - letters.len()).min(PAGE);
        let page = source.dead(filter, next.as_deref(), left).await?;
        letters.extend(page.items);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    let rows: Vec<_> = letters
        .iter()
        .map(|letter| {
            vec![
                letter.id.clone(),
                letter.queue.clone(),
                letter.died_ms.map(time).unwrap_or_default(),
                letter.tries.to_string(),
                letter.cause.clone().unwrap_or_default(),
                letter.error.as_deref().map(plain).unwrap_or_default(),
            ]
        })
        .collect();
    let heads = ["ID", "QUEUE", "DIED", "TRIES", "CAUSE", "ERROR"];
    let more = next.map(|_| "... there may be more; raise --limit, or add filters");
    output.list(&letters, (&heads, &rows), more)
}

async fn show<S: Source>(
    source: &S,
    output: Output,
    id: EventId,
    queue: Option<QueueName>,
) -> Result<()> {
    let filter = DeadFilter {
        queue: queue.as_ref().map(QueueName::to_string),
        ..DeadFilter::default()
    };
    let (text, mut next, mut looked) = (id.to_string(), None, 0);
    while looked < SHOW_SCAN_MAX {
        let page = source.dead(&filter, next.as_deref(), PAGE).await?;
        looked += PAGE;
        if let Some(letter) = page.items.iter().find(|letter| letter.id == text) {
            return show_letter(output, letter);
        }
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    Err(CommandError::not_found(format!(
        "no dead letter has the id {id}"
    )))
}

fn show_letter(output: Output, letter: &DeadView) -> Result<()> {
    if output.json {
        return output.json(letter);
    }
    let red = |text: &String| output.paint(Colour::Red, &plain(text));
    output.fields(&[
        ("id", Some(letter.id.clone())),
        ("queue", Some(letter.queue.clone())),
        ("died", letter.died_ms.map(time)),
        ("tries", Some(letter.tries.to_string())),
        ("key", letter.key.as_deref().map(plain)),
        ("cause", letter.cause.clone()),
        ("error", letter.error.as_ref().map(red)),
        ("payload", letter.payload_base64.as_deref().map(payload)),
    ])
}

/// What a bulk operation did.
#[derive(Debug, Default)]
struct BulkResult {
    matched: u64,
    done: u64,
    /// Those of the given ids that are not found.
    missing: BTreeSet<String>,
}

async fn bulk<S: Source + BulkSource>(
    source: &S,
    output: Output,
    action: DeadAction,
    arguments: BulkArguments,
) -> Result<()> {
    let (verb, done_verb) = match action {
        DeadAction::Revive => ("revive", "revived"),
        DeadAction::Drop => ("drop", "dropped"),
    };
    if arguments.ids.is_empty() && arguments.filter.is_empty() && !arguments.all {
        return Err(CommandError::usage(format!(
            "nothing selects what to {verb}; give ids, a filter such as --error TEXT, or --all"
        )));
    }
    if action == DeadAction::Drop && !arguments.dry_run {
        let what = match arguments.ids.len() {
            0 => "every matching dead letter".to_owned(),
            count => format!("{count} dead letters"),
        };
        confirm(arguments.yes, &format!("Drop {what} for good?"))?;
    }
    if !arguments.dry_run {
        let action = format!("dead letters {done_verb}");
        source.audit(&action, &arguments.target()).await?;
    }
    let bar = progress(None, done_verb);
    let mut result = BulkResult {
        missing: arguments.ids.iter().map(EventId::to_string).collect(),
        ..BulkResult::default()
    };
    let named = result.missing.len();
    let show = |done| bar.set_position(done);
    let sweep = sweep(source, action, &arguments, &mut result, &show);
    let ended = until_interrupted(sweep).await;
    bar.finish_and_clear();
    let BulkResult {
        matched,
        done,
        missing,
    } = result;
    if let Err(error) = ended {
        // Of the call that failed a part may be done.
        let text = format!("{error}; at least {done} were {done_verb} before");
        return Err(CommandError::new(error.failure, text));
    }
    if matched == 0 && named > 0 {
        return Err(CommandError::not_found(
            "none of the ids is a dead letter that matches",
        ));
    }
    let mut value = json!({"matched": matched, "done": done, "dry_run": arguments.dry_run});
    // What a limit left out was not looked for.
    let has_limit = arguments.limit.is_some_and(|limit| matched == limit as u64);
    let missing = if has_limit { BTreeSet::new() } else { missing };
    if named > 0 {
        value["missing"] = json!(missing);
    }
    let all = matched + missing.len() as u64;
    let mut text = if arguments.dry_run {
        format!("{matched} dead letters would be {done_verb}; nothing was changed")
    } else {
        format!("{done} of {all} dead letters are {done_verb}")
    };
    if !missing.is_empty() {
        let missing: Vec<_> = missing.into_iter().collect();
        text += &format!("; no dead letter that matches: {}", missing.join(", "));
    }
    output.value(&value, &text)
}

/// Goes through all matches; `result` is accurate at any time.
async fn sweep<S: Source + BulkSource>(
    source: &S,
    action: DeadAction,
    arguments: &BulkArguments,
    result: &mut BulkResult,
    progress: &dyn Fn(u64),
) -> Result<()> {
    let filter = arguments.filter.filter();
    let named = result.missing.clone();
    let most = arguments.limit.map_or(u64::MAX, |limit| limit as u64);
    let (mut next, mut pace) = (None, BulkPacer::new(arguments.rate));
    // Those that die meanwhile are left alone, so that it ends.
    let mut began = None;
    if named.is_empty() && !arguments.dry_run {
        began = Some(source.store_time(filter.queue.as_ref()).await?);
    }
    loop {
        let page = source.dead(&filter, next.as_deref(), PAGE).await?;
        let mut by_queue: BTreeMap<String, Vec<EventId>> = BTreeMap::new();
        for letter in page.items {
            let died = letter.died_ms.map(Timestamp::from_millis);
            let is_new = began.is_some_and(|began| !died_before(died, began));
            let is_named = named.is_empty() || named.contains(&letter.id);
            if !is_new && is_named && result.matched < most {
                result.matched += 1;
                result.missing.remove(&letter.id);
                by_queue
                    .entry(letter.queue)
                    .or_default()
                    .push(letter.view.id.parse()?);
            }
        }
        for (queue, ids) in by_queue.iter().filter(|_| !arguments.dry_run) {
            for ids in ids.chunks(pace.stride()) {
                pace.wait().await;
                pace.count(ids.len() as u64);
                result.done += source.act_on_dead(queue, ids, action).await?;
                progress(result.done);
            }
        }
        let has_all = !named.is_empty() && result.missing.is_empty();
        next = page.next;
        if next.is_none() || result.matched >= most || has_all {
            return Ok(());
        }
    }
}
