//! Parsing of the arguments of `#[delay_event(..)]`.

use duly_options::{Kind, QUEUE_OPTIONS, QueueOption};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{
    Error, Meta, Path, Token, Type, ext::IdentExt, parse::Parser, parse_quote,
    punctuated::Punctuated,
};

use crate::{errors::Errors, value::Value};

/// A key of the annotation.
#[derive(Clone, Copy)]
enum Key {
    Queue,
    /// An option of the queue.
    Option(&'static QueueOption),
    Upgrade,
    Blocking,
    State,
    Register,
    /// When the queue's schedule recurs: an expression, or an interval alone.
    Schedule {
        is_interval: bool,
    },
    /// An option of the schedule.
    OfSchedule,
    Crate,
}

/// The keys that are no options of a queue, each with an example for messages.
const HANDLER_KEYS: [(Key, &str, &str); 14] = [
    (Key::Queue, "queue", "queue = \"order-close\""),
    (Key::Upgrade, "upgrade", "upgrade = from_older"),
    (Key::Blocking, "blocking", "blocking"),
    (Key::State, "state", "state(Db, Mailer)"),
    (Key::Register, "register", "register = false"),
    (
        Key::Schedule { is_interval: false },
        "schedule",
        "schedule = \"0 9 * * MON-FRI Europe/Berlin\"",
    ),
    (
        Key::Schedule { is_interval: true },
        "every",
        "every = \"15m\"",
    ),
    (Key::OfSchedule, "payload", "payload = \"{}\""),
    (Key::OfSchedule, "missed", "missed = \"once\""),
    (Key::OfSchedule, "overlap", "overlap = \"skip\""),
    (Key::OfSchedule, "jitter", "jitter = \"30s\""),
    (Key::OfSchedule, "exclude", "exclude = \"holidays\""),
    (Key::OfSchedule, "only", "only = \"trading-days\""),
    (Key::Crate, "crate", "crate = my::duly"),
];

/// The parsed annotation; `None` where a key is missing.
pub(crate) struct Attr {
    pub(crate) queue: Option<String>,
    /// A call of a setter for each option of the queue, in the order of the keys.
    pub(crate) options: Vec<TokenStream>,
    /// The function that upgrades a payload of an older version.
    pub(crate) upgrade: Option<Path>,
    pub(crate) blocking: bool,
    pub(crate) states: Vec<Type>,
    pub(crate) register: bool,
    /// When the queue's schedule recurs.
    pub(crate) schedule: Option<String>,
    /// A call of a setter for each of its options.
    pub(crate) of_schedule: Vec<TokenStream>,
    /// The path of the crate `duly`.
    pub(crate) krate: Path,
}

impl Attr {
    /// Parses the arguments; all errors go into `errors`.
    pub(crate) fn parse(args: TokenStream, errors: &mut Errors) -> Self {
        let mut attr = Self {
            queue: None,
            options: Vec::new(),
            upgrade: None,
            blocking: false,
            states: Vec::new(),
            register: true,
            schedule: None,
            of_schedule: Vec::new(),
            krate: parse_quote!(::duly),
        };
        let metas = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(args);
        let Some(metas) = errors.keep(metas.map_err(|error| malformed(&error))) else {
            return attr;
        };

        // Values of options name it, wherever it stands.
        let of_crate = metas.iter().find(|meta| meta.path().is_ident("crate"));
        let of_crate = of_crate.and_then(|meta| {
            let (name, form) = ("crate", "");
            Value { name, form, meta }.path().ok()
        });
        attr.krate = of_crate.unwrap_or(attr.krate);

        let (mut seen, mut has_version) = (Vec::new(), false);
        for meta in &metas {
            let Some((key, name, form)) = errors.keep(known(meta.path())) else {
                continue;
            };
            if seen.contains(&name) {
                let message = format!("`{name}` is given twice, keep one");
                errors.push(Error::new_spanned(meta.path(), message));
                continue;
            }
            seen.push(name);
            let value = Value { name, form, meta };
            has_version |= name == "version" && !value.is_zero();
            errors.keep(attr.read(key, &value));
        }
        if let (Some(upgrade), false) = (&attr.upgrade, has_version) {
            let message = "`upgrade` is for payloads of older versions, add `version = 1` or more";
            errors.push(Error::new_spanned(upgrade, message));
        }
        if let (None, Some(name)) = (&attr.schedule, of_schedule(&seen)) {
            let message = format!(
                "`{name}` is of a schedule, add `schedule = \"0 9 * * MON-FRI Europe/Berlin\"` or \
                 `every = \"15m\"`"
            );
            errors.push(Error::new(Span::call_site(), message));
        }
        if !seen.contains(&"queue") {
            let message = "missing queue name, add `queue = \"...\"`";
            errors.push(Error::new(Span::call_site(), message));
        }
        attr
    }

    fn read(&mut self, key: Key, value: &Value<'_>) -> syn::Result<()> {
        match key {
            Key::Queue => self.queue = Some(value.queue()?),
            Key::Upgrade => self.upgrade = Some(value.path()?),
            Key::Blocking => self.blocking = value.flag()?,
            Key::State => self.states = value.types()?,
            Key::Register => self.register = value.boolean()?,
            Key::Crate => self.krate = value.path()?,
            Key::Schedule { is_interval } => {
                let text = value.string()?;
                if self.schedule.is_some() {
                    let message = "`schedule` and `every` both say when, keep one";
                    return Err(Error::new_spanned(text, message));
                }
                let when = text.value();
                self.schedule = Some(if is_interval {
                    format!("every {when}")
                } else {
                    when
                });
            }
            Key::OfSchedule => {
                let (setter, text) = (format_ident!("{}", value.name), value.string()?);
                self.of_schedule.push(quote! { .#setter(#text) });
            }
            Key::Option(option) => {
                let kind = match (option.name, option.kind) {
                    // None would pause the queue, for which there are settings.
                    ("workers", Kind::Number(0, most)) => Kind::Number(1, most),
                    (_, kind) => kind,
                };
                let setter = format_ident!("{}", option.name);
                let value = value.option(kind, &self.krate)?;
                self.options.push(quote! { .#setter(#value) });
            }
        }
        Ok(())
    }
}

/// Returns a key that only a schedule has, if one is given.
fn of_schedule(seen: &[&'static str]) -> Option<&'static str> {
    let is_one = |name: &&str| {
        let mut keys = HANDLER_KEYS.iter();
        keys.any(|(key, known, _)| matches!(key, Key::OfSchedule) && known == name)
    };
    seen.iter().copied().find(|name| is_one(name))
}

/// Adds an example to the parser's error.
fn malformed(error: &Error) -> Error {
    let form = "queue = \"order-close\", workers = 16";
    Error::new(error.span(), format!("{error}, write keys as in `{form}`"))
}

/// Returns every key with its name and its example.
fn keys() -> impl Iterator<Item = (Key, &'static str, &'static str)> {
    let [queue, rest @ ..] = HANDLER_KEYS;
    let options = QUEUE_OPTIONS.iter();
    let options = options.map(|option| (Key::Option(option), option.name, option.example));
    [queue].into_iter().chain(options).chain(rest)
}

/// Returns the key that `path` names, with its name and its example.
fn known(path: &Path) -> syn::Result<(Key, &'static str, &'static str)> {
    let written = path.get_ident().map(|ident| ident.unraw().to_string());
    if let Some(found) = keys().find(|(_, name, _)| written.as_deref() == Some(name)) {
        return Ok(found);
    }
    let known: Vec<String> = keys().map(|(_, name, _)| format!("`{name}`")).collect();
    let known = known.join(", ");
    let written = path.to_token_stream().to_string().replace(' ', "");
    let message = format!("unknown key `{written}`, expected one of {known}");
    Err(Error::new_spanned(path, message))
}
