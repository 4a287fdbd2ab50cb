//! A key of settings.

use duly_options::queue_option;

use crate::config::raw_value::{RawValue, ValueError};

/// A key: its name, the expected value, and where that goes.
pub(super) struct Key<T> {
    pub(super) name: &'static str,
    expects: &'static str,
    put: fn(&mut T, &RawValue) -> Result<(), ValueError>,
}

impl<T> Key<T> {
    pub(super) const fn new(
        name: &'static str,
        expects: &'static str,
        put: fn(&mut T, &RawValue) -> Result<(), ValueError>,
    ) -> Self {
        Self { name, expects, put }
    }

    /// Returns what a value must be, in words.
    fn expected(&self) -> String {
        let option = queue_option(self.name).filter(|_| self.expects.is_empty());
        option.map_or_else(|| self.expects.to_owned(), |option| option.kind.expects())
    }

    /// Sets it to what was found; `path` is where it stands, for errors.
    pub(super) fn set(
        &self,
        target: &mut T,
        path: impl FnOnce(&str) -> String,
        found: &RawValue,
    ) -> Result<(), String> {
        (self.put)(target, found).map_err(|wrong| {
            let path = path(self.name);
            match wrong {
                ValueError::Kind => format!("{path} is {found}; it must be {}", self.expected()),
                ValueError::Grammar(why) => format!("{path}: {why}"),
            }
        })
    }
}
