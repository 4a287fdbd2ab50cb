//! What is going to happen, the earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A heap of times; what happens then lies beside it, so that it is moved twice and not at every
/// level of the heap.
#[derive(Debug)]
pub struct Agenda<T> {
    /// When, in which order if at the same time, and where the rest lies.
    times: BinaryHeap<Reverse<(u64, u64, usize)>>,
    planned: Vec<Option<T>>,
    free: Vec<usize>,
    number: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self {
            times: BinaryHeap::with_capacity(256),
            planned: Vec::with_capacity(256),
            free: Vec::new(),
            number: 0,
        }
    }
}

impl<T> Agenda<T> {
    /// Plans something; of two things at one time the one that was planned first happens first.
    pub fn plan(&mut self, at_us: u64, happening: T) {
        let place = match self.free.pop() {
            Some(place) => {
                self.planned[place] = Some(happening);
                place
            }
            None => {
                self.planned.push(Some(happening));
                self.planned.len() - 1
            }
        };
        self.number += 1;
        self.times.push(Reverse((at_us, self.number, place)));
    }

    /// What happens next, and when.
    pub fn next(&mut self) -> Option<(u64, T)> {
        let Reverse((at_us, _, place)) = self.times.pop()?;
        self.free.push(place);
        Some((at_us, self.planned[place].take()?))
    }
}
