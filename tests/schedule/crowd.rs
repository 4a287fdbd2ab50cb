//! Programs that declare one schedule, each otherwise, all at once.

use std::time::Duration;

use duly::prelude::*;
use duly::schedule::{Calendar, ScheduleOptions};

use super::programs::Shared;
use super::runs::{DAY, Seen, builder, instants, options};

/// As many declarations of a schedule are remembered.
const REMEMBERED: usize = 8;

/// The same instants by other options.
fn of_program(number: usize) -> ScheduleOptions {
    let past = Calendar::new([format!("{}-01-01", 1970 + number)]).unwrap();
    options("every 12h").exclude(&past)
}

/// On virtual time, programs declare once a day.
#[tokio::test(start_paused = true)]
async fn however_many_programs_declare_a_schedule_otherwise_none_takes_over_again() {
    let (shared, seen) = (Shared::new(), Seen::default());
    let runs = shared.start(builder(&seen, &[])).await;
    let in_force = async || {
        let daily = runs.schedules().get("daily").await.unwrap().unwrap();
        let numbers = 0..REMEMBERED + 3;
        { numbers }
            .find(|number| of_program(*number) == daily.options)
            .unwrap()
    };
    let mut programs = Vec::new();
    for number in 0..REMEMBERED + 3 {
        let program = Bus::builder().publish_only().run_schedules(false);
        let program = program.schedule("daily", of_program(number));
        programs.push(shared.start(program).await);
        runs.advance(DAY / 2).await;
        // One more than are remembered waits.
        assert_eq!(in_force().await, number.min(REMEMBERED - 1), "at {number}");
    }
    let began = runs.clock().start();
    for day in 0..12 {
        runs.advance(DAY).await;
        assert_eq!(in_force().await, REMEMBERED - 1, "day {day}");
    }
    // One of those that wait comes into force when another one has ended, and stays so.
    programs.remove(1).shutdown(DAY).await.unwrap();
    runs.advance(DAY * 6).await;
    let newest = in_force().await;
    assert!(newest >= REMEMBERED, "{newest}");
    for day in 0..6 {
        runs.advance(DAY).await;
        assert_eq!(in_force().await, newest, "day {day}");
    }
    let all = of_program(0);
    let all = all.instants(began).take_while(|at| *at <= runs.now());
    assert_eq!(instants(&seen, "daily"), all.collect::<Vec<_>>());
}

/// The clock of the process that declares a schedule is ahead, and the process ends. Here a declaration
/// is gone after ten days.
#[tokio::test(start_paused = true)]
async fn a_declaration_of_a_process_whose_clock_was_ahead_is_gone_as_well() {
    for days in [0, 1, 5, 9, 11, 20, 400] {
        for goes_on in [false, true] {
            let shared = Shared::new();
            let right = shared.start(Bus::builder().publish_only()).await;
            let declares = || {
                let program = Bus::builder().publish_only().run_schedules(false);
                program.schedule("daily", of_program(0))
            };
            let ahead = shared.ahead(DAY * days, declares()).await;
            ahead.settle().await;
            ahead.shutdown(DAY).await.unwrap();
            let mut others = Vec::new();
            if goes_on {
                others.push(shared.start(declares()).await);
            }
            let mut gone = Vec::new();
            for _ in 0..35 {
                right.advance(DAY + Duration::from_secs(1)).await;
                let daily = right.schedules().get("daily").await.unwrap().unwrap();
                gone.push(daily.is_declaration_gone());
            }
            let what = format!("{days} days, goes on: {goes_on}: {gone:?}");
            let shown = gone.iter().filter(|is_gone| **is_gone).count();
            if goes_on {
                assert_eq!(shown, 0, "{what}");
            } else {
                assert!(shown >= 35 - 20, "{what}");
            }
        }
    }
}
