//! `duly audit`: who did what to what.

use std::num::NonZeroUsize;

use clap::Args;
use serde_json::json;

use super::error::Result;
use super::output::{Output, plain, time};
use super::source::{PAGE, Source};

#[derive(Args, Debug)]
pub(crate) struct AuditCommand {
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
    let AuditCommand { limit, before } = command;
    let limit = limit.get();
    let (mut lines, mut next) = (Vec::new(), before);
    loop {
        let left = limit.saturating_sub(lines.len()).clamp(1, PAGE);
        let page = source.audit_lines(next.as_deref(), left).await?;
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
