//! Histories in files.

use duly_conformance::history::{Entry, lines};

use crate::history::kit::good;

#[test]
fn a_history_survives_being_written_and_read() {
    let text: String = good().iter().map(Entry::to_line).collect();
    let read: duly::Result<Vec<_>> = lines(text.as_bytes()).collect();
    assert_eq!(read.expect("entries"), good());
}

/// A kill cuts a write at any byte, and other processes go on with the file.
#[test]
fn a_line_that_was_cut_anywhere_is_skipped() {
    let [first, second] = [good()[0], good()[1]];
    let whole = second.to_line();
    for cut in 0..whole.len() - 1 {
        let text = first.to_line() + &whole[..cut] + &first.to_line();
        let read: duly::Result<Vec<_>> = lines(text.as_bytes()).collect();
        let read = read.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let expected = if cut == whole.trim_end().len() {
            vec![first, second, first]
        } else {
            vec![first, first]
        };
        assert_eq!(read, expected, "cut at {cut}");
    }
}

#[test]
fn what_is_neither_an_entry_nor_its_beginning_is_named() {
    let first = good()[0].to_line();
    let garbled = format!("{first}{{\"at_us\":1}}{first}");
    let error = lines(garbled.as_bytes())
        .nth(1)
        .expect("an item")
        .expect_err("no entry");
    assert_eq!(error.to_string(), "line 3 of the history is no entry");
    let endless = vec![b' '; 100_000];
    let error = lines(&endless[..])
        .next()
        .expect("an item")
        .expect_err("no entry");
    assert_eq!(error.kind(), duly::ErrorKind::Invalid);
}
