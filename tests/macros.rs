//! The annotation: what it puts into a program, what it refuses, and the texts it reads.

#[path = "../macros/src/backoff.rs"]
mod backoff;
#[path = "../macros/src/duration.rs"]
mod duration;
#[path = "../macros/src/late.rs"]
mod late;

use std::{
    collections::BTreeSet,
    num::TryFromIntError,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use duly::{
    __private::{Registration, inventory},
    Context, Event, Failure, Handler, Late, State, delay_event,
    handler::{Annotated, Annotation, States},
    retry::RetryPolicy,
};
use proptest::prelude::*;

use backoff::{Backoff, Shape};

#[test]
fn what_compiles_and_what_does_not() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}

// What an annotation puts into the program.

#[derive(Debug)]
struct Db;
#[derive(Debug)]
struct Mailer;

/// Says everything that can be said.
#[delay_event(
    queue = "all",
    buckets = 8,
    workers = 16,
    timeout = "1m30s",
    attempts = 12,
    backoff = "exp(1s..10m, jitter 20%)",
    late = "expire(5m)",
    spread = "10s",
    ring = 2048,
    linger = "20us",
    isolation = "dedicated",
    version = 3,
    keep_payload = true,
    state(Db, Mailer)
)]
#[derive(Debug)]
struct All;

impl Handler for All {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

/// Counts orders; the arguments stand in an odd order on purpose.
#[delay_event(queue = "function", state(Mailer))]
async fn count(
    Event { payload, .. }: Event<u64>,
    State(total): State<Total>,
    cx: &Context,
    db: State<Db>,
) -> Result<(), TryFromIntError> {
    let (_same, _db) = (cx.state::<Total>(), db.0);
    let order = u32::try_from(payload)?;
    total.0.fetch_add(order, Ordering::Relaxed);
    Ok(())
}

#[derive(Debug, Default)]
struct Total(AtomicU32);

#[delay_event(queue = "aside", register = false)]
async fn aside(_event: Event<String>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "blocking", blocking)]
fn block(_event: Event<String>) -> Result<(), Failure> {
    Ok(())
}

#[test]
fn the_annotation_has_the_values_that_were_written() {
    let Annotation {
        queue,
        buckets,
        workers,
        attempts,
        ring,
        version,
        ..
    } = All::ANNOTATION;
    assert_eq!(queue, "all");
    assert_eq!((buckets, workers, attempts), (Some(8), Some(16), Some(12)));
    assert_eq!((ring, version), (Some(2048), Some(3)));

    let said = All::ANNOTATION;
    assert_eq!(said.timeout, Some(Duration::from_secs(90)));
    assert_eq!(said.linger, Some(Duration::from_micros(20)));
    let backoff = RetryPolicy::exponential(Duration::from_secs(1), Duration::from_mins(10));
    assert_eq!(said.backoff, Some(backoff.jitter(20)));
    assert_eq!(said.late, Some(Late::Expire(Duration::from_mins(5))));
    assert_eq!(said.spread, Some(Duration::from_secs(10)));
    assert_eq!(said.keep_payload, Some(true));
    assert!(said.dedicated && !said.blocking);
    assert_eq!(states(&said), ["Db", "Mailer"]);
}

#[test]
fn a_late_policy_is_read_alike_while_compiling_and_while_running() {
    for text in [
        "deliver",
        "expire(5m)",
        "bury(1h30m)",
        "expire(0s)",
        "",
        "never",
        "expire",
        "expire(5)",
        "bury()",
        "expire(5m",
        "Expire(5m)",
        "expire (5m)",
        "deliver()",
    ] {
        let compiled = late::Late::parse(text).map(|late| match late {
            late::Late::Deliver => Late::Deliver,
            late::Late::Expire(limit) => Late::Expire(limit),
            late::Late::Bury(limit) => Late::Bury(limit),
        });
        let read = text.parse::<Late>().map_err(|error| error.to_string());
        assert_eq!(compiled, read, "{text:?}");
    }
}

#[test]
fn what_is_not_said_is_left_open() {
    let said = block::ANNOTATION;
    assert_eq!(said.queue, "blocking");
    assert_eq!(
        (said.buckets, said.workers, said.attempts),
        (None, None, None)
    );
    assert_eq!((said.timeout, said.backoff, said.ring), (None, None, None));
    assert_eq!((said.linger, said.version), (None, None));
    assert_eq!(
        (said.late, said.spread, said.keep_payload),
        (None, None, None)
    );
    assert!(said.blocking && !said.dedicated && said.states.is_empty());
}

#[test]
fn the_arguments_of_a_function_are_states_it_needs() {
    assert_eq!(states(&count::ANNOTATION), ["Mailer", "Total", "Db"]);
}

#[test]
fn every_annotated_handler_is_found_unless_it_said_otherwise() {
    let found: BTreeSet<_> = inventory::iter::<Registration>()
        .map(|found| found.annotation().queue)
        .collect();
    assert_eq!(found, BTreeSet::from(["all", "blocking", "function"]));
}

#[tokio::test]
async fn a_function_is_called_with_what_it_asked_for() {
    let mut states = States::default();
    states.insert(Total::default());
    states.insert(Db);
    let cx = Context::detached("function", states);

    assert!(count.handle(Event::published(7), &cx).await.is_ok());
    assert!(count.handle_delayed(Event::published(8), &cx).await.is_ok());
    assert_eq!(cx.state::<Total>().0.load(Ordering::Relaxed), 15);
    assert!(
        count.handle(Event::published(u64::MAX), &cx).await.is_err(),
        "its error becomes a failure"
    );
}

fn states(annotation: &Annotation) -> Vec<&'static str> {
    let last = |name: &'static str| name.rsplit("::").next().expect("a name has a last part");
    annotation
        .states
        .iter()
        .map(|need| last((need.name)()))
        .collect()
}

// The texts, while the program is compiled and while it runs.

#[test]
fn durations_are_read_and_written() {
    for (text, millis) in [
        ("0s", 0),
        ("250ms", 250),
        ("30s", 30_000),
        ("1m30s", 90_000),
    ]
    .into_iter()
    .chain([
        ("1.5s", 1_500),
        ("1m0.250s", 60_250),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
    ]) {
        assert_eq!(
            duly::duration::parse(text),
            Ok(Duration::from_millis(millis)),
            "{text}"
        );
    }
    let longest = duly::duration::format(Duration::MAX);
    assert_eq!(longest, "213503982334601d7h15s999ms999us999ns");
    assert_eq!(duly::duration::parse(&longest), Ok(Duration::MAX));
}

#[test]
fn a_refused_text_says_what_was_wrong_and_what_would_be_right() {
    let backoff = |text: &str| {
        text.parse::<RetryPolicy>()
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    let duration = |text: &str| {
        duly::duration::parse(text)
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    for (refused, words) in [
        (
            duration(""),
            "duration is empty, write one such as `250ms`, `30s` or `1m30s`",
        ),
        (
            duration("-5s"),
            "duration `-5s` has no number before `-5s`, write one such as `250ms`, `30s` or `1m30s`",
        ),
        (
            duration("5sec"),
            "duration `5sec` has the unknown unit `sec`, expected one of `d`, `h`, `m`, `s`, `ms`, `us`, `ns`",
        ),
        (
            duration("30s1m"),
            "duration `30s1m` has `m` out of order, write larger units first and each once",
        ),
        (
            duration("1.5m30s"),
            "duration `1.5m30s` has a fraction before its last part, write `1.5m` in smaller units",
        ),
        (
            duration(".5s"),
            "duration `.5s` has the number `.5`, write digits, or digits with a fraction such as `1.5`",
        ),
        (
            duration("0.5ns"),
            "duration `0.5ns` is finer than a nanosecond, round it to one",
        ),
        (
            duration("213503982334602d"),
            "duration `213503982334602d` is too long, at most `213503982334601d` is kept",
        ),
        (
            backoff("expo(1s..10m)"),
            "unknown backoff `expo(1s..10m)`, expected `fixed(5s)`, `linear(1s..1m)` or `exp(1s..10m)`",
        ),
        (
            backoff("exp(1s)"),
            "backoff `exp(1s)` has no range, write its first and its longest delay, as in `1s..10m`",
        ),
        (
            backoff("fixed(1s..2s)"),
            "backoff `fixed(1s..2s)` has a range, write one delay, as in `fixed(5s)`",
        ),
        (
            backoff("linear(0s..2s)"),
            "backoff `linear(0s..2s)` starts at zero, write a longer delay, or `fixed(0s)` to retry at once",
        ),
        (
            backoff("fixed(1s, jitter 101%)"),
            "backoff `fixed(1s, jitter 101%)` has `jitter 101%` after the comma, expected a whole percentage up to 100, as in `jitter 20%`",
        ),
    ] {
        assert_eq!(refused, Err(words.to_owned()));
    }
}

/// What the compiled annotation would make of `text`.
fn compiled(text: &str) -> Result<RetryPolicy, String> {
    let Backoff { shape, jitter } = Backoff::parse(text)?;
    let policy = match shape {
        Shape::Fixed(delay) => RetryPolicy::fixed(delay),
        Shape::Linear(step, max) => RetryPolicy::linear(step, max),
        Shape::Exponential(first, max) => RetryPolicy::exponential(first, max),
    };
    Ok(policy.jitter(jitter))
}

#[test]
fn both_grammars_agree_on_the_corners() {
    let right = [
        "fixed(0s)",
        "fixed( 5s )",
        "linear(1s..1s)",
        "exp(1ns..213503982334601d)",
        "exp(1s .. 10m,jitter 0%)",
        "exp(0.5s..1m0.25s, jitter  100%)",
    ];
    let wrong = [
        "",
        "exp",
        "exp()",
        "exp(1s..10m",
        " exp(1s..10m)",
        "Exp(1s..10m)",
        "exp(1s...10m)",
        "exp(1s..2s..3s)",
        "exp(0s..10m)",
        "exp(2s..1s)",
        "exp(1s..10m,)",
        "exp(1s..10m, jitter 101%)",
        "exp(1s..10m, jitter +5%)",
        "exp(1s..10m, jitter %)",
        "exp(1s..10m, jitter 5)",
        "exp(1s..10m, 5%)",
        "exp(1s..213503982334602d)",
    ];
    for (text, is_right) in right
        .map(|text| (text, true))
        .into_iter()
        .chain(wrong.map(|text| (text, false)))
    {
        let running = text
            .parse::<RetryPolicy>()
            .map_err(|error| error.to_string());
        assert_eq!(running, compiled(text));
        assert_eq!(running.is_ok(), is_right, "{text}: {running:?}");
    }
}

fn any_policy() -> impl Strategy<Value = RetryPolicy> {
    let delay = || prop_oneof![0..u64::MAX, 0..100_000_000_000_u64].prop_map(Duration::from_nanos);
    let pair = || {
        (delay(), delay()).prop_map(|(a, b)| {
            (
                a.min(b) + Duration::from_nanos(1),
                a.max(b) + Duration::from_nanos(1),
            )
        })
    };
    let shape = prop_oneof![
        delay().prop_map(RetryPolicy::fixed),
        pair().prop_map(|(step, max)| RetryPolicy::linear(step, max)),
        pair().prop_map(|(first, max)| RetryPolicy::exponential(first, max)),
    ];
    (shape, 0..=100_u8).prop_map(|(shape, percent)| shape.jitter(percent))
}

/// Texts near the grammars: some right, most wrong, each in its own way.
const NEARLY_DURATION: &str = r"-?([0-9.]{0,4}(d|h|m|s|ms|us|ns|x|µ)?){0,3}";
const NEARLY_BACKOFF: &str = r"(fixed|linear|exp|expo)\(?[0-9]{1,2}(ms|s|m|x)(\.\.[0-9]{1,2}(s|m|h))?(, ?jitter ?[0-9]{0,3}%?)?\)?";

proptest! {
    #[test]
    fn both_grammars_agree_on_durations(text in NEARLY_DURATION) {
        let running = duly::duration::parse(&text).map_err(|error| error.to_string());
        prop_assert_eq!(running, duration::parse(&text));
    }

    #[test]
    fn both_grammars_agree_on_backoffs(text in NEARLY_BACKOFF) {
        let running = text.parse::<RetryPolicy>().map_err(|error| error.to_string());
        prop_assert_eq!(running, compiled(&text));
    }

    #[test]
    fn a_duration_is_read_back_as_it_was_written(secs: u64, nanos in 0..1_000_000_000_u32) {
        let duration = Duration::new(secs, nanos);
        prop_assert_eq!(duly::duration::parse(&duly::duration::format(duration)), Ok(duration));
    }

    #[test]
    fn a_policy_is_read_back_as_it_was_written(policy in any_policy()) {
        let text = policy.to_string();
        prop_assert_eq!(compiled(&text), Ok(policy));
        prop_assert_eq!(text.parse(), Ok(policy));
        let json = serde_json::to_string(&policy).expect("a string is json");
        prop_assert_eq!(serde_json::from_str::<RetryPolicy>(&json).expect("it was written so"), policy);
    }

    #[test]
    fn without_jitter_no_delay_is_shorter_than_the_one_before(
        policy in any_policy(), attempt in 1..u16::MAX, random: f64,
    ) {
        let policy = policy.jitter(0);
        prop_assert!(policy.delay_after(attempt, random) <= policy.delay_after(attempt + 1, random));
    }

    #[test]
    fn no_delay_exceeds_the_cap(first: Duration, max: Duration, percent: u8, attempt: u16, random: f64) {
        for policy in [RetryPolicy::linear(first, max), RetryPolicy::exponential(first, max)] {
            prop_assert!(policy.jitter(percent).delay_after(attempt, random) <= max);
        }
    }

    #[test]
    fn jitter_shortens_by_no_more_than_its_part(
        policy in any_policy(), percent in 0..=100_u8, attempt: u16, random in 0.0..=1.0,
    ) {
        let plain = policy.jitter(0).delay_after(attempt, random).as_nanos();
        let shortened = policy.jitter(percent).delay_after(attempt, random).as_nanos();
        prop_assert!(shortened <= plain);
        prop_assert!(plain - shortened <= plain * u128::from(percent) / 100);
    }
}
