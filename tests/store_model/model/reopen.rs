//! What is left when the process ends and comes back: everything but leases.

use duly::event::State;
use duly::store::operation::{ReapReport, SetAside};
use duly::time::Timestamp;

use crate::store_model::model::Model;

impl Model {
    /// Leases and what is known of nodes are gone, so nobody can still run anything; what waited or
    /// was leased waits for its due time. Of what is over nothing is lost; it was not over later than
    /// the clock shows now, and a key stays taken for its period from then on.
    pub(crate) fn reopen(&mut self, wall_us: u64) {
        self.now_us = 0;
        let now_ms = wall_us / 1_000;
        for (id, ended_us) in &mut self.over {
            let ahead_ms = (*ended_us / 1_000).saturating_sub(now_ms);
            if ahead_ms == 0 {
                continue;
            }
            *ended_us = now_ms * 1_000;
            for hold in self.holds.iter_mut().filter(|hold| hold.2 == *id) {
                hold.0 = Timestamp::from_millis(hold.0.as_millis() - ahead_ms);
            }
        }
        self.nodes.clear();
        self.aside = SetAside::default();
        self.taken_back = ReapReport::default();
        self.exists = !self.events.is_empty() || !self.holds.is_empty();
        for event in &mut self.events {
            (event.lease, event.position, event.moved_us) = (None, 0, 0);
            if event.state.is_final() {
                continue;
            }
            (event.maybe_running, event.settled) = (false, None);
            if event.state != State::Dead {
                event.state = State::Scheduled;
            }
        }
        self.give_keys_anew();
    }

    /// The last of those that wait for the same unique key has it.
    fn give_keys_anew(&mut self) {
        for at in 0..self.events.len() {
            let waits = |at: usize| self.events[at].state == State::Scheduled;
            let unique = &self.events[at].envelope.unique;
            let later = at + 1..self.events.len();
            let taken = later
                .filter(|later| waits(*later))
                .any(|later| self.events[later].envelope.unique == *unique);
            let has_key = unique.is_some() && waits(at) && !taken;
            self.events[at].has_key = has_key;
        }
    }

    /// A node of which all is taken back, or that has settled the rest, is not reaped any more.
    pub(crate) fn end_reaps(&mut self) {
        for at in 0..self.nodes.len() {
            self.nodes[at].reaping &= self.holds(self.nodes[at].id);
        }
    }
}
