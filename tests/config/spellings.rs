//! Which queue a variable means.

use duly::QueueName;
use duly::config::{QueueChoices, Settings};

use crate::config::{queue, refusal, toml};

const TWO: &str = "[queues.order-close]\n[queues.order_close]";

/// The queues that get their workers from a variable that spells `name` so.
fn meant(settings: Settings, name: &str) -> duly::Result<Vec<String>> {
    let variable = format!("DULY__QUEUES__{name}__WORKERS");
    let settings = settings.with_environment([(variable, "7")])?;
    let set = |(queue, choices): (QueueName, QueueChoices)| {
        (choices.workers == Some(7)).then(|| queue.to_string())
    };
    Ok(settings.queues.into_iter().filter_map(set).collect())
}

#[test]
fn an_underscore_and_capitals_spell_a_known_queue() {
    let known = "[queues.order-close]\n[queues.a__B_]\n[queues.Mixed]";
    for (spelled, name) in [
        ("ORDER_CLOSE", "order-close"),
        ("order_close", "order-close"),
        ("ORDER-CLOSE", "order-close"),
        ("Order-Close", "order-close"),
        ("MIXED", "Mixed"),
        ("A__B_", "a__B_"),
        ("MAIL_OUT", "mail.out"), // known by the annotation of `send`
    ] {
        assert_eq!(meant(toml(known), spelled).unwrap(), [name], "{spelled}");
    }
}

#[test]
fn a_dash_is_not_a_dot() {
    assert!(!"mail-out".parse::<QueueName>().unwrap().contains('.'));
    assert_eq!(
        meant(Settings::default(), "MAIL-OUT").unwrap(),
        ["mail-out"]
    );
}

#[test]
fn that_fit_several_known_queues_are_refused_and_the_queues_named() {
    for spelled in ["ORDER_CLOSE", "Order_close"] {
        let words = refusal(meant(toml(TWO), spelled).map(|_| Settings::default()));
        assert!(words.contains(spelled), "{words}");
        assert!(words.contains("order-close, order_close"), "{words}");
    }
    let words = refusal(
        meant(toml("[queues.a]\n[queues.A-]\n[queues.a-]"), "a_").map(|_| Settings::default()),
    );
    assert!(words.contains("A-, a-"), "{words}");
}

#[test]
fn letter_for_letter_mean_that_queue() {
    assert_eq!(meant(toml(TWO), "order_close").unwrap(), ["order_close"]);
    assert_eq!(meant(toml(TWO), "order-close").unwrap(), ["order-close"]);
    assert_eq!(meant(toml(TWO), "ORDER-CLOSE").unwrap(), ["order-close"]);
}

#[test]
fn of_no_known_queue_are_a_name_if_only_one_name_can_be_meant() {
    for (spelled, name) in [
        ("EMAIL", "email"),
        ("ORDER-CLOSE", "order-close"),
        ("Order.Close", "Order.Close"),
        ("email2", "email2"),
    ] {
        assert_eq!(meant(Settings::default(), spelled).unwrap(), [name]);
    }
    let words = refusal(meant(Settings::default(), "ORDER_CLOSE").map(|_| Settings::default()));
    for says in [
        "DULY__QUEUES__ORDER_CLOSE__WORKERS",
        "order_close, order-close or order.close",
    ] {
        assert!(words.contains(says), "{words}");
    }
}

#[test]
fn an_empty_section_makes_a_queue_known() {
    assert_eq!(
        meant(toml("[queues.order-close]"), "ORDER_CLOSE").unwrap(),
        ["order-close"]
    );
    let mut settings = Settings::default();
    settings.queues.entry(queue("order.close")).or_default();
    assert_eq!(meant(settings, "ORDER_CLOSE").unwrap(), ["order.close"]);
}

#[test]
fn two_variables_for_one_key_are_refused_and_both_named() {
    let words = refusal(toml("[queues.order-close]").with_environment([
        ("DULY__QUEUES__ORDER_CLOSE__WORKERS", "1"),
        ("DULY__QUEUES__order-close__WORKERS", "2"),
    ]));
    for name in [
        "QUEUES__ORDER_CLOSE__WORKERS",
        "QUEUES__order-close__WORKERS",
    ] {
        assert!(words.contains(name), "{words}");
    }
    let words = refusal(
        Settings::default()
            .with_environment([("DULY__STORE__URL", "a:"), ("duly__store__url", "a:")]),
    );
    assert!(words.contains("mean the same setting"), "{words}");
}

/// The calendars after a variable that spells `name` so.
fn calendars(file: &str, name: &str) -> duly::Result<Vec<(String, String)>> {
    let variable = format!("DULY__CALENDARS__{name}");
    let settings = toml(file).with_environment([(variable, "2026-12-25")])?;
    Ok(settings.calendars.into_iter().collect())
}

#[test]
fn an_underscore_and_capitals_spell_a_known_calendar() {
    let section = "[calendars]\nus-holidays = ''\n'Of.Ours' = ''";
    let named = "[schedules.x]\nexclude = 'us-holidays Of.Ours'";
    let only = "[schedules.x]\nonly = 'us-holidays Of.Ours'";
    for (spelled, name) in [
        ("US_HOLIDAYS", "us-holidays"),
        ("us-holidays", "us-holidays"),
        ("OF_OURS", "Of.Ours"),
        ("HOLIDAYS", "holidays"),
    ] {
        for file in [section, named, only] {
            let mut found = calendars(file, spelled).unwrap();
            found.retain(|(_, dates)| !dates.is_empty());
            let expected = (name.to_owned(), "2026-12-25".to_owned());
            assert_eq!(found, [expected], "{spelled}: {file}");
        }
    }
    for (file, says) in [
        ("", "no calendar known here is spelled US_HOLIDAYS"),
        (
            "[calendars]\nus-holiday = ''",
            "us_holidays, us-holidays or us.holidays",
        ),
        (
            "[calendars]\nus-holidays = ''\nUS_holidays = ''",
            "any of the calendars US_holidays, us-holidays",
        ),
    ] {
        let words = refusal(calendars(file, "US_HOLIDAYS").map(|_| Settings::default()));
        assert!(words.contains(says), "{words}");
    }
}
