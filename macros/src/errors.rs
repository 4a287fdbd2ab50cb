//! A collector of compile errors.

use syn::Error;

/// Collects errors, so that the compiler reports all of them at once.
#[derive(Default)]
pub(crate) struct Errors {
    all: Option<Error>,
}

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.all {
            Some(all) => all.combine(error),
            None => self.all = Some(error),
        }
    }

    /// Returns the value, or `None` after adding the error.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn finish(self) -> syn::Result<()> {
        self.all.map_or(Ok(()), Err)
    }
}
