//! All mistakes at once.

use syn::Error;

/// Collects mistakes, so that the user reads all of them in one go.
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

    /// The value, or `None` once its mistake is noted.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn finish(self) -> syn::Result<()> {
        self.all.map_or(Ok(()), Err)
    }
}
