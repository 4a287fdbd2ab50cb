//! What the model forgets: the oldest of what is over, as the window says.

use std::sync::LazyLock;
use std::time::Duration;

use duly::EventId;
use duly::store::DedupWindow;
use duly::time::Timestamp;

use crate::store_model::model::Model;
use crate::store_model::number;

/// Which finished ids are remembered: few and not for long, so that forgetting happens.
/// `DULY_MODEL_WINDOW` sets another cap.
pub(crate) static WINDOW: LazyLock<DedupWindow> = LazyLock::new(|| {
    let cap = number("DULY_MODEL_WINDOW").unwrap_or(12_usize);
    DedupWindow {
        keep_for: Duration::from_millis(50),
        max: cap.div_ceil(3) + 1,
        cap,
        max_age: Duration::from_secs(20),
    }
});

impl Model {
    /// Forgets what the window does not hold; a settle does so when it is done.
    pub(super) fn forget(&mut self) {
        self.forget_while(|len, age| {
            let is_surplus = len > WINDOW.max && age >= WINDOW.keep_for;
            is_surplus || len > WINDOW.cap || age >= WINDOW.max_age
        });
    }

    /// Forgets the first, given how many there are and how long ago it ended. One whose id has a time
    /// that is still to come, as the clock was set back, goes behind the others.
    pub(super) fn forget_while(&mut self, is_surplus: impl Fn(usize, Duration) -> bool) {
        for _ in 0..self.over.len() {
            let (gone, ended_us) = self.over[0];
            let age = Duration::from_micros(self.now_us.saturating_sub(ended_us));
            if !is_surplus(self.over.len(), age) {
                return;
            }
            let is_to_come = gone.created() > self.now() && !self.is_ahead(gone.created());
            if is_to_come && self.over.len() <= 2 * WINDOW.cap.max(1) {
                self.over.remove(0);
                self.over.push((gone, self.now_us));
            } else {
                self.forget_first(gone);
            }
        }
    }

    pub(super) fn forget_first(&mut self, gone: EventId) {
        self.over.remove(0);
        self.events.retain(|event| event.envelope.id != gone);
        self.heal();
        let created = gone.created();
        if created <= self.now() {
            self.forgotten = self.forgotten.max(Some(created));
        } else if !self.is_ahead(created) {
            self.forgotten_ahead = self.ahead().max(Some(created));
        }
    }

    /// The latest of those that were forgotten before their time, unless it is from a time when the
    /// clock was wrong.
    fn ahead(&self) -> Option<Timestamp> {
        self.forgotten_ahead.filter(|until| !self.is_ahead(*until))
    }

    /// Whether the bucket may have had an unknown id.
    pub(super) fn may_be_over(&self, id: EventId) -> bool {
        let is_among = |until: Option<Timestamp>| until.is_some_and(|until| id.created() <= until);
        is_among(self.forgotten) || (id.created() > self.now() && is_among(self.ahead()))
    }

    /// Whether an id of then is refused, as its time is too far to come.
    pub(super) fn is_ahead(&self, created: Timestamp) -> bool {
        created > self.now() + Duration::from_secs(60)
    }

    /// A watermark that is too far ahead is from a time when the clock was wrong.
    pub(super) fn heal(&mut self) {
        if self.forgotten.is_some_and(|until| self.is_ahead(until)) {
            let now_ms = self.now().as_millis();
            self.forgotten = Some(Timestamp::from_millis(now_ms - 1));
        }
    }
}
