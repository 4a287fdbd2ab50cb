//! Changes of the clock: all of them in all zones from 1970 to 2037, beside a walk through every
//! minute that knows no calendar.
//!
//! `DULY_SCHEDULE_CASES` sets how many random expressions are tried (default 100). A failure prints
//! its seed; `DULY_SCHEDULE_SEED` replays it.

use std::collections::{BTreeMap, BTreeSet};

use duly::schedule::Recurrence;
use duly::time::Timestamp;
use fastrand::Rng;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp as Instant, ToSpan};

/// How far the walk goes on both sides of a change, in seconds.
const SPAN: i64 = 36 * 3_600;
/// Every change of a clock since 1970 is at a multiple of this, as are the minutes of every zone.
const STEP: i64 = 30;

/// A field: its text, and the values that it means.
struct Field {
    text: String,
    values: BTreeSet<i8>,
}

impl Field {
    fn of(text: String, values: impl IntoIterator<Item = i8>) -> Self {
        let values = values.into_iter().collect();
        Self { text, values }
    }

    fn random(rng: &mut Rng, from: i8, to: i8, stars: u32) -> Self {
        let (a, b) = (rng.i8(from..=to), rng.i8(from..=to));
        let (a, b) = (a.min(b), a.max(b));
        let step = rng.i8(1..=(to - from) / 2);
        match rng.u32(0..100) {
            lot if lot < stars => Self::of("*".to_owned(), from..=to),
            lot if lot < stars + 10 => {
                Self::of(format!("*/{step}"), (from..=to).step_by(step as usize))
            }
            lot if lot < stars + 20 => Self::of(format!("{a}-{b}"), a..=b),
            lot if lot < stars + 30 => {
                Self::of(format!("{a}-{b}/{step}"), (a..=b).step_by(step as usize))
            }
            lot if lot < stars + 40 => Self::of(format!("{a},{b}"), [a, b]),
            _ => Self::of(a.to_string(), [a]),
        }
    }

    fn is_star(&self) -> bool {
        self.text.starts_with('*')
    }
}

/// Minute, hour, day of the month, month, day of the week; and the second, where there is one.
struct Expression([Field; 5], Option<Field>);

impl Expression {
    fn random(rng: &mut Rng) -> Self {
        let few = |rng: &mut Rng, from, to| match rng.u32(0..4) {
            0 => Field::random(rng, from, to, 40),
            _ => Field::of("*".to_owned(), from..=to),
        };
        // Clocks change in the small hours.
        let hour = if rng.bool() {
            Field::random(rng, 0, 23, 30)
        } else {
            let hour = rng.i8(0..4);
            Field::of(hour.to_string(), [hour])
        };
        let seconds: [(&str, &[i8]); 4] = [
            ("0", &[0]),
            ("30", &[30]),
            ("0,30", &[0, 30]),
            ("*/30", &[0, 30]),
        ];
        let seconds = seconds.map(|(text, values)| Field::of(text.to_owned(), values.to_vec()));
        let second = { seconds.into_iter() }.nth(rng.usize(0..6));
        let fields = [
            Field::random(rng, 0, 59, 20),
            hour,
            few(rng, 1, 31),
            few(rng, 1, 12),
            few(rng, 0, 6),
        ];
        Self(fields, second)
    }

    fn matches(&self, time: DateTime) -> bool {
        let [minute, hour, day, month, weekday] = &self.0;
        let on_day = day.values.contains(&time.day());
        let on_weekday = weekday
            .values
            .contains(&time.weekday().to_sunday_zero_offset());
        let is_day = match (day.text.as_str(), weekday.text.as_str()) {
            ("*", _) | (_, "*") => on_day && on_weekday,
            _ => on_day || on_weekday,
        };
        let is_time = minute.values.contains(&time.minute()) && hour.values.contains(&time.hour());
        let is_second = match &self.1 {
            Some(second) => second.values.contains(&time.second()),
            None => time.second() == 0,
        };
        is_time && is_day && month.values.contains(&time.month()) && is_second
    }

    fn is_fixed(&self) -> bool {
        !self.0[0].is_star() && !self.0[1].is_star()
    }

    fn text(&self) -> String {
        let fields = self.1.iter().chain(&self.0);
        let texts: Vec<_> = fields.map(|field| field.text.as_str()).collect();
        texts.join(" ")
    }

    /// All instants of a span, found by looking at each minute of it.
    fn instants(&self, zone: &TimeZone, from: Instant, to: Instant) -> BTreeSet<Instant> {
        let mut shown: BTreeMap<DateTime, Instant> = BTreeMap::new();
        let mut found = BTreeSet::new();
        let mut now = from;
        let mut gaps = Vec::new();
        let mut before = zone.to_datetime(now);
        while now <= to {
            let clock = zone.to_datetime(now);
            if clock.duration_since(before) > SignedDuration::from_secs(STEP) {
                gaps.push((before, clock, now));
            }
            let is_first = !shown.contains_key(&clock);
            shown.entry(clock).or_insert(now);
            if self.matches(clock) && (is_first || !self.is_fixed()) {
                found.insert(now);
            }
            before = clock;
            now += STEP.seconds();
        }
        if self.is_fixed() {
            for (before, after, end) in gaps {
                let missing = std::iter::successors(Some(before), |time| {
                    let next = time.checked_add(STEP.seconds()).ok()?;
                    (next < after).then_some(next)
                });
                if missing.skip(1).any(|time| self.matches(time)) {
                    found.insert(end);
                }
            }
        }
        found
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn of_instant(instant: Instant) -> Timestamp {
    Timestamp::from_millis(u64::try_from(instant.as_millisecond()).expect("after 1970"))
}

#[test]
#[allow(clippy::print_stdout)] // it tells which seed to run again
fn every_change_of_every_clock_is_as_a_walk_through_its_minutes_says() {
    let cases = number("DULY_SCHEDULE_CASES").unwrap_or(100);
    let seed = number("DULY_SCHEDULE_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("DULY_SCHEDULE_SEED={seed} DULY_SCHEDULE_CASES={cases}");
    let mut rng = Rng::with_seed(seed);
    let database = TimeZoneDatabase::bundled();
    let span = |text: &str| text.parse::<Instant>().expect("an instant");
    let (first, last) = (span("1970-01-03T00:00:00Z"), span("2037-12-28T00:00:00Z"));
    let mut changes = Vec::new();
    for name in database.available() {
        let zone = database.get(name.as_str()).expect("it is there");
        let of_zone = zone.following(first).map(|change| change.timestamp());
        let of_zone = of_zone.take_while(|change| *change < last);
        changes.extend(of_zone.map(|change| (name.to_string(), change)));
    }
    let (mut tried, mut compared) = (0, 0);
    while tried < cases {
        let (name, change) = &changes[rng.usize(0..changes.len())];
        let zone = database.get(name).expect("it is there");
        let expression = Expression::random(&mut rng);
        let Ok(recurrence) = format!("{} {name}", expression.text()).parse::<Recurrence>() else {
            continue; // 31 February
        };
        tried += 1;
        let (from, to) = (*change - SPAN.seconds(), *change + SPAN.seconds());
        // The walk begins before the span, so that it knows what the clock has shown.
        let expected = expression.instants(&zone, from - SPAN.seconds(), to);
        let expected: Vec<_> = expected.into_iter().filter(|it| *it > from).collect();
        let found = recurrence.occurrences(of_instant(from));
        let found = found.take_while(|it| *it <= of_instant(to));
        let found: Vec<_> = found.collect();
        let expected: Vec<_> = expected.into_iter().map(of_instant).collect();
        let differs = found
            .iter()
            .zip(&expected)
            .find(|(found, expected)| found != expected);
        let is_same = differs.is_none() && found.len() == expected.len();
        assert!(
            is_same,
            "`{recurrence}` around {change}: {differs:?}; DULY_SCHEDULE_SEED={seed}"
        );
        // From any instant, the next one is the first after it.
        let any = Timestamp::from_millis(
            rng.u64(of_instant(from).as_millis()..of_instant(to).as_millis()),
        );
        let next = recurrence
            .next_after(any)
            .filter(|next| *next <= of_instant(to));
        assert_eq!(
            next,
            expected.iter().copied().find(|it| *it > any),
            "`{recurrence}` after {any:?}"
        );
        compared += expected.len();
    }
    assert!(compared > 0, "nothing was compared");
    println!("{compared} instants of {cases} expressions");
}

/// The table of `duly::schedule`, which names the dates of a year.
#[test]
fn the_table_of_the_guide_is_true() {
    let count = |text: &str, from: &str, to: &str| {
        let recurrence: Recurrence = text.parse().expect(text);
        let at = |text: &str| of_instant(text.parse::<jiff::Zoned>().expect(text).timestamp());
        let of_day = recurrence.occurrences(Timestamp::from_millis(at(from).as_millis() - 1));
        of_day.take_while(|it| *it < at(to)).count()
    };
    let (spring, after_spring) = (
        "2026-03-29T00:00[Europe/Berlin]",
        "2026-03-30T00:00[Europe/Berlin]",
    );
    let (autumn, after_autumn) = (
        "2026-10-25T00:00[Europe/Berlin]",
        "2026-10-26T00:00[Europe/Berlin]",
    );
    for (text, in_spring, in_autumn) in [
        ("30 2 * * * Europe/Berlin", 1, 1),
        ("0,30 2 * * * Europe/Berlin", 1, 2),
        ("30 2,3 * * * Europe/Berlin", 2, 2),
        ("*/20 2 * * * Europe/Berlin", 0, 6),
        ("0 * * * * Europe/Berlin", 23, 25),
        ("@hourly Europe/Berlin", 23, 25),
        ("@daily Europe/Berlin", 1, 1),
        ("@daily Atlantic/Azores", 1, 1),
        ("*/10 30 2 * * * Europe/Berlin", 1, 6),
        ("0,20 */20 2 * * * Europe/Berlin", 0, 12),
        ("30 2 L 3,10 * Europe/Berlin", 0, 0),
        ("30 2 * * SUN#L Europe/Berlin", 1, 1),
        ("every 1h phase 30m", 23, 25),
        ("every 1h", 23, 25),
    ] {
        assert_eq!(
            count(text, spring, after_spring),
            in_spring,
            "{text}, spring"
        );
        assert_eq!(
            count(text, autumn, after_autumn),
            in_autumn,
            "{text}, autumn"
        );
    }
}
