//! Containment of users' code: its panics are caught, its texts are bounded, and its values are
//! dropped without a panic that goes on.
//!
//! Users' code runs in more places than handlers: an error has `Display`, `source` and `Drop`, a
//! value has `Drop`, a subscriber sees each log line. Whatever of it runs on behalf of the bus, and
//! not of its caller, goes through here.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt::{self, Write};
use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use futures_util::FutureExt;

/// How long a task that has panicked rests before it begins again.
const REST: Duration = Duration::from_secs(1);

/// The most bytes that are kept of a panic's message.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// The most sources of an error that are printed: a chain may lead back to itself.
pub(crate) const SOURCES_MAX: usize = 32;

/// How often a text may go on after its writer was full. A `Display` that ignores the writer's
/// errors and never ends is ended by a panic then.
const REFUSALS_MAX: usize = 1_024;

/// How often nothing may be written to a text before it counts as full: far more often than a
/// `Display` does that ends.
const EMPTY_MAX: usize = 1 << 20;

/// Runs users' code; returns the message of its panic.
#[inline]
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(message)
}

/// Drops a value of a user's type; a panic is logged.
pub(crate) fn dropped<T>(value: T) {
    if !mem::needs_drop::<T>() {
        return;
    }
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        log("dropping a value panicked", panic);
    }
}

/// Writes log lines, spans or metrics, which runs the subscriber's and the recorder's code: nothing
/// depends on its result, so a panic of it is dropped.
#[inline]
pub(crate) fn reported(report: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(report)) {
        drop(message(panic));
    }
}

/// Runs a task that lasts as long as its owner, and begins it again, after a pause, when it panics:
/// of a log line, say, whose subscriber does.
pub(crate) async fn lasting<F: Future<Output = ()>>(what: &'static str, run: impl Fn() -> F) {
    while let Err(panic) = AssertUnwindSafe(run()).catch_unwind().await {
        log(what, panic);
        tokio::time::sleep(REST).await;
    }
}

/// Logs a panic that no result can carry.
#[cold]
pub(crate) fn log(what: &'static str, panic: Box<dyn Any + Send>) {
    let panic = message(panic);
    reported(|| tracing::error!(panic, "{what}"));
}

/// Returns the message of a panic, truncated.
#[cold]
pub(crate) fn message(panic: Box<dyn Any + Send>) -> String {
    let words = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => words,
        (_, Some(words)) => words.as_str(),
        _ => "a panic without words",
    };
    let words = words[..words.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned();
    // The panic's payload may panic once when it is dropped.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(again);
    }
    words
}

/// Returns the text of an error and of its sources, of at most `max` bytes. What cannot be written
/// is replaced by words that say so.
pub(crate) fn error_text(error: &(dyn StdError + 'static), max: usize) -> String {
    let mut text = BoundedText::new(max);
    let mut next = Some(error);
    for position in 0..=SOURCES_MAX {
        let Some(error) = next else { break };
        if position > 0 {
            text.add(": ");
        }
        let written = caught(|| write!(text, "{error}"));
        match written {
            _ if text.is_full => break,
            Ok(Ok(())) => {}
            Ok(Err(fmt::Error)) => text.add("(its Display returned an error)"),
            Err(message) => {
                text.add("(its Display panicked: ");
                text.add(&message);
                text.add(")");
            }
        }
        next = caught(|| error.source()).unwrap_or_else(|message| {
            text.add(": (its source panicked: ");
            text.add(&message);
            text.add(")");
            None
        });
    }
    text.text
}

/// Returns the text of a value, of at most `max` bytes, as far as it could be written.
pub(crate) fn text(value: &dyn fmt::Display, max: usize) -> String {
    let mut text = BoundedText::new(max);
    let _ = caught(|| write!(text, "{value}"));
    text.text
}

/// A text that accepts no more than a number of bytes.
struct BoundedText {
    text: String,
    max: usize,
    is_full: bool,
    /// How often something was written after it was full.
    refusals: usize,
    /// How often nothing was written.
    empty: usize,
}

impl BoundedText {
    fn new(max: usize) -> Self {
        Self {
            text: String::new(),
            max,
            is_full: false,
            refusals: 0,
            empty: 0,
        }
    }

    /// Adds as much as fits.
    fn add(&mut self, part: &str) {
        let room = self.max - self.text.len();
        self.text.push_str(&part[..part.floor_char_boundary(room)]);
        self.is_full |= part.len() > room;
    }
}

impl Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if part.is_empty() {
            self.empty += 1;
            self.is_full |= self.empty > EMPTY_MAX;
        }
        if self.is_full {
            self.refusals += 1;
            if self.refusals > REFUSALS_MAX {
                // Unlike `panic!` it prints nothing; the caller of `Display` catches it.
                resume_unwind(Box::new("a text that never ends"));
            }
            return Err(fmt::Error);
        }
        self.add(part);
        if self.is_full {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// A value of a user's type whose drop does not panic: of several that were dropped together, a
/// second panic would abort the process.
pub(crate) struct Contained<T>(Option<T>);

impl<T> Contained<T> {
    #[inline]
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Returns the value, whose drop may panic again.
    #[inline]
    pub(crate) fn into_inner(mut self) -> T {
        match self.0.take() {
            Some(value) => value,
            None => unreachable!("only this and the drop take the value, and both own it"),
        }
    }
}

impl<T> Deref for Contained<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => unreachable!("the value is taken only with its container"),
        }
    }
}

impl<T> DerefMut for Contained<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(value) => value,
            None => unreachable!("the value is taken only with its container"),
        }
    }
}

impl<T> Drop for Contained<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            dropped(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// An error whose text is written by a function, and whose source is itself if it says so.
    #[derive(Debug)]
    struct Odd(fn(&mut fmt::Formatter<'_>) -> fmt::Result, bool);

    impl fmt::Display for Odd {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (self.0)(f)
        }
    }

    impl StdError for Odd {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.then_some(self)
        }
    }

    #[test]
    fn a_text_that_cannot_be_written_is_replaced_by_words_that_say_so() {
        let broken = error_text(&Odd(|_| Err(fmt::Error), false), 100);
        assert_eq!(broken, "(its Display returned an error)");
        let panics = error_text(
            &Odd(|f| f.write_str("half").map(|()| panic!("no")), false),
            100,
        );
        assert_eq!(panics, "half(its Display panicked: no)");
    }

    #[test]
    fn a_chain_that_leads_back_to_itself_ends() {
        let text = error_text(&Odd(|f| f.write_str("round"), true), 10_000);
        assert_eq!(text.matches("round").count(), SOURCES_MAX + 1);
    }

    #[test]
    fn a_text_ends_where_its_room_does_though_its_writer_goes_on() {
        let endless = Odd(
            |f| loop {
                let _ = f.write_str("\u{e4}\u{f6}\u{fc} and so on ");
            },
            true,
        );
        for max in 0..40 {
            let text = error_text(&endless, max);
            assert!(text.len() <= max && text.len() + 4 > max, "{max}: {text}");
        }
    }

    #[test]
    fn a_text_ends_although_its_writer_goes_on_without_a_word() {
        let minds = Odd(
            |f| {
                f.write_str("so far")?;
                loop {
                    f.write_str("")?;
                }
            },
            true,
        );
        let goes_on = Odd(
            |f| loop {
                let _ = f.write_str("");
            },
            true,
        );
        assert_eq!(error_text(&minds, 100), "so far");
        assert_eq!(error_text(&goes_on, 100), "");
        assert_eq!(text(&minds, 4), "so f");
    }

    #[test]
    fn values_that_panic_when_dropped_are_all_dropped() {
        struct Bomb(Rc<Cell<u32>>);

        impl Drop for Bomb {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
                panic!("a bomb");
            }
        }

        let count = Rc::<Cell<u32>>::default();
        let bomb = || Contained::new(Bomb(Rc::clone(&count)));
        drop([bomb(), bomb(), bomb()]);
        assert_eq!(count.get(), 3);
        dropped(Bomb(Rc::clone(&count)));
        assert!(caught(|| drop(bomb().into_inner())).is_err());
    }

    #[test]
    fn the_payload_of_a_panic_may_panic_when_it_is_dropped() {
        struct Bomb;

        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }

        let message = caught(|| std::panic::panic_any(Bomb)).unwrap_err();
        assert_eq!(message, "a panic without words");
    }
}
