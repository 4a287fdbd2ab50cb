//! The disk is full, at any of its bytes: pushes are refused, what is stored is handled, and a power
//! cut takes nothing of it.

use std::path::Path;
use std::sync::Arc;

use duly::ErrorKind;
use duly::event::BucketKey;
use duly::store::operation::{Delivery, FetchReport, Reply, StoreOp};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};

use crate::account::Copy;
use crate::act::{Act, End};
use crate::child::{self, say};
use crate::kit;
use crate::lossy::{Disk, Faults, Names};
use crate::story::Story;

/// Room for the time when there is none. The log is kept below half of it.
const RESERVE: usize = 1 << 20;
/// How many pushes a disk of this size must refuse.
const REFUSALS: u64 = 3;

fn open(folder: &Path) -> duly::Result<EmbeddedStore> {
    let options = EmbeddedOptions::new().reserve_bytes(RESERVE as u64);
    EmbeddedStore::open_with(kit::store_in(folder), options)
}

fn ask(store: &EmbeddedStore, bucket: &BucketKey, op: StoreOp) -> duly::Result<Reply> {
    Ok(kit::wait(store.apply(bucket, op))?.reply)
}

/// In a child: fills the disk, and then handles everything that is on it.
pub(crate) fn fill(folder: &Path) {
    let store = match open(folder) {
        Ok(store) => store,
        Err(error) if error.kind() == ErrorKind::Full => return say("full at once"),
        Err(error) => return say(format_args!("failed {error}")),
    };
    let (mut refusals, mut n) = (0, 0);
    while refusals < REFUSALS {
        // Groups of up to 40 events, so that the disk fills within one.
        let events = (0..n % 5 * 10 + 1)
            .map(|at| (n * 50 + at) * kit::QUEUES)
            .collect();
        let act = Act::Push {
            later: false,
            events,
        };
        n += 1;
        say(format_args!("do {n} {act}"));
        match ask(&store, &act.bucket(), act.op()) {
            Ok(_) => say(format_args!("ok {n}")),
            Err(error) if error.kind() == ErrorKind::Full => {
                refusals += 1;
                say(format_args!("no {n}"));
            }
            Err(error) => return say(format_args!("failed {error}")),
        }
    }
    if let Err(error) = drain(&store) {
        say(format_args!("failed on a full disk: {error}"));
    }
    say("drained");
    // The power goes before it is closed.
    std::mem::forget(Arc::new(store));
}

/// Handles all but every seventh event, which it leaves for later.
fn drain(store: &EmbeddedStore) -> duly::Result<()> {
    let bucket = kit::bucket(0);
    for request in 1.. {
        ask(
            store,
            &bucket,
            StoreOp::MoveDue {
                limit: 1_000,
                calls: false,
            },
        )?;
        let Reply::Fetched(FetchReport { deliveries, .. }) =
            ask(store, &bucket, kit::fetch(request, 20))?
        else {
            panic!("a fetch was answered with something else");
        };
        if deliveries.is_empty() {
            break;
        }
        let events: Vec<u64> = deliveries.iter().map(|one| one.id.entropy()).collect();
        say(format_args!("do d {}", Act::Start(events.clone())));
        store.starting(
            &bucket.queue,
            &deliveries.iter().collect::<Vec<&Delivery>>(),
        )?;
        let end = |n: &u64| {
            (
                *n,
                if n.is_multiple_of(7) {
                    End::Snooze
                } else {
                    End::Ack
                },
            )
        };
        let ends: Vec<(u64, End)> = events.iter().map(end).collect();
        let settlements = deliveries.iter().zip(&ends);
        let settlements = settlements.map(|(one, (_, end))| kit::settlement(one, end.verdict()));
        let op = kit::settle(settlements.collect());
        say(format_args!("do d {}", Act::Settle(ends)));
        ask(store, &bucket, op)?;
        say("ok d");
    }
    Ok(())
}

#[test]
fn a_disk_that_is_full_at_any_byte_refuses_pushes_drains_and_loses_nothing() {
    let mut refused_at_once = 0;
    for step in 0..16 {
        // From no room for the reserve to room for much more; never on the edge of a page.
        let room = RESERVE / 2 + step * 61_111;
        let names = [Names::WithFiles, Names::ByFolder][step % 2];
        let disk = Disk::new(names);
        let mount = disk.mount(Faults {
            room: Some(room),
            ..Faults::default()
        });
        let said = child::run("fill", &mount.path());
        said.expect_well(&format!("a disk of {room} bytes"));
        disk.cut(None);
        drop(mount);
        let mut story = Story::default();
        story.take(&said);
        refused_at_once += usize::from(said.after("full at once").next().is_some());
        if room > 2 * RESERVE {
            assert!(
                said.after("ok ").next().is_some(),
                "nothing found room in {room} bytes"
            );
        }
        let wrong = match Copy::of(&disk).facts(&story.events()) {
            Ok(facts) => story.settle(&facts),
            Err(why) => vec![why],
        };
        assert_eq!(wrong, [""; 0], "a disk of {room} bytes");
    }
    assert!(
        refused_at_once < 16,
        "every disk was too small to be opened"
    );
}
