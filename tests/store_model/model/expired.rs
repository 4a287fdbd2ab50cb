//! What has expired, which is over before any operation.

use std::time::Duration;

use duly::EventId;
use duly::LatePolicy;
use duly::event::State;
use duly::records::{Cause, Outcome};
use duly::store::operation::NewEvent;

use crate::store_model::model::{Event, Model, WINDOW};

impl Model {
    /// Leases past their deadline are over before an operation that `tells` of them, or changes what
    /// they hold. What has expired is over before any operation, the first to expire first; what is
    /// forgotten for it is when the operation is done, unless the model `forgets_first`.
    pub(crate) fn begin(&mut self, tells: bool) {
        self.overdue = if tells || self.forgets_first {
            self.end_overdue(|_| true) // a server is looked at before each operation
        } else {
            0
        };
        self.before = self.over.len();
        self.is_settling = true;
        let waits = |event: &&Event| matches!(event.state, State::Scheduled | State::Ready);
        let waiting = self.events.iter().filter(waits);
        let expires = waiting.filter_map(|event| {
            let due_us = event.due.as_millis() * 1_000;
            let late_us = match event.envelope.late {
                LatePolicy::Deliver => None,
                LatePolicy::Expire(limit) | LatePolicy::Bury(limit) => {
                    Some(due_us + u64::try_from(limit.as_micros()).expect("short") + 1)
                }
            };
            let expires_us = event.envelope.expires.map(|at| at.as_millis() * 1_000);
            let at_us = expires_us.into_iter().chain(late_us).min()?;
            (at_us <= self.now_us).then_some((at_us, event.envelope.id))
        });
        let mut expired: Vec<_> = expires.collect();
        expired.sort_unstable();
        self.expired = expired.len();
        for (_, id) in expired {
            assert!(!self.is_of_use(id), "it has expired");
        }
        self.is_settling = false;
        if self.forgets_first && self.over.len() > self.before {
            self.forget();
            self.before = self.over.len();
        }
    }

    /// Takes back leases past their deadline, the first first. Returns how many.
    fn end_overdue(&mut self, of: impl Fn(&Event) -> bool) -> usize {
        let deadline = |event: &Event| event.lease.as_ref()?.deadline;
        let over = self.events.iter().filter(|event| of(event));
        let over = over.filter_map(|event| Some((deadline(event)?, event.envelope.id)));
        let mut over: Vec<_> = over.filter(|(at, _)| self.is_due(*at)).collect();
        over.sort_unstable();
        let mut reaped = std::mem::take(&mut self.taken_back);
        for (_, id) in &over {
            self.take_back(*id, &mut reaped, &mut Vec::new());
        }
        self.taken_back = reaped;
        over.len()
    }

    /// What holds a unique key of a push, though it is over, ends before.
    pub(crate) fn end_holders(&mut self, new: &[NewEvent]) {
        self.is_settling = true;
        for unique in new.iter().filter_map(|new| new.envelope.unique.as_ref()) {
            let is_holder =
                |event: &Event| event.has_key && event.envelope.unique.as_ref() == Some(unique);
            self.end_overdue(is_holder);
            let waits = |event: &Event| matches!(event.state, State::Scheduled | State::Ready);
            for id in self.ids(|event| is_holder(event) && waits(event)) {
                self.is_of_use(id);
            }
        }
        self.is_settling = false;
    }

    /// Forgets what the window does not hold, if anything has ended.
    pub(crate) fn finish(&mut self) {
        if self.over.len() > self.before {
            self.forget();
        }
    }

    /// Forgets what has reached the greatest age, as a look at the bucket does; returns whether there
    /// was any.
    pub(crate) fn sweep(&mut self) -> bool {
        let now_us = self.now_us;
        let age = |ended_us: u64| Duration::from_micros(now_us.saturating_sub(ended_us));
        let is_old = |(_, ended_us): &(_, u64)| age(*ended_us) >= WINDOW.max_age;
        if !self.over.first().is_some_and(is_old) {
            return false;
        }
        self.begin(false);
        self.finish();
        self.forget_while(|_, age| age >= WINDOW.max_age);
        self.free_holds();
        true
    }

    /// Frees unique keys whose time is over, as a look at the bucket does: they stay free though the
    /// clock is earlier after a restart.
    pub(crate) fn free_holds(&mut self) {
        let now = self.now();
        self.holds.retain(|hold| hold.0 > now);
    }

    /// Buries an event at the end of an attempt; one that was too late had not begun.
    pub(super) fn bury(&mut self, id: EventId, tries: u16, cause: Cause) {
        if cause == Cause::TooLate {
            self.record(id, 0, Outcome::Buried, None);
            self.end(id, State::Dead);
        } else {
            self.conclude(id, tries, Outcome::Buried, State::Dead);
        }
    }

    /// Whether the expiry of an event has passed, whatever its due time.
    pub(super) fn has_expired(event: &Event, now_us: u64) -> bool {
        let expires = event.envelope.expires;
        expires.is_some_and(|at| at.as_millis() * 1_000 <= now_us)
    }

    /// Sets an event aside that has expired or is too late.
    pub(crate) fn is_of_use(&mut self, id: EventId) -> bool {
        let now_us = self.now_us;
        let event = self.event(id).expect("it is there");
        let late = Duration::from_micros(now_us.saturating_sub(event.due.as_millis() * 1_000));
        let policy = event.envelope.late;
        let is_late = matches!(policy, LatePolicy::Expire(limit) if late > limit);
        let expired = is_late || Self::has_expired(event, now_us);
        if expired {
            self.record(id, 0, Outcome::Expired, None);
            self.end(id, State::Expired);
            self.aside.expired += 1;
        } else if matches!(policy, LatePolicy::Bury(limit) if late > limit) {
            self.record(id, 0, Outcome::Buried, Some(Cause::TooLate));
            self.end(id, State::Dead);
            self.aside.late += 1;
        } else {
            return true;
        }
        false
    }
}
