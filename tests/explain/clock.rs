//! A wall clock of this machine that is wrong: events go by the store's time, and that is said.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use duly::admin::DamageKind;
use duly::explain::Reason;
use duly::store::MemoryStore;
use duly::time::{Clock, Mono, SystemClock};
use duly::{Bus, EventId};

const DAY: Duration = Duration::from_secs(86_400);

/// The machine's clocks, of which the wall clock can be set wrong by some microseconds, and time can
/// pass.
#[derive(Debug)]
struct Glitching(SystemClock, AtomicI64, AtomicU64);

impl Glitching {
    fn new() -> Arc<Self> {
        Arc::new(Self(
            SystemClock::new(),
            AtomicI64::new(0),
            AtomicU64::new(0),
        ))
    }

    fn pass(&self, span: Duration) {
        let us = u64::try_from(span.as_micros()).expect("short");
        self.2.fetch_add(us, Ordering::SeqCst);
    }
}

impl Clock for Glitching {
    fn wall_us(&self) -> u64 {
        let wrong_us = self.1.load(Ordering::SeqCst);
        let passed_us = self.2.load(Ordering::SeqCst);
        (self.0.wall_us() + passed_us).saturating_add_signed(wrong_us)
    }

    fn mono(&self) -> Mono {
        let passed_ns = self.2.load(Ordering::SeqCst) * 1_000;
        Mono::from_nanos(self.0.mono().as_nanos() + passed_ns)
    }
}

/// A bus on a store of such a clock, and an event that is due in an hour.
async fn with_an_event_in_an_hour() -> (Bus, Arc<Glitching>, EventId) {
    let clock = Glitching::new();
    let store = MemoryStore::with_clock(Arc::clone(&clock) as _);
    let builder = Bus::builder().store(store).publish_only();
    let bus = builder.clock(Arc::clone(&clock) as _).start().await;
    let bus = bus.expect("a bus");
    let queue = bus.queue_named::<u64>("orders").expect("a queue");
    let at = clock.now() + Duration::from_secs(3_600);
    let id = queue.push(7, at).await.expect("a push").id();
    (bus, clock, id)
}

#[tokio::test]
async fn a_wall_clock_that_jumps_is_named_and_makes_nothing_due() {
    let (bus, clock, id) = with_an_event_in_an_hour().await;
    let day_us = i64::try_from(DAY.as_micros()).expect("short");
    for (wrong_us, expected) in [(day_us, Some(false)), (-day_us, Some(true)), (0, None)] {
        clock.1.store(wrong_us, Ordering::SeqCst);
        let explained = bus.explain(id).await.expect("an explanation");
        let is_due_later = |reason: &Reason| matches!(reason, Reason::NotDue { .. });
        assert!(explained.reasons.iter().any(is_due_later), "{explained}");
        let said = explained.reasons.iter().find_map(|reason| match reason {
            Reason::ClockDiffers { by, is_ahead } => Some((*by, *is_ahead)),
            _ => None,
        });
        assert_eq!(said.map(|(_, is_ahead)| is_ahead), expected, "{explained}");
        let is_a_day = |by: Duration| by.abs_diff(DAY) < Duration::from_secs(1);
        assert!(said.is_none_or(|(by, _)| is_a_day(by)), "{explained}");
        let report = bus.check_store().run().await.expect("a report");
        let told = report.counts.contains_key(&DamageKind::Settings);
        assert_eq!(told, expected.is_some(), "{report:?}");
    }
    bus.shutdown(Duration::from_secs(30)).await.expect("a stop");
}

#[tokio::test]
async fn a_wall_clock_that_was_wrong_for_longer_is_followed_and_what_is_left_of_it_is_said() {
    let (bus, clock, id) = with_an_event_in_an_hour().await;
    let day_us = i64::try_from(DAY.as_micros()).expect("short");
    let twenty_seconds = Duration::from_secs(20);
    // How wrong it is, how long that stands, whether the event is due, and by how much the store is said
    // to be ahead, in seconds.
    let steps = [
        (day_us, Duration::from_secs(9), false, Some(-86_400)),
        (day_us, twenty_seconds, true, None),
        (0, twenty_seconds, true, Some(86_400)),
        (0, twenty_seconds, true, Some(86_399)), // it makes up for it by a twentieth of the time
        (0, DAY * 20, true, None),
    ];
    for (wrong_us, stands, is_due, expected) in steps {
        clock.1.store(wrong_us, Ordering::SeqCst);
        bus.explain(id).await.expect("the clocks are read");
        clock.pass(stands);
        let explained = bus.explain(id).await.expect("an explanation");
        let reasons = &explained.reasons;
        let waits = reasons.iter().any(|it| matches!(it, Reason::NotDue { .. }));
        assert_eq!(!waits, is_due, "{explained}");
        let said = reasons.iter().find_map(|reason| match reason {
            Reason::ClockDiffers { by, is_ahead } => {
                let by = i64::try_from(by.as_secs()).expect("short");
                Some(if *is_ahead { by } else { -by })
            }
            _ => None,
        });
        let is_near = said
            .zip(expected)
            .is_none_or(|(said, expected)| said.abs_diff(expected) <= 3);
        assert!(
            said.is_some() == expected.is_some() && is_near,
            "{explained}"
        );
        let report = bus.check_store().run().await.expect("a report");
        let told = report.counts.contains_key(&DamageKind::Settings);
        assert_eq!(told, expected.is_some(), "{report:?}");
    }
    bus.shutdown(Duration::from_secs(30)).await.expect("a stop");
}
