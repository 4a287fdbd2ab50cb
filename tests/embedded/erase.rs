//! The bytes of what is erased are not in the files any more, once those were rewritten.

use std::path::Path;
use std::time::Duration;

use duly::prelude::*;
use duly::{Bus, CancelOutcome};

/// Every file of a folder, one after the other.
fn bytes(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).expect("the folder");
    let files = files.map(|file| file.expect("a file").path());
    files
        .flat_map(|file| std::fs::read(file).expect("its bytes"))
        .collect()
}

fn holds(folder: &Path, text: &str) -> bool {
    let all = bytes(folder);
    all.windows(text.len()).any(|it| it == text.as_bytes())
}

async fn start(folder: &Path) -> Bus {
    let kept = QueueChoices {
        keep_payload: Some(true),
        ..QueueChoices::default()
    };
    let builder = Bus::builder()
        .settings(Default::default())
        .only_registered();
    let builder = builder.publish_only().queue("mail", kept);
    let url = format!("sqlite:{}", folder.join("duly.db").display());
    builder.store_url(url).start().await.expect("a bus")
}

async fn stop(bus: Bus) {
    bus.shutdown(Duration::from_secs(10)).await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_what_is_erased_are_gone_from_a_file_that_was_rewritten() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path();
    let bus = start(folder).await;
    let queue = bus.queue_named::<String>("mail").expect("a queue");
    for number in 0..300_usize {
        // Rows of which many are on a page, rows of a page, and rows of several.
        let filling = "x".repeat([10, 700, 3_000, 20_000][number % 4]);
        let (name, key) = match number % 3 {
            0 => ("Bob of Arden", "customer:9"),
            _ => ("Ann of Arden", "customer:8"),
        };
        let event = queue.event(format!("{name} {filling} {name}")).key(key);
        let header = event.header("name", name);
        let header = header.after(Duration::from_secs(3_600));
        header.push().await.expect("pushed");
    }
    stop(bus).await;
    assert!(holds(folder, "Ann of Arden") && holds(folder, "Bob of Arden"));

    let bus = start(folder).await;
    let report = bus
        .erase("customer:8")
        .cancel()
        .run()
        .await
        .expect("erased");
    assert_eq!((report.cancelled, report.records), (200, 200));
    stop(bus).await;
    // Pages that were split before have copies between their rows; a new file has none.
    let file = rusqlite::Connection::open(folder.join("duly.db")).expect("the file");
    file.execute_batch("VACUUM").expect("rewritten");
    drop(file);
    assert!(holds(folder, "Bob of Arden"));
    assert!(!holds(folder, "Ann of Arden"));
    stop(start(folder).await).await;
}

/// The steps of one erasure may be those of two processes: whatever each of them deletes is overwritten.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_what_is_erased_after_a_restart_are_overwritten() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path();
    let bus = start(folder).await;
    let queue = bus.queue_named::<String>("plain").expect("a queue");
    let ann = |number| format!("Ann the {number}th of Arden");
    let mut ids = Vec::new();
    for number in 10..20 {
        // The end of a long payload is on pages that have nothing else.
        let event = queue.event("x".repeat(20_000) + &ann(number));
        let event = event.key("customer:8").after(Duration::from_secs(3_600));
        ids.push(event.push().await.expect("pushed").id());
    }
    let page = bus.events().key("customer:8").limit(1).page().await;
    let page = page.expect("a page");
    let passed = ids.iter().position(|id| *id == page.items[0].id);
    let passed = passed.expect("it was pushed") + 10;
    stop(bus).await;

    let bus = start(folder).await;
    let next = page.next.expect("nine more");
    let from = format!("events:{next}").parse().expect("a cursor");
    let step = bus.erase("customer:8").cancel().step(Some(from)).await;
    assert_eq!(step.expect("erased").report.cancelled, 9);
    stop(bus).await;
    for number in 10..20 {
        assert_eq!(holds(folder, &ann(number)), number == passed, "{number}");
    }
}

/// What cannot be read is not known to be of somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_is_told_of_as_not_reached() {
    let place = tempfile::tempdir().expect("a folder");
    let bus = start(place.path()).await;
    let queue = bus.queue_named::<u64>("mail").expect("a queue");
    for number in 0..3 {
        let event = queue.event(number).key("customer:8");
        let event = event.after(Duration::from_secs(3_600));
        let id = event.push().await.expect("pushed").id();
        let cancelled = queue.cancel(id).await.expect("a reply");
        assert_eq!(cancelled, CancelOutcome::Cancelled);
    }
    stop(bus).await;
    let file = rusqlite::Connection::open(place.path().join("duly.db")).expect("the file");
    let damage = "UPDATE records SET attempt = 9 WHERE number = 2";
    assert_eq!(file.execute(damage, []).expect("a change"), 1);
    drop(file);
    let bus = start(place.path()).await;
    let report = bus.erase("customer:8").run().await.expect("erased");
    assert_eq!((report.records, report.unreached), (2, 1));
    stop(bus).await;
}
