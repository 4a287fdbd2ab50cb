//! The declarations of a schedule by the builds of a program, and the one that is in force.
//!
//! While builds replace one another, programs with different declarations of one schedule run side by
//! side. That of the later build is in force: of the higher number of the deploy, where programs say
//! one, else the one that was declared for the first time later. So a program of an older build that starts again
//! changes nothing. It takes over again when nobody has declared the newer one for some
//! minutes, which is what a deploy that was taken back looks like.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A declaration that no program has made in so many rounds is gone.
pub(super) const GONE_AFTER: u32 = 10;
/// After so many rounds, it is noted that a declaration was made again.
const SEEN_AFTER: u32 = 2;
/// The most declarations of a schedule that are remembered.
const REMEMBERED_MAX: usize = 8;

/// The declarations of a schedule, those in force last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Declarations(Vec<Declaration>);

/// A declaration of a schedule by a build of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Declaration {
    /// The fingerprint of its options.
    pub(super) options: u64,
    /// The number of the deploy.
    #[serde(default)]
    pub(super) deploy: u64,
    /// When a program said it last.
    pub(super) seen: Timestamp,
}

/// What becomes of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is in force, and was seen a moment ago.
    Stands,
    /// It is in force, and that it was seen is to be noted.
    Seen,
    /// It replaces the one in force.
    TakesOver,
    /// Another build's is in force.
    Older,
}

impl Declarations {
    /// Decides about a declaration that a program makes at `now`, and notes it. `every`: how often
    /// programs do that.
    pub(super) fn declare(
        &mut self,
        (options, deploy): (u64, u64),
        now: Timestamp,
        every: Duration,
    ) -> Verdict {
        let declared = Declaration {
            options,
            deploy,
            seen: now,
        };
        let Some(current) = self.0.last_mut() else {
            self.0.push(declared);
            return Verdict::TakesOver;
        };
        if current.options == options {
            let is_new = current.deploy >= deploy && now.since(current.seen) < every * SEEN_AFTER;
            current.deploy = current.deploy.max(deploy);
            current.seen = now;
            return if is_new {
                Verdict::Stands
            } else {
                Verdict::Seen
            };
        }
        let is_known = self.0.iter().any(|known| known.options == options);
        let current = self.0.last().copied().unwrap_or(declared);
        let is_gone = now.since(current.seen) >= every * GONE_AFTER;
        let is_later = deploy > current.deploy || (deploy == current.deploy && !is_known);
        if !is_later && !is_gone {
            return Verdict::Older;
        }
        self.0.retain(|known| known.options != options);
        self.0.push(declared);
        if self.0.len() > REMEMBERED_MAX {
            self.0.remove(0);
        }
        Verdict::TakesOver
    }

    /// The declaration in force; `None` for a schedule that no program declares.
    pub(super) fn current(&self) -> Option<&Declaration> {
        self.0.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1_000)
    }

    #[test]
    fn an_older_build_that_starts_again_changes_nothing() {
        let mut all = Declarations::default();
        assert_eq!(all.declare((1, 0), at(0), MINUTE), Verdict::TakesOver);
        assert_eq!(all.declare((1, 0), at(1), MINUTE), Verdict::Stands);
        assert_eq!(all.declare((2, 0), at(2), MINUTE), Verdict::TakesOver);
        for second in 3..300 {
            assert_eq!(
                all.declare((1, 0), at(second), MINUTE),
                Verdict::Older,
                "{second}"
            );
            assert_ne!(all.declare((2, 0), at(second), MINUTE), Verdict::TakesOver);
        }
        assert_eq!(all.declare((3, 0), at(300), MINUTE), Verdict::TakesOver);
        assert_eq!(all.declare((2, 0), at(301), MINUTE), Verdict::Older);
    }

    #[test]
    fn a_deploy_that_was_taken_back_is_in_force_when_the_newer_one_is_gone() {
        let mut all = Declarations::default();
        let _ = all.declare((1, 0), at(0), MINUTE);
        let _ = all.declare((2, 0), at(1), MINUTE);
        assert_eq!(all.declare((1, 0), at(599), MINUTE), Verdict::Older);
        assert_eq!(all.declare((1, 0), at(601), MINUTE), Verdict::TakesOver);
        assert_eq!(
            all.declare((2, 0), at(602), MINUTE),
            Verdict::Older,
            "it does not flap"
        );
    }

    #[test]
    fn the_number_of_a_deploy_decides_where_there_is_one() {
        let mut all = Declarations::default();
        let _ = all.declare((2, 7), at(0), MINUTE);
        assert_eq!(
            all.declare((1, 6), at(1), MINUTE),
            Verdict::Older,
            "new, and of an older deploy"
        );
        assert_eq!(all.declare((1, 8), at(2), MINUTE), Verdict::TakesOver);
        assert_eq!(all.declare((2, 7), at(3), MINUTE), Verdict::Older);
        assert_eq!(
            all.declare((2, 9), at(4), MINUTE),
            Verdict::TakesOver,
            "taken back by a newer deploy"
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut all = Declarations::default();
        for options in 0..100 {
            assert_eq!(
                all.declare((options, 0), at(options), MINUTE),
                Verdict::TakesOver
            );
        }
        assert_eq!(all.0.len(), REMEMBERED_MAX);
    }
}
