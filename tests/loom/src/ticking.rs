//! The task of the deadline board: no deadline is left behind when it ends.

use std::sync::Arc;

use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread;

use crate::flow::pool::on_demand::OnDemandTask;

/// What starts and ends the task.
trait Switch: Default + Send + Sync + 'static {
    fn must_start(&self) -> bool;
    fn may_end(&self, anything: impl FnOnce() -> bool) -> bool;
}

impl Switch for OnDemandTask {
    fn must_start(&self) -> bool {
        OnDemandTask::must_start(self)
    }

    fn may_end(&self, anything: impl FnOnce() -> bool) -> bool {
        OnDemandTask::may_end(self, anything)
    }
}

/// One without fences.
#[derive(Default)]
struct Bare(AtomicBool);

impl Switch for Bare {
    fn must_start(&self) -> bool {
        !self.0.load(Relaxed) && !self.0.swap(true, SeqCst)
    }

    fn may_end(&self, anything: impl FnOnce() -> bool) -> bool {
        self.0.store(false, Relaxed);
        !anything() || self.0.swap(true, SeqCst)
    }
}

/// The board: how many deadlines there are, and how many tasks were started for them.
#[derive(Default)]
struct Board<S> {
    deadlines: AtomicUsize,
    switch: S,
}

/// Works off what it finds, and ends when it finds nothing.
fn tick<S: Switch>(board: &Board<S>) {
    loop {
        if board.deadlines.swap(0, Relaxed) == 0
            && board.switch.may_end(|| board.deadlines.load(Relaxed) > 0)
        {
            return;
        }
    }
}

/// Adds a deadline, and starts the task if that is due to whoever adds.
fn add<S: Switch>(board: &Arc<Board<S>>) {
    board.deadlines.fetch_add(1, Relaxed);
    if board.switch.must_start() {
        tick(board);
    }
}

fn none_is_left<S: Switch>() {
    loom::model(|| {
        let board = Arc::new(Board::<S>::default());
        let other = thread::spawn({
            let board = Arc::clone(&board);
            move || add(&board)
        });
        add(&board);
        other.join().unwrap();
        assert_eq!(
            board.deadlines.load(SeqCst),
            0,
            "a deadline was left behind"
        );
    });
}

#[test]
fn a_deadline_that_is_added_while_the_task_ends_is_looked_after() {
    none_is_left::<OnDemandTask>();
}

#[test]
#[should_panic(expected = "was left behind")]
fn without_the_fences_a_deadline_is_left_behind() {
    none_is_left::<Bare>();
}
