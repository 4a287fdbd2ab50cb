//! Texts of recurrences: what they mean, and what is refused.

use std::time::Duration;

use duly::schedule::{OverlapPolicy, Recurrence};
use duly::time::Timestamp;

fn parsed(text: &str) -> Recurrence {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_text_that_is_written_again_means_the_same() {
    for (text, written) in [
        (
            "0 9 * * MON-FRI Europe/Berlin",
            "0 9 * * MON-FRI Europe/Berlin",
        ),
        ("  0   9 * *  1-5 ", "0 9 * * 1-5 UTC"),
        ("*/10 * * * * * UTC", "*/10 * * * * * UTC"),
        (
            "0 0 9 LW * ? 2030 Asia/Tokyo",
            "0 0 9 LW * ? 2030 Asia/Tokyo",
        ),
        ("@daily America/New_York", "@daily America/New_York"),
        ("0 0 * * sat", "0 0 * * sat UTC"),
        ("0 0 L * *", "0 0 L * * UTC"),
        ("0 0 * * FRI#L Etc/GMT+3", "0 0 * * FRI#L Etc/GMT+3"),
        ("0 0 * * 1 EST5EDT", "0 0 * * 1 EST5EDT"),
        ("every 90s", "every 1m30s"),
        ("every 1d phase 3h", "every 1d phase 3h"),
        ("every 1h phase 0s", "every 1h"),
    ] {
        let recurrence = parsed(text);
        assert_eq!(recurrence.to_string(), written);
        assert_eq!(parsed(written), recurrence);
        assert!(
            recurrence
                .next_after(Timestamp::from_millis(1_700_000_000_000))
                .is_some()
        );
    }
}

#[test]
fn what_cannot_be_is_refused_and_the_error_says_what_would_be_right() {
    for (text, why) in [
        ("", "write minute, hour"),
        ("* * * *", "write minute, hour"),
        ("61 * * * *", "`61 * * * *`"),
        ("0 24 * * *", "`0 24 * * *`"),
        ("0 9 * * MO-FR", "write minute, hour"),
        ("0 0 30 2 *", "there is no such day"),
        ("0 0 31 4,6,9,11 *", "there is no such day"),
        (
            "0 9 * * * Europe/Berln",
            "there is no time zone `Europe/Berln`",
        ),
        ("0 9 * * * Berlin", "did you mean `Europe/Berlin`?"),
        ("@fortnightly", "`@fortnightly`"),
        ("every", "`every 15m`"),
        ("every 15", "has no unit"),
        ("every 15m from 5m", "`every 1h phase 5m`"),
        ("every 0s", "from 1s to 366d"),
        ("every 500ms", "from 1s to 366d"),
        ("every 367d", "from 1s to 366d"),
        ("every 1h phase 1h", "shorter than the interval, 1h"),
        ("every 1500us", "from 1s"),
        ("every 1.0005s", "a whole number of milliseconds"),
    ] {
        let error = text.parse::<Recurrence>().expect_err(text);
        assert_eq!(error.kind(), duly::ErrorKind::Invalid, "{text}");
        assert!(error.to_string().contains(why), "{text}: {error}");
    }
    let long = format!("0 9 * * {}", "1,".repeat(200));
    let error = long.parse::<Recurrence>().expect_err("too long");
    assert!(error.to_string().contains("at most 200"), "{error}");
    let phased = parsed("@hourly").with_phase(Duration::from_secs(1));
    assert!(
        phased
            .unwrap_err()
            .to_string()
            .contains("says its times itself")
    );
}

#[test]
fn an_expression_of_the_past_has_no_next_instant() {
    let once = parsed("0 0 0 1 1 * 2020");
    let next = once.next_after(Timestamp::EPOCH).expect("it was once");
    assert_eq!(next.as_millis(), 1_577_836_800_000);
    assert_eq!(once.next_after(next), None);
    assert_eq!(parsed("@daily").next_after(Timestamp::MAX), None);
    assert_eq!(parsed("every 1h").next_after(Timestamp::MAX), None);
}

#[test]
fn intervals_are_counted_from_the_epoch_whenever_they_begin() {
    let (hour, minute) = (3_600_000, 60_000);
    for (text, after, next) in [
        ("every 15m", 0, 15 * minute),
        ("every 15m", 15 * minute - 1, 15 * minute),
        ("every 15m", 15 * minute, 30 * minute),
        ("every 1h phase 5m", 0, 5 * minute),
        ("every 1h phase 5m", 5 * minute, hour + 5 * minute),
        ("every 1h phase 5m", hour, hour + 5 * minute),
    ] {
        let found = parsed(text).next_after(Timestamp::from_millis(after));
        assert_eq!(
            found,
            Some(Timestamp::from_millis(next)),
            "{text} after {after}"
        );
    }
}

#[test]
fn to_cancel_a_handler_that_runs_is_refused_with_what_would_be_right() {
    let error = "cancel".parse::<OverlapPolicy>().unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("`timeout`") && text.contains("`wait`"),
        "{text}"
    );
}

#[test]
fn people_are_told_what_a_text_means() {
    for (text, words) in [
        ("0 9 * * MON-FRI Europe/Berlin", "At 09:00, "),
        ("*/15 * * * *", "UTC"),
        (
            "every 15m phase 5m",
            "Every 15m phase 5m, from midnight UTC of 1970",
        ),
    ] {
        let described = parsed(text).describe();
        assert!(described.contains(words), "{described}");
    }
}
