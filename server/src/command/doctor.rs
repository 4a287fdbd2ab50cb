//! `duly doctor`: checks a store for damage, and repairs it on request.

use std::time::Duration;

use clap::Args;
use duly::admin::{Damage, DamageKind, StoreReport};
use duly::time::Timestamp;
use duly::{ErrorKind, QueueName};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use super::Target;
use super::error::{CommandError, Result};
use super::output::{Colour, Output, confirm, plain, progress, said};
use super::source::Source;
use super::store::Store;
use super::values;

/// How many examples of each kind of damage are shown.
const EXAMPLES: usize = 3;
/// How often the progress is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

#[derive(Args, Debug)]
pub(crate) struct DoctorCommand {
    /// Only this queue; may be repeated
    #[arg(long, short, value_name = "QUEUE")]
    queue: Vec<QueueName>,
    /// Repairs what it finds; without it, damage is only reported
    #[arg(long)]
    repair: bool,
    /// Does not ask before it repairs
    #[arg(long, requires = "repair")]
    yes: bool,
    /// What was set aside before this time is listed, and is no failure: a time, or a duration ago
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = values::time)]
    since: Timestamp,
}

pub(crate) async fn run(target: &Target, command: DoctorCommand) -> Result<()> {
    if target.server.is_some() {
        return Err(CommandError::usage(
            "`duly doctor` works on the store itself: name it by --store. A store on Redis may be \
             in use meanwhile; one in a file is opened by one process at a time, so stop the server \
             first",
        ));
    }
    if command.repair {
        let question = "Damage will be repaired; without --repair it is only reported.";
        confirm(command.yes, question)?;
    }
    let output = Output::new(target.json);
    let store = target.open_store().await?;
    let mut check = store.bus().check_store().since(command.since);
    for queue in &command.queue {
        check = check.queue(queue.to_string());
    }
    let mut is_audited = false;
    if command.repair {
        check = check.repair();
        let known = store.bus().queues().await;
        // A store that seems empty may have lost its registry, and a queue that is unknown is refused:
        // there is a line if something was repaired. Those of an audit are not among the known ones.
        is_audited = known.map_or(true, |known| {
            let is_known = |queue: &QueueName| queue.is_own() || known.contains(queue);
            !known.is_empty() && command.queue.iter().all(is_known)
        });
        if is_audited {
            audit(&store, &command.queue).await;
        }
    }
    let task = check.task();
    let bar = progress(None, "entries looked at");
    let mut shown = interval(SHOWN_EVERY);
    shown.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut run = std::pin::pin!(check.run());
    let report = loop {
        tokio::select! {
            report = &mut run => break report,
            _ = shown.tick() => bar.set_position(task.looked()),
        }
    };
    bar.finish_and_clear();
    // One that failed half-way may have repaired something; one that was refused has not begun.
    let has_repaired = match &report {
        Ok(report) => report.repaired > 0,
        Err(error) => error.kind() != ErrorKind::Invalid,
    };
    if command.repair && !is_audited && has_repaired {
        audit(&store, &command.queue).await;
    }
    let done = report.map_err(CommandError::from).and_then(|report| {
        let kinds: Vec<Kind<'_>> = report
            .counts
            .iter()
            .map(|(kind, count)| Kind::of(*kind, *count, &report))
            .collect();
        let left = left(&report);
        let shown = show(&output, &report, &kinds, left);
        // Damage is a failure although nobody reads of it.
        verdict(&kinds, left).and(shown)
    });
    let closed = store.close().await;
    done.and(closed)
}

/// Adds a repair to the audit: before it begins, as it may end half-way, where there is surely
/// something. A store that takes no line is repaired as well.
async fn audit(store: &Store, queues: &[QueueName]) {
    let mut targets: Vec<&str> = queues.iter().map(|queue| &**queue).collect();
    if targets.is_empty() {
        targets.push("every queue");
    }
    for target in targets {
        if let Err(error) = store.audit("store repaired", target).await {
            said(&format!(
                "note: the audit has no line of this repair: {error}"
            ));
        }
    }
}

/// Returns how much damage is left. Advice is none: a server whose data may be lost with it is somebody's
/// choice. Nor is what was set aside long ago, which stays listed.
fn left(report: &StoreReport) -> u64 {
    let advice = report.counts.get(&DamageKind::Settings).copied();
    report
        .left()
        .saturating_sub(advice.unwrap_or(0) + report.old)
}

/// Writes a report.
fn show(output: &Output, report: &StoreReport, kinds: &[Kind<'_>], left: u64) -> Result<()> {
    if output.json {
        let damage: Vec<Value> = kinds.iter().map(Kind::json).collect();
        return output.json(&json!({
            "looked": report.looked,
            "buckets": report.buckets,
            "repaired": report.repaired,
            "left": left,
            "damage": damage,
        }));
    }
    kinds.iter().try_for_each(|kind| kind.write(output))?;
    let looked = format!(
        "{} entries of {} buckets were looked at",
        report.looked, report.buckets
    );
    let verdict = match (left, report.repaired) {
        (0, 0) => output.paint(Colour::Green, "no damage"),
        (0, repaired) => output.paint(Colour::Green, &format!("all {repaired} repaired")),
        (left, 0) => output.paint(Colour::Red, &format!("{left} damaged")),
        (left, repaired) => output.paint(Colour::Red, &format!("{repaired} repaired, {left} left")),
    };
    output.line(&format!("{verdict}; {looked}"))
}

/// Fails if damage is left.
fn verdict(kinds: &[Kind<'_>], left: u64) -> Result<()> {
    match left {
        0 => Ok(()),
        left if kinds.iter().any(Kind::can_be_repaired) => Err(CommandError::failed(format!(
            "{left} damaged; `duly doctor --repair` repairs what can be repaired"
        ))),
        left => Err(CommandError::failed(format!("{left} damaged"))),
    }
}

/// The damage of one kind.
struct Kind<'a> {
    kind: DamageKind,
    count: u64,
    examples: Vec<&'a Damage>,
}

impl<'a> Kind<'a> {
    fn of(kind: DamageKind, count: u64, report: &'a StoreReport) -> Self {
        let all = report.damage.iter().filter(|damage| damage.kind == kind);
        let examples = all.take(EXAMPLES).collect();
        Self {
            kind,
            count,
            examples,
        }
    }

    fn is_repaired(&self) -> bool {
        self.examples.iter().any(|damage| damage.repaired)
    }

    fn can_be_repaired(&self) -> bool {
        self.kind.is_repairable() && !self.is_repaired()
    }

    fn json(&self) -> Value {
        let examples: Vec<Value> = self
            .examples
            .iter()
            .map(|damage| {
                json!({
                    "bucket": damage.bucket.as_ref().map(ToString::to_string),
                    "id": damage.id.map(|id| id.to_string()),
                    "what": damage.words,
                })
            })
            .collect();
        json!({
            "kind": self.kind.as_str(),
            "what": self.kind.what(),
            "count": self.count,
            "repaired": self.is_repaired(),
            "repair": self.kind.remedy(),
            "examples": examples,
        })
    }

    fn write(&self, output: &Output) -> Result<()> {
        let colour = match (self.kind, self.is_repaired()) {
            (_, true) => Colour::Green,
            (DamageKind::Settings, _) => Colour::Yellow,
            _ => Colour::Red,
        };
        let name = output.paint(colour, self.kind.as_str());
        output.line(&format!("{name}: {} {}", self.count, self.kind.what()))?;
        for damage in &self.examples {
            output.line(&format!("  {}", plain(&damage.to_string())))?;
        }
        if self.count > self.examples.len() as u64 {
            output.line("  ..")?;
        }
        let said = if self.is_repaired() {
            "repaired"
        } else {
            "repair"
        };
        output.line(&format!("  {said}: {}", self.kind.remedy()))
    }
}
