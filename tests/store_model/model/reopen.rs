//! What is left when the process ends and comes back.

use duly::event::State;
use duly::records::Outcome;

use crate::store_model::model::Model;

impl Model {
    /// Leases and what is known of nodes are gone; what waited or was leased waits for its due
    /// time; of what is over, its last record is left.
    pub(crate) fn reopen(&mut self) {
        self.now_us = 0;
        self.nodes.clear();
        self.exists = !self.events.is_empty() || !self.holds.is_empty();
        for event in &mut self.events {
            event.maybe_running = false;
            event.lease = None;
            event.settled = None;
            (event.position, event.moved_us) = (0, 0);
            if event.state.is_final() {
                let id = event.envelope.id;
                let mut records = self.records.iter().rev();
                let last = records.find(|record| record.id == id).expect("a record");
                event.tries = match last.outcome {
                    Outcome::Acked | Outcome::Discarded => last.attempt.saturating_sub(1),
                    _ => 0,
                };
                event.faded = true;
            } else if event.state != State::Dead {
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
}
