//! The bytes of what is erased are not in the files any more, once those were rewritten.

use std::path::Path;
use std::time::Duration;

use duly::Bus;
use duly::prelude::*;

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
