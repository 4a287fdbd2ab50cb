//! Histories in files.

use duly_conformance::history::{Entry, lines};

use crate::history::kit::good;

#[test]
fn a_history_survives_being_written_and_read() {
    let text: String = good().iter().map(Entry::to_line).collect();
    let read: duly::Result<Vec<_>> = lines(text.as_bytes()).collect();
    assert_eq!(read.expect("entries"), good());
}

#[test]
fn a_cut_last_line_is_passed_over_and_any_other_is_named() {
    let text: String = good().iter().map(Entry::to_line).collect();
    let cut = &text[..text.len() - 20];
    let read: duly::Result<Vec<_>> = lines(cut.as_bytes()).collect();
    assert_eq!(read.expect("entries").len(), good().len() - 1);
    let first = good()[0].to_line();
    let garbled = format!("{first}{{\"at_us\":1}}\n{first}");
    let error = lines(garbled.as_bytes())
        .nth(1)
        .expect("an item")
        .expect_err("no entry");
    assert_eq!(error.to_string(), "line 2 of the history is no entry");
    let endless = vec![b'['; 100_000];
    let error = lines(&endless[..])
        .next()
        .expect("an item")
        .expect_err("no entry");
    assert_eq!(error.kind(), duly::ErrorKind::Invalid);
}
