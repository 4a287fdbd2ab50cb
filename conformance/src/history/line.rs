//! The text form of entries: JSON lines.

use std::io::BufRead;

use super::entry::Entry;
use duly::{Error, ErrorKind, Result};

/// The limit of a line's length, in bytes; entries are far shorter.
const LINE_MAX: u64 = 4_096;

impl Entry {
    /// Returns the entry as a line of JSON between two line ends, to be appended by one write.
    /// The first line end separates it from the partial line that a killed process may have left: a
    /// kill cuts a write where a page of the file ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly_conformance::history::{Entry, EntryKind, lines};
    ///
    /// let entry = Entry { at_us: 7, store_us: 9, id: None, what: EntryKind::Healed };
    /// let line = entry.to_line();
    /// assert_eq!(line, "\n{\"at_us\":7,\"store_us\":9,\"what\":\"healed\"}\n");
    /// assert_eq!(lines(line.as_bytes()).next().unwrap()?, entry);
    /// # Ok::<(), duly::Error>(())
    /// ```
    #[must_use]
    pub fn to_line(&self) -> String {
        // Numbers, texts and ids: an entry can always be written as JSON.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("\n{json}\n")
    }
}

/// Reads a history, line by line, without buffering more than one.
///
/// Empty lines are skipped, and so is a truncated line, as a kill or a power cut leaves it.
///
/// # Errors
///
/// Each item may be one: a line that is neither an entry nor the beginning of one is
/// [`ErrorKind::Invalid`](duly::ErrorKind::Invalid) with its number, and so is a failed read.
pub fn lines(mut from: impl BufRead) -> impl Iterator<Item = Result<Entry>> {
    let mut number = 0_u64;
    let mut line = Vec::new();
    std::iter::from_fn(move || {
        loop {
            number += 1;
            line.clear();
            let mut bounded = std::io::Read::take(&mut from, LINE_MAX);
            let fault = match bounded.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) => match serde_json::from_slice(line.trim_ascii_end()) {
                    Ok(entry) => return Some(Ok(entry)),
                    // Serde's category for a truncated value; an empty line is one, too.
                    Err(error) if error.is_eof() && line.len() < LINE_MAX as usize => continue,
                    Err(error) => {
                        let text = format!("line {number} of the history is no entry");
                        Error::new(ErrorKind::Invalid, text).because(error)
                    }
                },
                Err(error) => {
                    let text = format!("line {number} of the history cannot be read");
                    Error::new(ErrorKind::Invalid, text).because(error)
                }
            };
            return Some(Err(fault));
        }
    })
    .fuse()
}
