//! The promises that are checked are those of the guide.

use duly_conformance::history::Promise;

/// The guide to the mechanisms, by sections.
const GUIDE: &str = include_str!("../../src/docs/mechanisms.md");

#[test]
fn the_guide_says_each_promise_in_bold_and_names_a_test_that_holds_it() {
    for promise in Promise::ALL {
        let title = format!("### {}. {}", promise.number(), promise.title());
        let is_title = |line: &&str| line.eq_ignore_ascii_case(&title);
        assert!(
            GUIDE.lines().any(|line| is_title(&line)),
            "no section {title:?}"
        );
        let after = GUIDE.lines().skip_while(|line| !is_title(line)).skip(1);
        let section: Vec<_> = after.take_while(|line| !line.starts_with('#')).collect();
        let is_bold = section.iter().any(|line| line.starts_with("**"));
        assert!(is_bold, "{title:?} has no sentence in bold");
        let mut held = section
            .iter()
            .filter(|line| line.starts_with("Held by `tests/"));
        assert!(held.next().is_some(), "{title:?} names no test");
    }
}
