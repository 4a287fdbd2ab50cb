//! Schedules in a time zone that some processes do not know.

use std::time::Duration;

use duly::prelude::*;
use duly::store::operation::{Rewriting, StoreOp};

use super::programs::Shared;
use super::runs::{Seen, builder, instants, options};

const HOUR: Duration = Duration::from_secs(3_600);

const KNOWN: &str = "Europe/Berlin";
/// As long, so that nothing else of the stored form changes.
const UNKNOWN: &str = "Mars/Olympus1";

/// Names another zone in the stored schedules, as a process with other zones would.
pub(super) async fn rename(shared: &Shared, from: &str, to: &str) {
    for (_, event) in shared.events().await {
        let body = event.body.as_ref().unwrap();
        let text = String::from_utf8(body.payload.as_bytes().to_vec()).unwrap();
        if !text.contains(from) {
            continue;
        }
        let rewriting = Rewriting {
            id: event.id,
            was: body.fingerprint(),
            payload: text.replace(from, to).into_bytes().into(),
        };
        for bucket in shared.store.buckets().await.unwrap() {
            if bucket.queue == body.queue {
                let rewrite = StoreOp::rewrite(vec![rewriting.clone()]);
                rewrite.apply(&*shared.store, &bucket).await.unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_of_an_unknown_zone_is_shown_and_changed_and_another_process_goes_on() {
    let (shared, seen) = (Shared::new(), Seen::default());
    let bus = shared.start(builder(&seen, &[])).await;
    let schedules = bus.schedules();
    let hourly = options(&format!("0 * * * * {KNOWN}"));
    schedules.set("hourly", hourly.clone()).await.unwrap();
    bus.advance(HOUR).await;
    assert_eq!(instants(&seen, "hourly").len(), 1);

    rename(&shared, KNOWN, UNKNOWN).await;
    let found = schedules.get("hourly").await.unwrap().unwrap();
    let when = found.options.recurrence();
    assert_eq!(when.to_string(), format!("0 * * * * {UNKNOWN}"));
    assert_eq!((when.zone(), found.next()), (None, None));
    let words = format!("there is no time zone `{UNKNOWN}`");
    assert!(found.explain().contains(&words), "{}", found.explain());
    assert!(when.describe().contains(&words), "{}", when.describe());
    let page = schedules.page(None, 10).await.unwrap();
    assert_eq!(page.items.len(), 1);
    let unknown = found.options.clone();
    let error = schedules.set("another", unknown).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    schedules.pause("hourly").await.unwrap();
    schedules.resume("hourly").await.unwrap();
    bus.advance(HOUR * 2).await;
    let ran = instants(&seen, "hourly").len();
    assert!(ran <= 2, "it is not known when");

    // A process that knows the zone has all that this one has left.
    rename(&shared, UNKNOWN, KNOWN).await;
    bus.advance(HOUR).await;
    let instants = instants(&seen, "hourly");
    assert!(instants.len() >= ran + 2, "{instants:?}");
    assert!(instants.is_sorted(), "each once: {instants:?}");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_of_an_unknown_zone_can_be_removed_and_set_anew() {
    for is_set in [false, true] {
        let (shared, seen) = (Shared::new(), Seen::default());
        let bus = shared.start(builder(&seen, &[])).await;
        let schedules = bus.schedules();
        let hourly = options(&format!("0 * * * * {KNOWN}"));
        schedules.set("hourly", hourly.clone()).await.unwrap();
        bus.advance(HOUR).await;
        rename(&shared, KNOWN, UNKNOWN).await;
        bus.advance(HOUR * 3).await; // many a look has failed
        let ran = instants(&seen, "hourly").len();
        if is_set {
            let often = options("every 10m");
            schedules.set("hourly", often.clone()).await.unwrap();
            bus.advance(HOUR).await;
            let found = schedules.get("hourly").await.unwrap().unwrap();
            assert_eq!((found.options, found.is_changing), (often, false));
            assert_eq!(instants(&seen, "hourly").len(), ran + 6);
            continue;
        }
        assert!(schedules.remove("hourly").await.unwrap());
        bus.advance(HOUR).await;
        assert!(schedules.get("hourly").await.unwrap().is_none());
        assert!(shared.events().await.is_empty(), "no link is left");
        assert_eq!(instants(&seen, "hourly").len(), ran);
    }
}
