//! Turns: one request at a time of each name, while few of it wait.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// The names of which a request runs or waits.
#[derive(Debug)]
pub(crate) struct Turns {
    /// The most requests of a name.
    most: usize,
    names: parking_lot::Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

impl Turns {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            names: parking_lot::Mutex::default(),
        }
    }

    /// Waits for a turn of a name, first come first served; returns `None` where too many of it wait.
    pub(crate) async fn take(&self, name: &str) -> Option<OwnedMutexGuard<()>> {
        let turn = {
            let mut names = self.names.lock();
            // Whoever has a turn, or waits for one, has it from here.
            names.retain(|_, turn| Arc::strong_count(turn) > 1);
            let turn = names.entry(name.to_owned()).or_default();
            if Arc::strong_count(turn) > self.most {
                return None;
            }
            Arc::clone(turn)
        };
        Some(turn.lock_owned().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_waits_for_itself_alone_and_few_of_it_wait() {
        let turns = Turns::new(3);
        let held = turns.take("worst").await.unwrap();
        let others = (0..200).map(|number| format!("{number}"));
        for other in others {
            assert!(turns.take(&other).await.is_some(), "{other}");
        }
        let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(turns.take("worst"))).collect();
        let mut refused = 0;
        for it in &mut waiting {
            refused += usize::from(futures_util::poll!(it).is_ready());
        }
        assert_eq!(refused, 3, "one has the turn, and two wait");
        // Those that go away wait no more.
        drop(waiting);
        let again = turns.take("worst");
        drop(held);
        assert!(again.await.is_some());
        assert!(turns.take("last").await.is_some());
        assert_eq!(turns.names.lock().len(), 1, "what is unused is forgotten");
    }
}
