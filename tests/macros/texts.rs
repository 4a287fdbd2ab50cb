//! The texts of durations and retry policies, in annotations and in settings.

use std::time::Duration;

use duly::RetryPolicy;
use proptest::prelude::*;

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
            duly::__internal::duration::parse(text),
            Ok(Duration::from_millis(millis)),
            "{text}"
        );
    }
    let longest = duly::__internal::duration::format(Duration::MAX);
    assert_eq!(longest, "213503982334601d7h15s999ms999us999ns");
    assert_eq!(
        duly::__internal::duration::parse(&longest),
        Ok(Duration::MAX)
    );
}

#[test]
fn a_refused_text_says_what_was_wrong_and_what_would_be_right() {
    let backoff = |text: &str| {
        text.parse::<RetryPolicy>()
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    let duration = |text: &str| {
        duly::__internal::duration::parse(text)
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
            "unknown backoff `expo(1s..10m)`, expected `fixed(5s)`, `linear(1s..1m)`, `exp(1s..10m)` or `steps(1m, 1h, 1d)`",
        ),
        (
            backoff("steps(1m, soon)"),
            "duration `soon` has no number before `soon`, write one such as `250ms`, `30s` or `1m30s`",
        ),
        (
            backoff("steps(1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s)"),
            "backoff `steps(1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s)` has more than 12 delays, the last one repeats",
        ),
        (
            backoff("steps(1m, 1h, jitter 101%)"),
            "backoff `steps(1m, 1h, jitter 101%)` has `jitter 101%` after the comma, expected a whole percentage up to 100, as in `jitter 20%`",
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

#[test]
fn a_policy_is_read_or_refused_at_the_corners() {
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
        assert_eq!(running.is_ok(), is_right, "{text}: {running:?}");
    }
}

#[test]
fn a_policy_of_a_function_is_told_from_others_and_has_no_text_to_read() {
    fn one(_attempt: u16) -> Duration {
        Duration::from_secs(1)
    }
    fn two(_attempt: u16) -> Duration {
        Duration::from_secs(2)
    }
    let policy = RetryPolicy::function(one);
    assert_eq!(policy, RetryPolicy::function(one));
    assert_ne!(policy, RetryPolicy::function(two));
    assert_ne!(policy, RetryPolicy::fixed(Duration::from_secs(1)));
    assert_eq!(policy.delay_after(0, 0.0), Duration::from_secs(1));
    let jittered = policy.jitter(50);
    assert_eq!(jittered.delay_after(7, 1.0), Duration::from_millis(500));
    assert_eq!(jittered.to_string(), "function(attempt, jitter 50%)");
    let read = policy.to_string().parse::<RetryPolicy>().unwrap_err();
    let words = "unknown backoff `function(attempt)`, expected `fixed(5s)`, `linear(1s..1m)`, \
                 `exp(1s..10m)` or `steps(1m, 1h, 1d)`";
    assert_eq!(read.to_string(), words);
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

proptest! {
    #[test]
    fn a_duration_is_read_back_as_it_was_written(secs: u64, nanos in 0..1_000_000_000_u32) {
        let duration = Duration::new(secs, nanos);
        prop_assert_eq!(duly::__internal::duration::parse(&duly::__internal::duration::format(duration)), Ok(duration));
    }

    #[test]
    fn a_policy_is_read_back_as_it_was_written(policy in any_policy()) {
        let text = policy.to_string();
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
