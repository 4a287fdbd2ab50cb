//! The lines of a log, in a list.

use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Keeps the lines that are no `debug`.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    /// All so far.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// All so far, which are gone then.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, line: &Event<'_>, _: Context<'_, S>) {
        if *line.metadata().level() <= Level::INFO {
            let mut words = Words(line.metadata().target().to_owned());
            line.record(&mut words);
            self.0.lock().unwrap().push(words.0);
        }
    }
}
