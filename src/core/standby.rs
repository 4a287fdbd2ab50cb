//! The delay of a non-owner before it polls a bucket.

use std::time::Duration;

use crate::core::options::NodeOptions;
use crate::time::Mono;

/// A node's rank among those that may poll a bucket.
///
/// The first, its owner, polls at once. The second polls a little later and takes what the owner
/// has left. All others leave the bucket to these two, so that its cost does not grow with the
/// number of nodes. They poll when the owner calls them because it has no room, when a node is
/// suspected, and now and then.
#[derive(Debug)]
pub(crate) struct Standby {
    rank: usize,
    wait: Duration,
    /// The owner has called since the last poll was sent, so that poll may have missed the events.
    is_called: bool,
    /// Ignores calls of the owner until then, because the last ones brought nothing.
    ignores_until: Mono,
    ignores_for: Duration,
}

impl Standby {
    /// Creates the standby of a node with `rank` nodes before it.
    pub(crate) fn new(rank: usize, options: &NodeOptions) -> Self {
        Self {
            rank,
            wait: match rank {
                ..=1 => options.non_owner_delay,
                _ => options.sleep_max,
            },
            is_called: false,
            ignores_until: Mono::default(),
            ignores_for: Duration::ZERO,
        }
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.rank == 0
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Returns how much later than the owner this node polls.
    pub(crate) fn later(&self) -> Duration {
        match self.rank {
            0 => Duration::ZERO,
            _ => self.wait,
        }
    }

    /// Handles a call of an owner without room; returns whether this node polls soon. The nodes
    /// poll in turn, so that the first ones find all events.
    pub(crate) fn handle_call(&mut self, now: Mono, options: &NodeOptions) -> bool {
        let hears = self.rank > 0 && now >= self.ignores_until;
        if hears {
            let before = u32::try_from(self.rank - 1).unwrap_or(u32::MAX);
            self.wait = (options.non_owner_delay / 10).saturating_mul(before);
            self.is_called = true;
            if self.rank > 1 {
                self.ignores_for = (self.ignores_for * 2)
                    .max(options.non_owner_delay)
                    .min(options.ignore_max);
                self.ignores_until = now + self.ignores_for;
            }
        }
        hears
    }

    /// A node with a better rank may be dead.
    pub(crate) fn suspects(&mut self, options: &NodeOptions) {
        self.wait = self.wait.min(options.non_owner_delay);
    }

    /// A poll is sent; a call from now on may be about events it misses.
    pub(crate) fn start_poll(&mut self) {
        self.is_called = false;
    }

    /// A poll `found` events that better-ranked nodes had left, or none; while there are none, a
    /// node beyond the second polls every `net`.
    pub(crate) fn finish_poll(&mut self, found: bool, options: &NodeOptions, net: Duration) {
        // After a call that came meanwhile it polls again when the call asked for it.
        if !self.is_called {
            self.wait = if found || self.rank == 1 {
                options.non_owner_delay
            } else {
                net
            };
        }
        if found {
            (self.ignores_until, self.ignores_for) = (Mono::default(), Duration::ZERO);
        }
    }
}
