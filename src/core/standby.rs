//! How long a node leaves a bucket to those that look at it before it does.

use std::time::Duration;

use crate::core::options::NodeOptions;
use crate::time::Mono;

/// A node's place in the line of those that may look at a bucket.
///
/// The first, its owner, looks at once. The second looks a little later, and takes what the owner
/// has left. All others leave the bucket to these two, so that what a bucket costs does not grow with
/// the number of nodes. They look when the owner calls them because it has no room, when some node is
/// suspected to be dead, and now and then.
#[derive(Debug)]
pub(crate) struct Standby {
    rank: usize,
    wait: Duration,
    /// The owner has called since the last look was sent, which may not have seen what it is about.
    is_called: bool,
    /// Until when it does not hear the owner's calls, of which the last ones were of no use.
    deaf_until: Mono,
    deaf_for: Duration,
}

impl Standby {
    /// The place of a node before which so many others look.
    pub(crate) fn new(rank: usize, options: &NodeOptions) -> Self {
        Self {
            rank,
            wait: match rank {
                ..=1 => options.other_delay,
                _ => options.sleep_max,
            },
            is_called: false,
            deaf_until: Mono::default(),
            deaf_for: Duration::ZERO,
        }
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.rank == 0
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// How much later than its owner this node looks.
    pub(crate) fn later(&self) -> Duration {
        match self.rank {
            0 => Duration::ZERO,
            _ => self.wait,
        }
    }

    /// The owner has no room: returns whether this node looks soon, one after the other, so that the
    /// first find it all.
    pub(crate) fn called(&mut self, now: Mono, options: &NodeOptions) -> bool {
        let hears = self.rank > 0 && now >= self.deaf_until;
        if hears {
            let before = u32::try_from(self.rank - 1).unwrap_or(u32::MAX);
            self.wait = (options.other_delay / 10).saturating_mul(before);
            self.is_called = true;
            if self.rank > 1 {
                self.deaf_for = (self.deaf_for * 2)
                    .max(options.other_delay)
                    .min(options.deaf_max);
                self.deaf_until = now + self.deaf_for;
            }
        }
        hears
    }

    /// Those before this node may be dead.
    pub(crate) fn suspects(&mut self, options: &NodeOptions) {
        self.wait = self.wait.min(options.other_delay);
    }

    /// A look is sent; a call from now on may be news to its answer.
    pub(crate) fn looks(&mut self) {
        self.is_called = false;
    }

    /// A look has `found` something that those before this node had left, or nothing; without
    /// anything to find, a node that is not the next in line looks every `net`.
    pub(crate) fn looked(&mut self, found: bool, options: &NodeOptions, net: Duration) {
        // After a call that came meanwhile it looks again as soon as the call asked for.
        if !self.is_called {
            self.wait = match found || self.rank == 1 {
                true => options.other_delay,
                false => net,
            };
        }
        if found {
            (self.deaf_until, self.deaf_for) = (Mono::default(), Duration::ZERO);
        }
    }
}
