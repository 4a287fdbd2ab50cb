//! The text of an error, with its causes.

use std::error::Error;

/// Returns the text, and a line for each cause that it does not contain.
pub fn with_causes(text: String, error: &dyn Error) -> String {
    let mut text = text;
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str("\n  because: ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::with_causes;

    #[test]
    fn a_cause_that_was_said_is_not_said_again() {
        let of = duly::Error::new;
        let kind = duly::ErrorKind::Invalid;
        let cause = of(kind, "no such file").because(of(kind, "a name is wrong"));
        let error = of(kind, "it does not start: no such file").because(cause);
        assert_eq!(
            with_causes(error.to_string(), &error),
            "it does not start: no such file\n  because: a name is wrong"
        );
    }
}
