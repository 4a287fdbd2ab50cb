//! Throughput, failures and lateness of an hour, a day, a month, a year, and the way to the records.

use std::time::Duration;

use duly_dashboard::Role;

use crate::site::{Ahead, Site, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_span_has_its_values_and_leads_to_its_records() {
    let site = Site::memory(Role::View).await;
    for (name, many) in [("mail", 3), ("bills", 2)] {
        let queue = site.bus.queue_named::<u64>(name).unwrap();
        for number in 0..many {
            queue.push(number, Duration::ZERO).await.unwrap();
        }
        let leased = queue.lease(10, Duration::from_secs(30));
        let leased = leased.wait(Duration::from_secs(5)).send().await.unwrap();
        for (at, one) in leased.iter().enumerate() {
            let status = match at {
                0 => one.bury("refused").await.unwrap(),
                _ => one.ack().await.unwrap(),
            };
            assert_eq!(status, duly::lease::LeaseStatus::Held);
        }
    }
    for span in ["hour", "day", "month", "year"] {
        for (queue, done, failed) in [("", 3, 2), ("mail", 2, 1), ("bills", 1, 1)] {
            let page = site
                .get(&format!("/history?span={span}&queue={queue}"))
                .await;
            assert_eq!(page.status.as_u16(), 200, "{span}");
            for total in [
                format!("<dt>Done</dt><dd>{done}<"),
                format!("<dt>Failed</dt><dd>{failed}<"),
            ] {
                assert!(page.text.contains(&total), "{span} {queue}: {}", page.text);
            }
            assert!(page.text.contains("<title>"), "a pointer shows values");
            let scale = page.text.split_once("class=\"scale\"").unwrap().1;
            assert!(scale.contains(">0</span>"), "{span} has an axis");
            assert!(page.text.contains("peak"), "{}", page.text);
            let kept = format!("name=\"span\" value=\"{span}\"");
            assert!(page.text.contains(&kept), "another queue, the same span");
            let (_, rest) = page.text.split_once("/records?").unwrap();
            let query = rest.split('"').next().unwrap().replace("&#38;", "&");
            if query.contains("since=") {
                let records = site.get(&format!("/records?{query}")).await;
                assert!(records.text.matches("/events/").count() <= done + failed);
                assert!(records.text.contains("/events/"), "{}", records.text);
            }
        }
        let page = site.get(&format!("/history?span={span}")).await.text;
        let (before, _) = page.split_once("\" rel=\"prev\"").unwrap();
        let (_, earlier) = before.rsplit_once("href=\"").unwrap();
        let earlier = earlier.replace("&#38;", "&");
        let page = site.get(&format!("/history{earlier}")).await.text;
        assert!(
            page.contains("<dt>Done</dt><dd>0<"),
            "{span} {earlier}: {page}"
        );
        assert!(page.contains("rel=\"next\""), "and back");
    }
    for wrong in ["span=week", "until=never", "queue=a%20b"] {
        let page = site.get(&format!("/history?{wrong}")).await;
        assert!(page.status.is_client_error(), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_go_by_the_time_of_a_store_whose_clock_is_an_hour_off() {
    for hours in [-1, 1] {
        let site = Site::ahead(hours, Role::View).await;
        let queue = site.bus.queue_named::<u64>("mail").unwrap();
        queue.push_many([1, 2], Duration::ZERO).await.unwrap();
        let lease = queue.lease(1, Duration::from_secs(3_000));
        let leased = lease.wait(Duration::from_secs(5)).send().await.unwrap();
        let status = leased[0].ack().await.unwrap();
        assert_eq!(status, duly::lease::LeaseStatus::Held);
        let stats = site.bus.stats("mail").await.unwrap();
        assert_eq!(stats.ready, 1, "the other one waits: {stats:?}");
        let page = site.get("/history?span=hour").await.text;
        assert!(page.contains("<dt>Done</dt><dd>1<"), "{hours}: {page}");
        let page = site.get("/").await.text;
        let attempts = "Attempts a minute</span> <strong>1</strong>";
        assert!(page.contains(attempts), "{hours}: {page}");
        assert!(!page.contains("mail is 1h"), "{hours}: {page}");
        let page = site.get("/queues").await.text;
        assert!(!page.contains("<span class=\"bad\">"), "{hours}: {page}");
    }
}

/// A store where something ended in each minute until now, for so many minutes and in so many queues.
struct Busy {
    _folder: tempfile::TempDir,
    site: Site,
}

impl Busy {
    /// With so many attempts in each minute; those of the last queue failed.
    async fn open(queues: usize, minutes: usize, attempts: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let open = async || {
            let bus = duly::Bus::builder().settings(Default::default());
            let bus = bus.store_url(format!("sqlite:{}", file.display()));
            bus.only_registered().publish_only().start().await.unwrap()
        };
        let bus = open().await;
        for number in 0..queues {
            let queue = bus.queue_named::<u64>(&format!("mail-{number:03}"));
            let queue = queue.unwrap();
            queue.push(7, Duration::ZERO).await.unwrap();
            let leased = queue.lease(1, Duration::from_secs(30));
            let leased = leased.wait(Duration::from_secs(5)).send().await.unwrap();
            let status = if queues > 1 && number + 1 == queues {
                leased[0].bury("refused").await.unwrap()
            } else {
                leased[0].ack().await.unwrap()
            };
            assert_eq!(status, duly::lease::LeaseStatus::Held);
        }
        bus.shutdown(Duration::from_secs(5)).await.unwrap();
        // As if each minute had the ends that this one has.
        let database = rusqlite::Connection::open(&file).unwrap();
        let added = database
            .execute(
                "WITH RECURSIVE back(n) AS \
                 (SELECT 1 UNION ALL SELECT n + 1 FROM back WHERE n < ?1) \
                 INSERT INTO minutes SELECT minute - n, queue, outcome, count * ?2 \
                 FROM minutes, back",
                rusqlite::params![i64::try_from(minutes).unwrap(), attempts],
            )
            .unwrap();
        assert_eq!(added, minutes * queues);
        drop(database);
        let site = Site::of(open().await, Role::View).await;
        let _folder = folder;
        Self { _folder, site }
    }
}

/// A queue in which something ends in each minute has its whole year on one page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_year_of_a_busy_queue_is_whole() {
    // The first step of the year may have begun five days later.
    let busy = Busy::open(1, 359 * 1_440, 1).await;
    let page = busy
        .site
        .get("/history?span=year&queue=mail-000")
        .await
        .text;
    assert!(!page.contains("Read back to"), "it is cut off");
    let done = "<dt>Done</dt><dd>516\u{202f}961<";
    assert!(page.contains(done), "{page}");
}

/// However many queues are busy, the long spans become whole by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_month_and_the_year_of_many_busy_queues_are_read_part_by_part() {
    // The first step of the 30 days may have begun twelve hours later.
    let minutes = 29 * 1_440 + 700;
    let busy = Busy::open(20, minutes, 1).await;
    let all = u64::try_from(minutes).unwrap() + 1;
    let done = |all: u64| {
        let done = format!("{},{:03}", all / 1_000, all % 1_000).replace(',', "\u{202f}");
        format!("<dt>Done</dt><dd>{done}<")
    };
    for span in ["month", "year"] {
        let path = format!("/history?span={span}");
        let mut visits = 0;
        let page = loop {
            visits += 1;
            let page = busy.site.get(&path).await.text;
            let goes_on = page.contains("so far");
            // It keeps itself current until it is whole.
            assert_eq!(page.contains("<div data-still"), !goes_on, "{page}");
            assert!(!page.contains("and no further"), "{page}");
            if !goes_on {
                break page;
            }
            assert!(!page.contains(&done(19 * all)), "{page}");
            assert!(visits < 4, "{page}");
        };
        assert_eq!(visits, if span == "month" { 2 } else { 1 }, "{span}");
        assert!(page.contains(&done(19 * all)), "{span}: {page}");
        let failed = done(all).replace("Done", "Failed");
        assert!(page.contains(&failed), "{span}: {page}");
    }
    // What ends now is counted at once, and one queue alone is read whole.
    let queue = busy.site.bus.queue_named::<u64>("mail-000").unwrap();
    queue.push(7, Duration::ZERO).await.unwrap();
    let leased = queue.lease(1, Duration::from_secs(30));
    let leased = leased.wait(Duration::from_secs(5)).send().await.unwrap();
    let status = leased[0].ack().await.unwrap();
    assert_eq!(status, duly::lease::LeaseStatus::Held);
    for (query, all) in [("", 19 * all + 1), ("&queue=mail-000", all + 1)] {
        let path = format!("/history?span=month{query}");
        let page = busy.site.get(&path).await.text;
        assert!(page.contains(&done(all)), "{path}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_very_many_minutes_the_oldest_are_left_out() {
    let busy = Busy::open(450, 1_440, 1).await;
    let page = busy.site.get("/history?span=day").await.text;
    let (_, from) = page.split_once("Read back to ").expect("it is cut off");
    let quarter = 15 * 60_000;
    let last = busy.site.bus.store_time().as_millis() / quarter * quarter - quarter;
    let at = |ms: u64| {
        let text = duly::time::Timestamp::from_millis(ms).to_string();
        text[..16].replace('T', " ")
    };
    let whole = format!("{}, 15m: 6\u{202f}735 done, 15 failed", at(last));
    assert!(page.contains(&whole), "{whole}: {page}");
    let hours = |hours: u64| at(last - hours * 3_600_000);
    assert!(from[..16] < *hours(20) && from[..16] > *hours(24), "{from}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_fails_now_is_told_among_hundreds_of_busy_ones() {
    let busy = Busy::open(490, 40, 10).await;
    until("it is told", async || {
        let page = busy.site.get("/").await.text;
        page.contains("100% of attempts of mail-489 fail")
    })
    .await;
}

/// The total of the day before is one number, whatever the time of the day.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn yesterday_is_the_day_before_from_midnight_to_midnight() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let now = duly::time::Clock::wall_us(&duly::time::SystemClock::new()) / 1_000;
    let (hour, day) = (3_600_000, 86_400_000);
    let midnight = (now / day + 3) * day;
    let open = async |at: u64| {
        let clock = Ahead::by_ms(i64::try_from(at - now).unwrap());
        let bus = duly::Bus::builder().settings(Default::default());
        let bus = bus.store_url(format!("sqlite:{}", file.display()));
        let bus = bus.clock(clock).only_registered().publish_only();
        bus.start().await.unwrap()
    };
    // Two days ago, yesterday early and late, today.
    for (at, many) in [
        (midnight - 25 * hour, 1),
        (midnight - 23 * hour, 2),
        (midnight - hour, 4),
        (midnight + hour, 8),
    ] {
        let bus = open(at).await;
        let queue = bus.queue_named::<u64>("mail").unwrap();
        queue.push_many(0..many, Duration::ZERO).await.unwrap();
        let leased = queue.lease(10, Duration::from_secs(30));
        let leased = leased.wait(Duration::from_secs(5)).send().await.unwrap();
        assert_eq!(leased.len() as u64, many);
        for one in leased {
            assert_eq!(one.ack().await.unwrap(), duly::lease::LeaseStatus::Held);
        }
        bus.shutdown(Duration::from_secs(5)).await.unwrap();
    }
    for late in [1, 15 * hour, 24 * hour - 30_000] {
        let site = Site::of(open(midnight + late).await, Role::View).await;
        yesterday_is_shown(&site, midnight).await;
        site.bus.shutdown(Duration::from_secs(5)).await.unwrap();
    }
}

async fn yesterday_is_shown(site: &Site, midnight: u64) {
    let page = site.get("/history?span=hour&queue=mail").await.text;
    let (before, _) = page.split_once("\">Yesterday</a>").unwrap();
    let (_, query) = before.rsplit_once("href=\"").unwrap();
    let query = query.replace("&#38;", "&");
    let page = site.get(&format!("/history{query}")).await.text;
    assert!(page.contains("<dt>Done</dt><dd>6<"), "{query}: {page}");
    assert!(page.contains("name=\"queue\" value=\"mail\""), "{page}");
    // The form has the day as a browser shows it, and any other can be chosen.
    let until = duly::time::Timestamp::from_millis(midnight).to_string();
    let shown = format!("type=\"datetime-local\" value=\"{}\"", &until[..16]);
    assert!(page.contains(&shown), "{shown}: {page}");
    let query = format!("span=day&until={}", &until[..16]);
    let page = site.get(&format!("/history?{query}")).await.text;
    assert!(page.contains("<dt>Done</dt><dd>6<"), "{query}: {page}");
}
