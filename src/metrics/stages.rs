//! The lateness of an attempt, by stage.

/// How late the start of an attempt was, in three stages, in microseconds.
///
/// Time before the due time is no delay and counts as zero. The stages always add up to
/// [`total_us`](Self::total_us), whatever the clocks showed: a step that seems to precede the one
/// before it took no time, and none ends after the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// From the due time until the event was moved to the ready list: no node polled in time.
    pub move_us: u64,
    /// From there until it was leased: no node had room for it, or the store was slow.
    pub fetch_us: u64,
    /// From there until its handler was started: it waited in this process, for a worker.
    pub start_us: u64,
}

impl Stages {
    /// Returns the stages of an attempt that was due, moved, fetched and started at these times;
    /// all in microseconds since the epoch, by the store's clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::metrics::Stages;
    ///
    /// let stages = Stages::of(1_000, 1_200, 1_250, 2_000);
    /// assert_eq!((stages.move_us, stages.fetch_us, stages.start_us), (200, 50, 750));
    /// assert_eq!(stages.total_us(), 1_000);
    ///
    /// // Read ahead: it was here before it was due.
    /// let stages = Stages::of(1_000, 900, 900, 1_010);
    /// assert_eq!((stages.move_us, stages.fetch_us, stages.start_us), (0, 0, 10));
    /// ```
    #[must_use]
    pub const fn of(due: u64, moved: u64, fetched: u64, started: u64) -> Self {
        let end = if started > due { started } else { due };
        let moved = within(moved, due, end);
        let fetched = within(fetched, moved, end);
        Self {
            move_us: moved - due,
            fetch_us: fetched - moved,
            start_us: end - fetched,
        }
    }

    /// Returns the time from the due time until the handler was started.
    #[must_use]
    pub const fn total_us(&self) -> u64 {
        self.move_us + self.fetch_us + self.start_us
    }
}

/// Returns the part of `from..=to` after `at`.
const fn within(at: u64, from: u64, to: u64) -> u64 {
    if at < from {
        from
    } else if at > to {
        to
    } else {
        at
    }
}
