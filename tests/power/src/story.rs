//! What must be so after a power cut: what was answered happened, and what was on its way happened
//! whole or not at all.

use std::collections::{BTreeMap, HashMap};

use duly::records::Outcome;

use crate::act::{Act, End};
use crate::child::Said;
use crate::kit::ATTEMPTS;

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Never pushed.
    Nowhere,
    Waits,
    Dead,
    Over,
}

/// All that can be seen of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) place: Place,
    pub(crate) tries: u16,
    pub(crate) version: u32,
    /// In how many hours it is due, or was when it died.
    pub(crate) hours: u64,
    /// In the order in which they were written.
    pub(crate) records: Vec<Outcome>,
}

impl Fact {
    pub(crate) const NEVER: Self = Self {
        place: Place::Nowhere,
        tries: 0,
        version: 0,
        hours: 0,
        records: Vec::new(),
    };

    /// What was found of an event.
    fn of(n: u64, found: &BTreeMap<u64, Self>) -> Self {
        found.get(&n).cloned().unwrap_or(Self::NEVER)
    }

    /// The fact after an act.
    fn after(&self, act: &Act, n: u64) -> Self {
        let mut fact = self.clone();
        match act {
            Act::Push { later, .. } => (fact.place, fact.hours) = (Place::Waits, (*later).into()),
            Act::Start(_) => {}
            Act::Reschedule(_) => fact.hours = 2,
            Act::Settle(ends) => {
                let end = ends
                    .iter()
                    .find(|(of, _)| *of == n)
                    .expect("it is one of them")
                    .1;
                fact.end(end);
            }
            Act::Cancel(_) => fact.finish(Outcome::Cancelled),
            Act::Update(_, version) => fact.version = *version,
            Act::Revive(_) => {
                (fact.place, fact.tries, fact.hours) = (Place::Waits, 0, 0);
                fact.records.push(Outcome::Revived);
            }
            Act::Drop(_) => fact.finish(Outcome::Dropped),
        }
        fact
    }

    fn end(&mut self, end: End) {
        match end {
            End::Ack => self.finish(Outcome::Acked),
            End::Discard => self.finish(Outcome::Discarded),
            End::Snooze => {
                self.hours = 1;
                self.records.push(Outcome::Snoozed);
            }
            End::RetryNow | End::RetryLater if self.tries + 1 < ATTEMPTS => {
                self.tries += 1;
                self.hours = (end == End::RetryLater).into();
                self.records.push(Outcome::Retried);
            }
            End::RetryNow | End::RetryLater | End::Bury => {
                (self.place, self.tries) = (Place::Dead, self.tries + 1);
                self.records.push(Outcome::Buried);
            }
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        // Of what is over nothing else is kept.
        let records = std::mem::take(&mut self.records);
        *self = Self {
            place: Place::Over,
            records,
            ..Self::NEVER
        };
        self.records.push(outcome);
    }

    /// The handler had started, and the machine came back knowing it.
    fn interrupted(&self) -> Self {
        let mut fact = self.clone();
        fact.tries += 1;
        if fact.tries >= ATTEMPTS {
            fact.place = Place::Dead;
        }
        fact.records.push(Outcome::LeaseLost);
        fact
    }
}

/// What a child was answered, and what it did last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    events: BTreeMap<u64, Tale>,
    /// Acts that were on their way.
    open: Vec<Act>,
    /// How many acts were answered.
    pub(crate) answered: usize,
}

/// One event.
#[derive(Clone, Debug)]
struct Tale {
    fact: Fact,
    /// Its handler has started, and its attempt was not settled.
    started: bool,
}

impl Story {
    /// Takes in what a child said; `what` names it.
    pub(crate) fn take(&mut self, said: &Said) {
        let mut doing: HashMap<&str, Act> = HashMap::new();
        for line in &said.lines {
            let mut words = line.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("do"), Some(task), Some(act)) => {
                    let act: Act = act.parse().expect("a child writes what it can read");
                    if let Act::Start(events) = &act {
                        self.start(events);
                    } else {
                        doing.insert(task, act);
                    }
                }
                (Some("ok"), Some(task), None) => {
                    let act = doing.remove(task).expect("it was begun");
                    self.answered += 1;
                    self.happened(&act);
                }
                (Some("no"), Some(task), None) => {
                    let act = doing.remove(task).expect("it was begun");
                    self.refused(&act);
                }
                _ => {}
            }
        }
        // Whoever was given an event has seen that its push is on disk, answered or not.
        let (seen, open) = doing.into_values().partition(|act| match act {
            Act::Push { events, .. } => events.iter().any(|n| self.events.contains_key(n)),
            _ => false,
        });
        let seen: Vec<Act> = seen;
        seen.iter().for_each(|act| self.happened(act));
        self.open = open;
    }

    fn happened(&mut self, act: &Act) {
        for n in act.events() {
            let tale = self.tale(n);
            // A worker may have had the event before its pusher had the answer.
            if !matches!(act, Act::Push { .. }) || tale.fact == Fact::NEVER {
                tale.fact = tale.fact.after(act, n);
            }
            tale.started &= !matches!(act, Act::Settle(_));
        }
    }

    /// It was answered that nothing of it happened: so it must be.
    fn refused(&mut self, act: &Act) {
        for n in act.events() {
            self.tale(n);
        }
    }

    fn start(&mut self, events: &[u64]) {
        for n in events {
            let tale = self.tale(*n);
            tale.started = true;
            if tale.fact == Fact::NEVER {
                tale.fact.place = Place::Waits;
            }
        }
    }

    fn tale(&mut self, n: u64) -> &mut Tale {
        self.events.entry(n).or_insert(Tale {
            fact: Fact::NEVER,
            started: false,
        })
    }

    /// Every event that was ever named.
    pub(crate) fn events(&self) -> Vec<u64> {
        let named = self.open.iter().flat_map(Act::events);
        let mut events: Vec<u64> = self.events.keys().copied().chain(named).collect();
        events.sort_unstable();
        events.dedup();
        events
    }

    /// Compares what must be with what is, and goes on from there. Answers what is wrong.
    pub(crate) fn settle(&mut self, found: &BTreeMap<u64, Fact>) -> Vec<String> {
        let mut wrong = Vec::new();
        let open = std::mem::take(&mut self.open);
        for act in &open {
            wrong.extend(self.is_whole(act, found));
        }
        for (n, tale) in &mut self.events {
            let is = Fact::of(*n, found);
            if !tale.may_be(&is) {
                wrong.push(format!(
                    "event {n} is {is:?}, it was answered as {:?}",
                    tale.fact
                ));
            }
            (tale.fact, tale.started) = (is, false);
        }
        for (n, fact) in found
            .iter()
            .filter(|(_, fact)| fact.place != Place::Nowhere)
        {
            if !self.events.contains_key(n) {
                wrong.push(format!("event {n} is {fact:?}, and nobody pushed it"));
            }
        }
        wrong
    }

    /// An act on its way happened to all of its events, or to none. What it did is taken over.
    fn is_whole(&mut self, act: &Act, found: &BTreeMap<u64, Fact>) -> Option<String> {
        let mut happened = Vec::new();
        for n in act.events() {
            let is = Fact::of(n, found);
            let tale = self.tale(n);
            let after = tale.fact.after(act, n);
            if is == after {
                happened.push(true);
                (tale.fact, tale.started) = (after, false);
            } else {
                happened.push(false); // whether it is as before is looked at for every event
            }
        }
        let whole = happened.windows(2).all(|two| two[0] == two[1]);
        (!whole).then(|| format!("{act} happened to a part of its events: {happened:?}"))
    }
}

impl Tale {
    fn may_be(&self, is: &Fact) -> bool {
        *is == self.fact || self.started && *is == self.fact.interrupted()
    }
}
