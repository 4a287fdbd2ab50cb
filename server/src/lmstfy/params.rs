//! Query parameters: strict decimal numbers, and the first of repeated ones.

use std::str::FromStr;

use super::{ApiError, Result};

/// The parameters of a request.
#[derive(Debug)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    pub(super) fn new(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// Returns the first value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut pairs = self.0.iter();
        let pair = pairs.find(|(key, _)| key == name);
        pair.map(|(_, value)| value.as_str())
    }

    /// Returns all names, also those without a value.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// Returns a number: digits only, within its type. Present but empty is an error.
    pub(super) fn number<N: FromStr>(&self, name: &str, default: N) -> Result<N> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        number(text).ok_or_else(|| ApiError::bad(format!("invalid {name}")))
    }
}

/// Parses digits, without a sign.
pub(super) fn number<N: FromStr>(text: &str) -> Option<N> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_digits_only() {
        for wrong in [
            "",
            "+1",
            "-1",
            " 1",
            "1.0",
            "1e3",
            "0x1",
            "1_000",
            "4294967296",
            "1s",
        ] {
            assert_eq!(number::<u32>(wrong), None, "{wrong}");
        }
        assert_eq!(number("007"), Some(7_u32));
        assert_eq!(number("4294967295"), Some(u32::MAX));
    }

    #[test]
    fn the_first_of_repeated_ones_wins() {
        let params = Params::new(Some("delay=1&delay=x&other=2"));
        assert_eq!(params.number("delay", 0_u32).ok(), Some(1));
    }
}
