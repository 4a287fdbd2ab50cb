//! The hunt for planted bugs, and the table of what it caught.

use std::fmt;

use crate::bugs::Bug;
use crate::world::{BrokenPromise, World};

/// The first seed that shows a bug.
#[derive(Debug)]
pub struct Hunt {
    pub bug: Bug,
    found: Option<(u64, BrokenPromise)>,
}

impl Hunt {
    /// Runs at most so many worlds with the bug; a third of them where nothing is to be found.
    pub fn new(bug: Bug, most: u64) -> Self {
        let most = bug.masked_by().map_or(most, |_| most / 3);
        let found = (0..most).find_map(|seed| {
            let broken = World::new(seed, Some(bug)).run()?;
            Some((seed, broken))
        });
        Self { bug, found }
    }

    /// Whether it was found, or is known to be masked and was not.
    pub fn is_as_said(&self) -> bool {
        self.found.is_some() != self.bug.masked_by().is_some()
    }
}

/// A line for each bug.
#[derive(Debug)]
pub struct Table<'a>(pub &'a [Hunt]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |bug: Bug| format!("{bug:?}");
        let names = self.0.iter().map(|hunt| name(hunt.bug).len());
        let wide = names.max().unwrap_or(0);
        writeln!(f)?;
        writeln!(f, "{:wide$}  first seed  promise  what was seen", "bug")?;
        for Hunt { bug, found } in self.0 {
            write!(f, "{:wide$}  ", name(*bug))?;
            match (found, bug.masked_by()) {
                (Some((seed, BrokenPromise { broken, .. })), _) => {
                    let promise = broken.promise.number();
                    writeln!(f, "{seed:>10}  {promise:>7}  {}", broken.text)?;
                }
                (None, Some(defence)) => {
                    writeln!(f, "{:>10}  {:>7}  masked: {defence}", "-", "-")?;
                }
                (None, None) => writeln!(f, "{:>10}  {:>7}  not found", "-", "-")?,
            }
        }
        let found = self.0.iter().filter(|hunt| hunt.found.is_some()).count();
        writeln!(f, "{found} of {} found", self.0.len())
    }
}
