//! Entries as lines of text.

use std::io::BufRead;

use super::entry::Entry;
use duly::error::{Error, ErrorKind, Result};

/// The longest line that is read, in bytes; entries are far shorter.
const LINE_MAX: u64 = 4_096;

impl Entry {
    /// The entry as one line of JSON with its line end, to be appended by a single write: so a
    /// killed process leaves no half of it between the lines of others.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly_conformance::history::{Entry, What, lines};
    ///
    /// let entry = Entry { at_us: 7, store_us: 9, id: None, what: What::Healed };
    /// let line = entry.to_line();
    /// assert_eq!(line, "{\"at_us\":7,\"store_us\":9,\"what\":\"healed\"}\n");
    /// assert_eq!(lines(line.as_bytes()).next().unwrap()?, entry);
    /// # Ok::<(), duly::Error>(())
    /// ```
    #[must_use]
    pub fn to_line(&self) -> String {
        // Numbers, words and ids: nothing in an entry can fail to be written as JSON.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

/// Reads a history, line by line, without holding more than one of them.
///
/// A last line that was cut, as a kill or a power cut may leave it, is passed over; anywhere else
/// it is an error.
///
/// # Errors
///
/// Each item may be one: a line that is no entry is
/// [`ErrorKind::Invalid`](duly::ErrorKind::Invalid) and says which line, and what fails to be
/// read ends the list.
pub fn lines(mut from: impl BufRead) -> impl Iterator<Item = Result<Entry>> {
    let mut number = 0_u64;
    let mut line = Vec::new();
    std::iter::from_fn(move || {
        number += 1;
        line.clear();
        let mut bounded = std::io::Read::take(&mut from, LINE_MAX);
        match bounded.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) => match serde_json::from_slice(&line) {
                Ok(entry) => Some(Ok(entry)),
                Err(_) if line.len() < LINE_MAX as usize && !line.ends_with(b"\n") => None,
                Err(error) => {
                    let text = format!("line {number} of the history is no entry");
                    Some(Err(Error::new(ErrorKind::Invalid, text).because(error)))
                }
            },
            Err(error) => {
                let text = format!("line {number} of the history cannot be read");
                Some(Err(Error::new(ErrorKind::Invalid, text).because(error)))
            }
        }
    })
    .fuse()
}
