//! Changes of schedules, beside slots that move and masters that are killed.

use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::schedule::{Calendar, ScheduleOptions};

use super::{carried_out, now};
use crate::servers::{Cluster, Sentinels};

/// Pauses and resumes a schedule, or gives it other options with the same instants: what that takes
/// back is made up for.
pub(super) async fn change(
    bus: &Bus,
    (name, options): (&str, &ScheduleOptions),
    random: &mut fastrand::Rng,
) {
    let schedules = bus.schedules();
    let year = 1970 + random.u16(..50);
    let past = Calendar::new([format!("{year}-01-01")]).unwrap();
    let (is_pause, pause) = (random.bool(), Duration::from_micros(random.u64(..300_000)));
    loop {
        let changed = async {
            if !is_pause {
                return schedules.set(name, options.clone().exclude(&past)).await;
            }
            schedules.pause(name).await?;
            tokio::time::sleep(pause).await;
            schedules.resume(name).await
        };
        let Err(error) = changed.await else {
            return;
        };
        let is_away = matches!(
            error.kind(),
            ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::TimedOut
        );
        assert!(is_away, "{error}"); // a failover, for instance
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instant_is_one_event_while_slots_move_and_schedules_change() {
    let cluster = Arc::new(Cluster::masters(3));
    let (url, moves) = (cluster.url(), 16);
    let trouble = move |number: u64| {
        let bucket = number / 2 % 8;
        let tag = match number % 2 {
            0 => format!("{{duly.schedules:{bucket}}}"),
            _ => format!("{{report:{bucket}}}"),
        };
        let slot = cluster.slot_of(&tag);
        cluster.move_slot(slot, (cluster.master_of(slot) + 1) % 3);
        None
    };
    carried_out(&url, &[0, 5], true, (moves, Some(Arc::new(trouble)))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instant_is_one_event_over_failovers_beside_a_change() {
    let mut sentinels = Sentinels::start();
    sentinels.notice_nothing(); // a machine that is busy would have them begin two at once
    let url = sentinels.url();
    let sentinels = std::sync::Mutex::new(sentinels);
    let trouble = move |_| {
        let mut sentinels = sentinels.lock().unwrap();
        let killed = now();
        sentinels.failover();
        sentinels.restart_dead();
        Some((killed, now()))
    };
    carried_out(&url, &[0, -5], true, (2, Some(Arc::new(trouble)))).await;
}
