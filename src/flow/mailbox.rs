//! Where news waits for the one who reads it, and when he is to be woken.
//!
//! The reader takes everything, works, and says before he sleeps how many small news are worth a
//! wake-up; whoever adds is told whether to wake him. The danger is the *lost wake-up*: news comes
//! just as the reader goes to sleep. Both sides decide under one lock: who adds sees what the
//! reader sleeps for, or the reader sees what was added. The waking itself must remember that it
//! happened when it comes before the sleep, as `Thread::unpark` does. Checked in every
//! interleaving by `tests/loom`.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use std::sync::PoisonError;

/// News that the reader has not seen yet, the oldest first.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    waiting: Mutex<Waiting<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    news: Vec<T>,
    /// Small news alone are worth a wake-up when so many have come.
    enough: usize,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        let waiting = Waiting {
            news: Vec::new(),
            enough: 1,
        };
        Self {
            waiting: Mutex::new(waiting),
        }
    }
}

impl<T> Mailbox<T> {
    /// Adds news; answers whether the reader has to be woken. What is not `small` is always worth
    /// it.
    pub(crate) fn add(&self, news: T, small: bool) -> bool {
        let mut waiting = self.lock();
        waiting.news.push(news);
        // Beyond the number somebody has woken him, and he has not looked since.
        !small || waiting.news.len() == waiting.enough
    }

    /// Takes all news there is into `news`, which must be empty.
    pub(crate) fn take(&self, news: &mut Vec<T>) {
        std::mem::swap(&mut self.lock().news, news);
    }

    /// The reader goes to sleep, until there are `enough` small news, at least one, or anything
    /// else; answers `false` when that is so already.
    pub(crate) fn may_sleep(&self, enough: usize) -> bool {
        let mut waiting = self.lock();
        waiting.enough = enough.max(1);
        waiting.news.len() < waiting.enough
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
