//! The table of places and misdeeds, in one bus of each store.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use duly::records::{Cause, ERROR_BYTES_MAX, Record};
use duly::{BusBuilder, prelude::*};
use futures_util::FutureExt;

use super::misdeed::{MISDEEDS, Misdeed, Registered};
use super::places::{BlockingFoes, End, Foe, Foes, Kind, Order, PLACES, Place, expected, pushed};
use crate::servers;
use crate::world::{World, ms, secs};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

over_every_store! {
    no_misdeed_of_users_code_takes_an_event_with_it,
}

/// A cell, and the event that went into it; `None`: its push was refused.
struct Cell {
    kind: Kind,
    place: Place,
    misdeed: Misdeed,
    end: End,
    id: Option<EventId>,
}

fn with_foes(builder: BusBuilder) -> BusBuilder {
    builder.register(Foes).register_blocking(BlockingFoes)
}

async fn no_misdeed_of_users_code_takes_an_event_with_it(world: World) {
    let bus = world.start(with_foes(world.builder())).await;
    let registered = Registered::new(&bus);
    let (cells, good) = push_all(&bus, registered.0).await;
    bus.run_until_idle(secs(3_600)).await.unwrap();
    check(&bus, &cells, &good).await;
    drop(registered);
    let began = bus.clock().elapsed();
    bus.shutdown(secs(10)).await.unwrap();
    assert!(bus.clock().elapsed() - began < secs(1), "nothing is left");
}

/// On real time, several threads and a real server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_misdeed_takes_an_event_of_redis_with_it() {
    let url = format!("{}?prefix={}", servers::shared().url(), servers::prefix());
    let builder = Bus::builder().only_registered().store_url(&url);
    let builder = with_foes(builder.settings(Default::default()));
    let bus = builder.start().await.unwrap();
    let registered = Registered::new(&bus);
    let (cells, good) = push_all(&bus, registered.0).await;
    let ended = async {
        for queue in ["foes", "blocking-foes"] {
            loop {
                let stats = bus.stats(queue).await.unwrap();
                if (stats.scheduled, stats.ready, stats.leased) == (0, 0, 0) {
                    break;
                }
                tokio::time::sleep(ms(10)).await;
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    assert!(ended.is_ok(), "not every event has ended");
    check(&bus, &cells, &good).await;
    drop(registered);
    bus.shutdown(secs(30)).await.unwrap();
}

/// Pushes the event of each cell, and a good one after each.
async fn push_all(bus: &Bus, number: u64) -> (Vec<Cell>, Vec<EventId>) {
    let (foes, blocking) = (bus.queue::<Foes>(), bus.queue::<BlockingFoes>());
    let (mut cells, mut good) = (Vec::new(), Vec::new());
    for kind in [Kind::Async, Kind::Delayed, Kind::Blocking] {
        let queue = match kind {
            Kind::Blocking => &blocking,
            Kind::Async | Kind::Delayed => &foes,
        };
        let delay = if kind == Kind::Delayed { ms(1) } else { ms(0) };
        for place in PLACES {
            for misdeed in MISDEEDS {
                let Some(end) = expected(kind, place, misdeed) else {
                    continue;
                };
                let order = Order {
                    place,
                    misdeed,
                    bus: number,
                };
                let push = pushed(queue.push(Foe::new(Some(order)), delay));
                let pushed = AssertUnwindSafe(push).catch_unwind().await;
                if let Err(panic) = &pushed {
                    assert_eq!(place, Place::PayloadSerialize, "{misdeed:?}: {panic:?}");
                }
                let pushed = pushed.map_err(std::mem::forget).ok(); // it may be a bomb
                let id = pushed.and_then(Result::ok).map(|receipt| receipt.id());
                cells.push(Cell {
                    kind,
                    place,
                    misdeed,
                    end,
                    id,
                });
                good.push(queue.push(Foe::new(None), delay).await.unwrap().id());
            }
        }
    }
    (cells, good)
}

async fn check(bus: &Bus, cells: &[Cell], good: &[EventId]) {
    let mut wrong = Vec::new();
    for cell in cells {
        let history = match cell.id {
            Some(id) => history(bus, id).await,
            None => Vec::new(),
        };
        if let Err(why) = is_as_expected(cell, &history) {
            let (kind, place, misdeed) = (cell.kind, cell.place, cell.misdeed);
            wrong.push(format!("{kind:?}, {place:?}, {misdeed:?}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for id in good {
        let how: Vec<_> = history(bus, *id)
            .await
            .iter()
            .map(|it| it.outcome)
            .collect();
        assert_eq!(how, [Outcome::Acked], "the queue went on");
    }
    for queue in ["foes", "blocking-foes"] {
        let stats = bus.stats(queue).await.unwrap();
        assert_eq!((stats.scheduled, stats.ready, stats.leased), (0, 0, 0));
    }
}

async fn history(bus: &Bus, id: EventId) -> Vec<Record> {
    bus.records().id(id).page().await.unwrap().items
}

fn is_as_expected(cell: &Cell, history: &[Record]) -> Result<(), String> {
    let retried = |cause| {
        vec![
            (Outcome::Retried, Some(cause)),
            (Outcome::Buried, Some(cause)),
        ]
    };
    let expected = match cell.end {
        End::Refused => Vec::new(),
        End::Done => vec![(Outcome::Acked, None)],
        End::Dead(Cause::Undecodable) => vec![(Outcome::Buried, Some(Cause::Undecodable))],
        End::Dead(cause) => retried(cause),
    };
    let found: Vec<_> = history.iter().map(|it| (it.outcome, it.cause)).collect();
    if found != expected || cell.id.is_none() != (cell.end == End::Refused) {
        return Err(format!("{expected:?} was expected, it was {found:?}"));
    }
    for record in history.iter().filter(|it| it.cause.is_some_and(says_why)) {
        let words = record.error.as_deref().unwrap_or("");
        if words.is_empty() || words.len() > ERROR_BYTES_MAX {
            return Err(format!("an error of {} bytes", words.len()));
        }
    }
    Ok(())
}

fn says_why(cause: Cause) -> bool {
    matches!(cause, Cause::Failed | Cause::Panicked | Cause::Undecodable)
}
