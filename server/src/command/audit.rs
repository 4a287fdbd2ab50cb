//! `duly audit`: who did what to what.

use std::num::NonZeroUsize;

use clap::Args;
use duly::admin::AuditFilter;
use duly::time::Timestamp;
use serde_json::json;

use super::error::Result;
use super::output::{Output, plain, time};
use super::source::{PAGE, Source};
use super::values;

#[derive(Args, Debug)]
pub(crate) struct AuditCommand {
    /// Those about this queue, such as shop.close, its events included, or schedules/NAME
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Those of who has this text in the name
    #[arg(long, value_name = "TEXT")]
    actor: Option<String>,
    /// Those of actions with this text, such as paused
    #[arg(long, value_name = "TEXT")]
    action: Option<String>,
    /// Those of this time or later: 2026-01-31T12:00:00Z, or a duration ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    since: Option<Timestamp>,
    /// Those before this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    until: Option<Timestamp>,
    /// The most lines
    #[arg(long, value_name = "N", default_value = "100")]
    limit: NonZeroUsize,
    /// Goes on where a list ended
    #[arg(long, value_name = "CURSOR")]
    before: Option<String>,
}

pub(super) async fn run<S: Source>(
    source: &S,
    output: Output,
    command: AuditCommand,
) -> Result<()> {
    let limit = command.limit.get();
    let filter = AuditFilter {
        namespace: None,
        target: command.target,
        only_target: false,
        actor: command.actor,
        action: command.action,
        since: command.since,
        until: command.until,
    };
    let (mut lines, mut next) = (Vec::new(), command.before);
    loop {
        let left = limit.saturating_sub(lines.len()).clamp(1, PAGE);
        let page = source.audit_lines(&filter, next.as_deref(), left).await?;
        lines.extend(page.items);
        next = page.next;
        // The audit is bounded, and each page is behind the one before.
        if next.is_none() || lines.len() >= limit {
            break;
        }
    }
    if output.json {
        return output.json(&json!({"items": lines, "next": next}));
    }
    let rows = lines.iter().map(|line| {
        vec![
            time(line.at_ms),
            plain(&line.actor),
            plain(&line.action),
            plain(&line.target),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output.table(&["AT", "ACTOR", "ACTION", "TARGET"], &rows)?;
    match next {
        Some(next) => output.line(&format!("... there is more; go on with --before {next}")),
        None => Ok(()),
    }
}
