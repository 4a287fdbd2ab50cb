//! A mailbox of one reader, which decides when the reader must be woken.
//!
//! The reader takes everything, works, and before it sleeps sets how many small messages are worth
//! a wake-up; `add` returns whether to wake it. The danger is the *lost wake-up*: a message arrives
//! just as the reader goes to sleep. Both sides decide under one lock: the sender sees what the
//! reader sleeps for, or the reader sees the message. A wake-up before the sleep must be
//! remembered, as `Thread::unpark` does. Checked in every interleaving by `tests/loom`.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use std::sync::PoisonError;

/// The messages that the reader has not seen yet, oldest first.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    waiting: Mutex<MailboxState<T>>,
}

#[derive(Debug)]
struct MailboxState<T> {
    messages: Vec<T>,
    /// How many small messages are worth a wake-up.
    enough: usize,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        let waiting = MailboxState {
            messages: Vec::new(),
            enough: 1,
        };
        Self {
            waiting: Mutex::new(waiting),
        }
    }
}

impl<T> Mailbox<T> {
    /// Adds a message; returns whether to wake the reader. A message that is not `small` is always
    /// worth a wake-up.
    pub(crate) fn add(&self, message: T, small: bool) -> bool {
        let mut waiting = self.lock();
        waiting.messages.push(message);
        // Beyond the number the reader has been woken, and has not read since.
        !small || waiting.messages.len() == waiting.enough
    }

    /// Takes all messages into `messages`, which must be empty.
    pub(crate) fn take(&self, messages: &mut Vec<T>) {
        std::mem::swap(&mut self.lock().messages, messages);
    }

    /// Prepares to sleep until there are `enough` small messages, at least one, or any other;
    /// returns `false` when that is so already.
    pub(crate) fn may_sleep(&self, enough: usize) -> bool {
        let mut waiting = self.lock();
        waiting.enough = enough.max(1);
        waiting.messages.len() < waiting.enough
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
