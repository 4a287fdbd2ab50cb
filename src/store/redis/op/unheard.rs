//! Calls whose reply is lost, so that nobody was told what they did.
//!
//! A reply says whether there is earlier work, and the message that says the same is ignored by the
//! caller. Who calls again after the reply was lost hears that there is nothing new.

use crate::error::{ErrorKind, Result};
use crate::store::redis::link::fault;

/// A call that has no reply yet. Where it ends without one, also because its caller has gone, `tell`
/// is called.
pub(super) struct Unheard<F: FnMut()> {
    tell: F,
    is_heard: bool,
}

impl<F: FnMut()> Unheard<F> {
    pub(super) fn new(tell: F) -> Self {
        let is_heard = false;
        Self { tell, is_heard }
    }

    /// Notes what came of the call; `is_repeat` of its reply.
    pub(super) fn ended<R>(mut self, reply: &Result<R>, is_repeat: impl Fn(&R) -> bool) {
        self.is_heard = match reply {
            Ok(reply) => !is_repeat(reply),
            // A script that fails by the data of its bucket fails again: who looks at once never rests.
            Err(error) => error.kind() != ErrorKind::Unknown || fault::is_of_the_data(error),
        };
    }
}

impl<F: FnMut()> Drop for Unheard<F> {
    fn drop(&mut self) {
        if !self.is_heard {
            (self.tell)();
        }
    }
}
