//! Schedules that programs declare: by annotations, settings and the builder.

use duly::admin::Schedule;
use duly::codec::KeyRing;
use duly::config::Settings;
use duly::event::Occurrence;
use duly::prelude::*;
use duly::schedule::{MissedPolicy, OverlapPolicy};
use duly::testing::TestBus;
use duly::{BusBuilder, State};

use super::programs::Shared;
use super::runs::{DAY, Seen, builder, bus, ends, instants, options};

#[delay_event(
    queue = "annotated",
    schedule = "0 9 * * MON-FRI Europe/Berlin",
    payload = "{\"kind\": 1.50}",
    missed = "skip",
    overlap = "wait",
    jitter = "30s",
    exclude = "holidays",
    register = false
)]
async fn annotated(event: Event<serde_json::Value>, seen: State<Seen>) -> Result<(), Failure> {
    assert_eq!(event.payload["kind"], 1.5);
    let (occurrence, late) = (event.occurrence(), event.lateness());
    seen.lock().unwrap().push((occurrence.unwrap(), late));
    Ok(())
}

#[delay_event(queue = "often", every = "15m phase 5m", register = false)]
async fn often(event: Event<Span>, seen: State<Seen>) -> Result<(), Failure> {
    assert!(event.payload.hours < 1.0);
    let (occurrence, late) = (event.occurrence(), event.lateness());
    seen.lock().unwrap().push((occurrence.unwrap(), late));
    Ok(())
}

/// A payload that a function makes of the instant and the one before.
#[derive(Debug, Deserialize, Serialize)]
#[serde(from = "Occurrence")]
struct Span {
    hours: f64,
}

impl From<Occurrence> for Span {
    fn from(occurrence: Occurrence) -> Self {
        let span = occurrence
            .previous
            .map(|before| occurrence.instant.since(before));
        let hours = span.unwrap_or_default().as_secs_f64() / 3_600.0;
        Self { hours }
    }
}

const FILE: &str = "
    [schedules.nightly]
    queue = 'report'
    when = '0 2 * * *'
    missed = 'all(7)'

    [schedules.\"of.settings\"]
    queue = 'report'
    when = 'every 6h'
    overlap = 'skip'
    jitter = '1m'
    only = 'work'

    [calendars]
    holidays = '2026-01-02 2026-01-05'
    work = '2026-01-03 2026-01-04'
";

fn settings() -> Settings {
    let variables = [("DULY__SCHEDULES__OF_SETTINGS__JITTER", "2m")];
    let settings = Settings::from_toml(FILE).unwrap();
    settings.with_environment(variables).unwrap()
}

async fn schedule(bus: &Bus, name: &str) -> Schedule {
    let found = bus.schedules().get(name).await.unwrap();
    found.unwrap_or_else(|| panic!("no schedule {name}"))
}

#[tokio::test(start_paused = true)]
async fn what_is_declared_is_made_with_all_that_it_says() {
    let seen = Seen::default();
    let declared = builder(&seen, &[("by-builder", options("0 12 * * *"))]).settings(settings());
    let declared = declared.register(annotated {}).register(often {});
    let bus = TestBus::start(declared).await.unwrap();
    bus.settle().await;

    let of = schedule(&bus, "annotated").await.options;
    assert_eq!(of.recurrence().to_string(), "0 9 * * MON-FRI Europe/Berlin");
    assert_eq!(
        (of.missed_policy(), of.overlap_policy()),
        (MissedPolicy::Skip, OverlapPolicy::Wait)
    );
    assert_eq!(
        of.payload_text(),
        Some("{\"kind\": 1.50}"),
        "kept as it was written"
    );
    assert_eq!(of.jitter_window().as_secs(), 30);
    assert_eq!(of.calendars().0.len(), 2);
    assert_eq!(
        schedule(&bus, "often")
            .await
            .options
            .recurrence()
            .to_string(),
        "every 15m phase 5m"
    );
    let of = schedule(&bus, "nightly").await.options;
    assert_eq!(of.missed_policy(), MissedPolicy::All(7));
    let of = schedule(&bus, "of.settings").await.options;
    assert_eq!(
        (of.jitter_window().as_secs(), of.overlap_policy()),
        (120, OverlapPolicy::Skip)
    );

    bus.advance(DAY * 5).await;
    // 1 January 2026 is a Thursday; the 2nd and the 5th are holidays.
    assert_eq!(instants(&seen, "annotated").len(), 1);
    assert_eq!(instants(&seen, "often").len(), 5 * 96);
    assert_eq!(instants(&seen, "nightly").len(), 5);
    assert_eq!(instants(&seen, "of.settings").len(), 8);
    assert_eq!(ends(&bus, "by-builder").await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_fails_the_start_and_says_which_schedule_and_what_would_be_right() {
    for (file, words) in [
        (
            "[schedules.x]\nqueue = 'report'",
            "schedule x: `when` is missing",
        ),
        (
            "[schedules.x]\nwhen = '0 9 * * *'",
            "schedule x: `queue` is missing",
        ),
        (
            "[schedules.x]\nqueue = 'report'\nwhen = '0 9 30 2 *'",
            "schedule x: schedule `0 9 30 2 *`: there is no such day",
        ),
        (
            "[schedules.x]\nqueue = 'report'\nwhen = '0 9 * * * Europe/Munich'",
            "there is no time zone `Europe/Munich`",
        ),
        (
            "[schedules.x]\nqueue = 'report'\nwhen = '@daily'\nmissed = 'never'",
            "unknown policy for missed occurrences `never`, expected `skip`, `once`",
        ),
        (
            "[schedules.x]\nqueue = 'report'\nwhen = '@daily'\nexclude = 'holiday'\n[calendars]\nholidays = ''",
            "there is no calendar `holiday`; those of the settings are: holidays",
        ),
        (
            "[schedules.x]\nqueue = 'report'\nwhen = '@daily'\npayload = '{'",
            "schedule x: the payload of the schedule is no JSON",
        ),
    ] {
        let settings = Settings::from_toml(file).unwrap();
        let started = TestBus::start(builder(&Seen::default(), &[]).settings(settings)).await;
        let error = started.unwrap_err().to_string();
        assert!(error.contains(words), "{file}: {error}");
    }
    for (file, words) in [
        (
            "[schedules.x]\nwehn = '@daily'",
            "did you mean schedules.x.when?",
        ),
        (
            "[schedules.'a b']\nwhen = '@daily'",
            "cannot be the name of a schedule",
        ),
        ("[calendars]\nholidays = 1", "it must be dates"),
        ("schedules = 1", "must be a section"),
    ] {
        let error = Settings::from_toml(file).unwrap_err().to_string();
        assert!(error.contains(words), "{file}: {error}");
    }
    let variable = [("DULY__SCHEDULES__NIGHTLI__WHEN", "@daily")];
    let error = Settings::from_toml(FILE)
        .unwrap()
        .with_environment(variable)
        .unwrap_err();
    assert!(error.to_string().contains("is spelled NIGHTLI"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn calendars_that_have_too_many_dates_together_are_refused_however_a_schedule_is_set() {
    let dates = |first: u32| {
        let days = (0..1_200).map(move |day| (first + day / 336, day / 28 % 12 + 1, day % 28 + 1));
        let dates = days.map(|(year, month, day)| format!("{year}-{month:02}-{day:02}"));
        dates.collect::<Vec<_>>().join(" ")
    };
    let (one, other) = (dates(2030), dates(2040));
    let words = "schedule x: a calendar, or those of a schedule together, has more than 2000 dates";
    for both in ["exclude", "only"] {
        let file = format!(
            "[schedules.x]\nqueue = 'report'\nwhen = '@daily'\n{both} = 'one other'\n\
             [calendars]\none = '{one}'\nother = '{other}'"
        );
        let settings = Settings::from_toml(&file).unwrap();
        let started = TestBus::start(builder(&Seen::default(), &[]).settings(settings)).await;
        let error = started.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let [one, other] = [one, other].map(|dates| dates.parse().unwrap());
    let excludes = options("@daily").exclude(&one).exclude(&other);
    let declared = builder(&Seen::default(), &[("x", excludes.clone())]);
    let error = TestBus::start(declared).await.unwrap_err().to_string();
    assert!(error.contains(words), "{error}");

    let (bus, _) = bus(&[]).await;
    for many in [excludes, options("@daily").only(&one).only(&other)] {
        let error = bus.schedules().set("x", many).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let fewer = options("@daily").exclude(&one).only(&other);
    bus.schedules().set("x", fewer.clone()).await.unwrap();
    assert_eq!(schedule(&bus, "x").await.options, fewer);
}

#[tokio::test(start_paused = true)]
async fn a_program_that_only_pushes_declares_what_its_builder_says_alone() {
    let file = "[schedules.of-settings]\nqueue = 'report'\nwhen = '@daily'";
    let pushes: BusBuilder = Bus::builder()
        .publish_only()
        .settings(Settings::from_toml(file).unwrap());
    let bus = TestBus::start(pushes.schedule("of-builder", options("@daily")))
        .await
        .unwrap();
    bus.settle().await;
    assert!(bus.schedules().get("of-settings").await.unwrap().is_none());
    let made = schedule(&bus, "of-builder").await;
    assert!(made.ahead.is_empty(), "nobody carries it out");
    assert!(made.next().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_page_of_schedules_has_each_once() {
    let bus = TestBus::start(builder(&Seen::default(), &[]))
        .await
        .unwrap();
    let names: Vec<String> = (0..130).map(|number| format!("s{number}")).collect();
    for name in &names {
        bus.schedules()
            .set(name, options("every 1h"))
            .await
            .unwrap();
    }
    bus.advance(DAY).await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = bus.schedules().page(after.as_deref(), 40).await.unwrap();
        seen.extend(page.items.into_iter().map(|schedule| schedule.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    seen.sort_unstable();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(seen, names);
}

#[tokio::test(start_paused = true)]
async fn a_program_that_lets_others_carry_schedules_out_declares_what_it_handles() {
    let file = |when: &str| format!("[schedules.nightly]\nqueue = 'report'\nwhen = '{when}'");
    let (shared, seen) = (Shared::new(), Seen::default());
    let handles = |when: &str| {
        let settings = Settings::from_toml(&file(when)).unwrap();
        let builder = builder(&seen, &[]).register(often {}).settings(settings);
        builder.run_schedules(false)
    };
    let handling = shared.start(handles("0 2 * * *")).await;
    let _carries_out = shared.server(KeyRing::new()).await;
    handling.advance(DAY).await;
    assert_eq!(instants(&seen, "often").len(), 96);
    assert_eq!(instants(&seen, "nightly").len(), 1);

    let error = TestBus::start(handles("0 2 30 2 *")).await.unwrap_err();
    assert!(error.to_string().contains("schedule nightly: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_section_without_keys_is_a_schedule_that_variables_may_fill() {
    let empty = || Settings::from_toml("[schedules.of-settings]").unwrap();
    let started = TestBus::start(builder(&Seen::default(), &[]).settings(empty())).await;
    let error = started.unwrap_err().to_string();
    assert!(error.contains("of-settings: `queue` is missing"), "{error}");

    let variables = [
        ("DULY__SCHEDULES__OF_SETTINGS__QUEUE", "report"),
        ("DULY__SCHEDULES__OF_SETTINGS__WHEN", "every 6h"),
    ];
    let settings = empty().with_environment(variables).unwrap();
    let bus = TestBus::start(builder(&Seen::default(), &[]).settings(settings)).await;
    let bus = bus.unwrap();
    bus.settle().await;
    let made = schedule(&bus, "of-settings").await.options;
    assert_eq!(made.recurrence().to_string(), "every 6h");
}
