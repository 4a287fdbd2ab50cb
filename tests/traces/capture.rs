//! A subscriber that writes down every span and every line of the log.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// A span or a line, as it was when its span ended or it was written.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) name: &'static str,
    pub(crate) target: String,
    pub(crate) level: Level,
    pub(crate) fields: BTreeMap<&'static str, String>,
    /// The fields that its call site has, whether they had values or not.
    pub(crate) declared: Vec<&'static str>,
    /// The span that it lies in.
    pub(crate) within: Option<&'static str>,
}

impl Heard {
    pub(crate) fn field(&self, name: &str) -> &str {
        let value = self.fields.get(name).map(String::as_str);
        value.unwrap_or_else(|| panic!("no field `{name}` in {self:?}"))
    }
}

#[derive(Default)]
struct Book {
    open: Vec<(Id, Heard)>,
    spans: Vec<Heard>,
    lines: Vec<Heard>,
}

/// Hears what happens on this thread for as long as it lives.
pub(crate) struct Capture {
    book: Arc<Mutex<Book>>,
    pub(crate) dispatch: Dispatch,
    _heard_here: DefaultGuard,
    /// Where there is one subscriber only, what another thread reaches first, which has none, is
    /// off for everybody.
    _second: Dispatch,
}

impl Capture {
    /// Hears whatever is of this level or a higher one.
    pub(crate) fn at(level: Level) -> Self {
        let book = Arc::<Mutex<Book>>::default();
        let listener = Listener(Arc::clone(&book), level);
        let second = Dispatch::new(NoSubscriber::default());
        let dispatch = Dispatch::new(Registry::default().with(listener));
        Self {
            book,
            _heard_here: tracing::dispatcher::set_default(&dispatch),
            _second: second,
            dispatch,
        }
    }

    pub(crate) fn everything() -> Self {
        Self::at(Level::TRACE)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every span of this name that has ended.
    pub(crate) fn spans(&self, name: &str) -> Vec<Heard> {
        let book = self.book();
        let spans = book.spans.iter().filter(|span| span.name == name);
        spans.cloned().collect()
    }

    /// Every line of this target.
    pub(crate) fn lines(&self, target: &str) -> Vec<Heard> {
        let book = self.book();
        let lines = book.lines.iter().filter(|line| line.target == target);
        lines.cloned().collect()
    }

    /// All that was heard.
    pub(crate) fn all(&self) -> Vec<Heard> {
        let book = self.book();
        let open = book.open.iter().map(|(_, span)| span);
        let ended = book.spans.iter().chain(&book.lines);
        open.chain(ended).cloned().collect()
    }
}

struct Listener(Arc<Mutex<Book>>, Level);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Listener {
    /// Asked each time: tests come and go on threads of one process, and what is remembered of one
    /// must not keep another from hearing.
    fn register_callsite(&self, _metadata: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _cx: Context<'_, S>) -> bool {
        *metadata.level() <= self.1
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let within = cx
            .span(id)
            .and_then(|span| span.parent())
            .map(|up| up.name());
        let mut heard = heard(attributes.metadata(), within);
        attributes.record(&mut Values(&mut heard.fields));
        self.book().open.push((id.clone(), heard));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _cx: Context<'_, S>) {
        let mut book = self.book();
        let known = book.open.iter_mut().find(|(known, _)| known == id);
        let (_, heard) = known.expect("a span that was begun");
        values.record(&mut Values(&mut heard.fields));
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let within = cx.event_span(event).map(|span| span.name());
        let mut heard = heard(event.metadata(), within);
        event.record(&mut Values(&mut heard.fields));
        self.book().lines.push(heard);
    }

    fn on_close(&self, id: Id, _cx: Context<'_, S>) {
        let mut book = self.book();
        let at = book.open.iter().position(|(known, _)| *known == id);
        let (_, heard) = book.open.remove(at.expect("a span that was begun"));
        book.spans.push(heard);
    }
}

impl Listener {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn heard(metadata: &'static Metadata<'static>, within: Option<&'static str>) -> Heard {
    Heard {
        name: metadata.name(),
        target: metadata.target().to_owned(),
        level: *metadata.level(),
        fields: BTreeMap::new(),
        declared: metadata.fields().iter().map(|field| field.name()).collect(),
        within,
    }
}

struct Values<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Values<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
