//! `duly node`: the processes that have handlers.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use super::error::Result;
use super::output::{Output, plain};
use super::source::Source;

/// How long nodes are observed: a live one gives a sign of life twice in it.
const OBSERVED_FOR: Duration = Duration::from_millis(600);
/// The most queues of a node in a table.
const QUEUES_MAX: usize = 5;

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Lists the processes that have handlers: their host, whether they are alive, their queues
    List,
}

pub(super) async fn run<S: Source>(source: &S, output: Output, command: NodeCommand) -> Result<()> {
    let NodeCommand::List = command;
    let before = source.nodes().await?;
    let before: BTreeMap<String, u64> = before.into_iter().map(|it| (it.id, it.beat)).collect();
    tokio::time::sleep(OBSERVED_FOR).await; // there is nothing to wait for but what is alive
    let nodes = source.nodes().await?;
    let is_alive = |id: &str, beat: u64| before.get(id).is_none_or(|it| *it != beat || beat == 0);
    if output.json {
        let items = nodes.iter().map(|node| {
            json!({
                "id": node.id,
                "host": node.host,
                "queues": node.queues,
                "is_alive": is_alive(&node.id, node.beat),
            })
        });
        return output.json(&json!({"items": items.collect::<Vec<_>>()}));
    }
    if nodes.is_empty() {
        return output.line("no process has handlers; consumers that lease over HTTP are none");
    }
    let rows = nodes.iter().map(|node| {
        let alive = is_alive(&node.id, node.beat);
        let mut queues: Vec<String> = node.queues.iter().map(|queue| plain(queue)).collect();
        let more = queues.len().saturating_sub(QUEUES_MAX);
        queues.truncate(QUEUES_MAX);
        if more > 0 {
            queues.push(format!("and {more} more"));
        }
        vec![
            plain(&node.id),
            plain(node.host.as_deref().unwrap_or("-")),
            if alive { "alive" } else { "silent" }.to_owned(),
            queues.join(" "),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output.table(&["NODE", "HOST", "STATUS", "QUEUES"], &rows)
}
