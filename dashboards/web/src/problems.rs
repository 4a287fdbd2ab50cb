//! Problems, worst first, each with its reason and where to look.

use std::time::Duration;

use duly::admin::QueueLoad;
use duly::records::Outcome;
use duly::store::Control;
use duly::time::Timestamp;

use crate::access::User;
use crate::minutes::Minutes;
use crate::picture::{NodeNow, Picture};
use crate::sample::Settings;
use crate::text::{self, count, encoded, number, span};

/// From when on a wait counts as late, and as bad.
const LATE: Duration = Duration::from_secs(5);
const VERY_LATE: Duration = Duration::from_secs(60);
/// From which share on failures are a problem, and of how many attempts at least.
const FAILURES: f64 = 0.1;
const ATTEMPTS_MIN: u64 = 20;
/// Of how many minutes failures are counted.
const FAILURE_MINUTES: u64 = 5;
/// The most problems that are shown.
const SHOWN_MAX: usize = 20;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Bad,
    Warning,
    Note,
}

impl Severity {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Warning => "warn",
            Self::Note => "note",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bad => "Problem",
            Self::Warning => "Warning",
            Self::Note => "Note",
        }
    }
}

/// Something that is wrong.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) severity: Severity,
    /// How much of it there is, among those of one severity.
    weight: u64,
    pub(crate) what: String,
    pub(crate) why: String,
    /// The path of the page that shows more, and its name.
    pub(crate) link: String,
    pub(crate) go: String,
}

/// Returns what is wrong, worst first, and how much more there is.
pub(crate) fn find(
    picture: &Picture,
    settings: &Settings,
    user: &User,
    now: Timestamp,
) -> (Vec<Problem>, usize) {
    let mut found = Vec::new();
    if let Some(error) = &picture.error {
        found.push(Problem {
            severity: Severity::Bad,
            weight: u64::MAX,
            what: "The store does not answer".to_owned(),
            why: error.clone(),
            link: "/nodes".to_owned(),
            go: "Nodes".to_owned(),
        });
    }
    found.extend(uncounted(picture, user));
    if let Minutes::Failed(error) = &picture.minutes {
        found.push(Problem {
            severity: Severity::Warning,
            weight: u64::MAX,
            what: "The records cannot be read".to_owned(),
            why: format!("Nobody sees here whether attempts fail: {error}."),
            link: "/records".to_owned(),
            go: "Records".to_owned(),
        });
    }
    for name in picture.queues.keys().filter(|name| user.sees(name)) {
        found.extend(late(picture, settings, name, now));
        found.extend(dead(picture, name));
    }
    found.extend(outbox(picture, user));
    found.extend(failing(picture, user, now));
    found.extend(silent(picture, user, now));
    found.sort_by(|a, b| (a.severity, b.weight, &a.what).cmp(&(b.severity, a.weight, &b.what)));
    let more = found.len().saturating_sub(SHOWN_MAX);
    found.truncate(SHOWN_MAX);
    (found, more)
}

/// Queues that cannot be counted, as one server of several may be away.
fn uncounted(picture: &Picture, user: &User) -> Option<Problem> {
    let queues = picture.uncounted.iter();
    let mut queues = queues.filter(|(name, _)| user.sees(name));
    let (name, error) = queues.next()?;
    let many = count(1 + queues.count(), "queue", "queues");
    Some(Problem {
        severity: Severity::Bad,
        weight: u64::MAX,
        what: format!("{many} cannot be counted"),
        why: format!("{name}: {error}. What is shown here is what was counted last."),
        link: format!("/queues/{name}"),
        go: "Open queue".to_owned(),
    })
}

/// A queue whose events wait for too long, or that is paused.
fn late(picture: &Picture, settings: &Settings, name: &str, now: Timestamp) -> Option<Problem> {
    let queue = picture.queues.get(name)?;
    let stats = &queue.stats;
    let waits = picture.late(name, now);
    let Settings { controls, load } = settings;
    let control = controls.get(name).copied().unwrap_or_default();
    let is_late = waits >= LATE;
    if !is_late && !control.paused {
        return None;
    }
    let here = load.iter().find(|load| load.queue.as_str() == name);
    let many = stats.ready + here.map_or(0, |load| load.queued);
    let oldest = count(many, "event waits", "events wait");
    let mut severity = if waits >= VERY_LATE {
        Severity::Bad
    } else {
        Severity::Warning
    };
    let what = match (is_late, control.paused) {
        (_, true) => format!("{name} is paused"),
        _ => format!(
            "{name} is {} late",
            span(Duration::from_secs(waits.as_secs()))
        ),
    };
    let why = if control.paused {
        severity = if is_late {
            Severity::Warning
        } else {
            Severity::Note
        };
        match stats.ready {
            0 => "Nothing waits for it; resume it when it may run again.".to_owned(),
            _ => format!("{oldest}. Resume it to let them run."),
        }
    } else {
        format!("{}. {oldest}.", why_late((picture, control), load, name))
    };
    Some(Problem {
        severity,
        weight: waits.as_secs(),
        what,
        why,
        link: format!("/queues/{name}"),
        go: "Open queue".to_owned(),
    })
}

/// Why a queue is late, as far as it can be seen from here.
pub(crate) fn why_late(
    (picture, control): (&Picture, Control),
    load: &[QueueLoad],
    name: &str,
) -> String {
    let stats = picture.queues.get(name).map(|queue| &queue.stats);
    let (ready, leased) = stats.map_or((0, 0), |stats| (stats.ready, stats.leased));
    let here = load.iter().find(|load| load.queue.as_str() == name);
    let serves = |node: &&NodeNow| {
        node.is_alive && node.node.queues.iter().any(|queue| queue.as_str() == name)
    };
    let nodes = picture.nodes.iter().filter(serves).count();
    if control.paused {
        "The queue is paused".to_owned()
    } else if control.workers == Some(0) {
        "Its number of workers is set to 0 on every node".to_owned()
    } else if nodes == 0 && leased == 0 {
        "Nobody takes from it: no node has a handler for it, and no consumer over HTTP holds an \
         event of it"
            .to_owned()
    } else if let Some(rate) = control.rate {
        let wait = Duration::from_secs_f64((ready as f64 / rate.max(0.001)).min(1e9));
        format!(
            "Its rate of {rate} a second is the limit: what waits takes {}",
            span(Duration::from_secs(wait.as_secs()))
        )
    } else if here.is_some_and(|here| here.workers == 0) {
        // Its settings have changed, and this process follows in a moment.
        "Its handlers are about to start: it was paused until a moment ago".to_owned()
    } else if let Some(here) = here.filter(|here| here.is_busy()) {
        let workers = match here.workers {
            1 => "Its only worker is busy".to_owned(),
            workers => format!("All {workers} workers are busy"),
        };
        format!("{workers}: the handler is too slow for what comes, or needs more workers")
    } else {
        let nodes = count(nodes, "node consumes", "nodes consume");
        format!(
            "{nodes} it, with {} leased: more comes than is handled",
            number(leased as u64)
        )
    }
}

/// A queue with dead letters.
fn dead(picture: &Picture, name: &str) -> Option<Problem> {
    let many = picture.queues.get(name)?.stats.dead;
    if many == 0 {
        return None;
    }
    let why = match picture.dead.get(name) {
        Some(dead) if dead.count == dead.of => {
            format!("They failed with: {}", text::shown(&dead.error, 160))
        }
        Some(dead) => format!(
            "{} of {} failed with: {}",
            dead.count,
            dead.of,
            text::shown(&dead.error, 160)
        ),
        None => "Their attempts are used up, or their failure is permanent.".to_owned(),
    };
    Some(Problem {
        severity: Severity::Warning,
        weight: many as u64,
        what: format!("{name} has {}", count(many, "dead letter", "dead letters")),
        why,
        link: format!("/dead?queue={}", encoded(name)),
        go: "Dead letters".to_owned(),
    })
}

/// An outbox whose events wait for too long, or of which some were put aside.
fn outbox(picture: &Picture, user: &User) -> Option<Problem> {
    let outbox = picture.outbox.filter(|_| user.sees_all())?;
    let many = |events: u64| usize::try_from(events).unwrap_or(usize::MAX);
    let waiting = count(
        many(outbox.waiting),
        "committed event waits",
        "committed events wait",
    );
    let age = span(Duration::from_secs(outbox.oldest.as_secs()));
    let (severity, what, why) = if outbox.is_away {
        (
            Severity::Bad,
            "The database of the outbox does not answer".to_owned(),
            format!("Events that are committed there wait: {waiting} when it did."),
        )
    } else if outbox.oldest >= LATE {
        let severity = if outbox.oldest >= VERY_LATE {
            Severity::Bad
        } else {
            Severity::Warning
        };
        (
            severity,
            format!("The outbox is {age} behind"),
            format!("{waiting} for the store. The log of the relay says why."),
        )
    } else if outbox.refused > 0 {
        (
            Severity::Warning,
            count(
                many(outbox.refused),
                "event of the outbox is put aside",
                "events of the outbox are put aside",
            ),
            "They can never be accepted; the table duly_outbox_refused has the reasons.".to_owned(),
        )
    } else {
        return None;
    };
    Some(Problem {
        severity,
        weight: outbox.oldest.as_secs().max(outbox.waiting),
        what,
        why,
        link: "/queues".to_owned(),
        go: "Queues".to_owned(),
    })
}

/// Queues of which many attempts fail.
fn failing(picture: &Picture, user: &User, now: Timestamp) -> Vec<Problem> {
    let mut sums: std::collections::BTreeMap<&str, (u64, u64)> = Default::default();
    let since = now - Duration::from_secs(FAILURE_MINUTES * 60);
    let minutes = picture.minutes.iter();
    for minute in minutes.filter(|it| it.start >= since && user.sees(&it.queue)) {
        let of = |outcome| minute.outcomes.get(&outcome).copied().unwrap_or(0);
        let failed = of(Outcome::Retried) + of(Outcome::Buried) + of(Outcome::LeaseLost);
        let sum = sums.entry(&minute.queue).or_default();
        sum.0 += failed;
        sum.1 += failed + of(Outcome::Acked) + of(Outcome::Discarded);
    }
    let bad = sums.into_iter().filter(|(_, (failed, all))| {
        *all >= ATTEMPTS_MIN && *failed as f64 / *all as f64 >= FAILURES
    });
    let problem = |(name, (failed, all)): (&str, (u64, u64))| Problem {
        severity: Severity::Warning,
        weight: failed,
        what: format!("{}% of attempts of {name} fail", failed * 100 / all),
        why: format!(
            "{} of {} attempts failed in the last {FAILURE_MINUTES} minutes.",
            number(failed),
            number(all)
        ),
        link: format!("/records?queue={}&outcome=failed", encoded(name)),
        go: "Failed attempts".to_owned(),
    };
    bad.map(problem).collect()
}

/// Nodes that do not poll any more.
fn silent(picture: &Picture, user: &User, now: Timestamp) -> Vec<Problem> {
    let nodes = picture
        .nodes
        .iter()
        .filter(|node| !node.is_alive && user.sees_all());
    let problem = |node: &NodeNow| Problem {
        severity: Severity::Warning,
        weight: 0,
        what: format!("Node {} is silent", node.node.id),
        why: format!(
            "It has not polled for {}; its events are taken over when it stays so.",
            span(Duration::from_secs(now.since(node.last_beat).as_secs()))
        ),
        link: "/nodes".to_owned(),
        go: "Nodes".to_owned(),
    };
    nodes.map(problem).collect()
}
