//! Parsing of the arguments of `#[delay_event(..)]`.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{
    Error, Meta, Path, Token, Type, ext::IdentExt, parse::Parser, parse_quote,
    punctuated::Punctuated,
};

use crate::{
    backoff::Backoff,
    errors::Errors,
    late::LatePolicy,
    value::{Codec, Isolation, Value},
};

/// A key of the annotation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Queue,
    Buckets,
    Workers,
    Timeout,
    Attempts,
    FreeInterruptions,
    Backoff,
    LatePolicy,
    Spread,
    Ring,
    Linger,
    Isolation,
    Version,
    KeepPayload,
    Codec,
    Encrypt,
    Upgrade,
    Blocking,
    State,
    Register,
    Crate,
}

/// All keys as written, each with an example for messages.
const KEYS: [(Key, &str, &str); 21] = [
    (Key::Queue, "queue", "queue = \"order-close\""),
    (Key::Buckets, "buckets", "buckets = 8"),
    (Key::Workers, "workers", "workers = 16"),
    (Key::Timeout, "timeout", "timeout = \"30s\""),
    (Key::Attempts, "attempts", "attempts = 16"),
    (
        Key::FreeInterruptions,
        "free_interruptions",
        "free_interruptions = 10",
    ),
    (Key::Backoff, "backoff", "backoff = \"exp(1s..10m)\""),
    (Key::LatePolicy, "late", "late = \"expire(5m)\""),
    (Key::Spread, "spread", "spread = \"10s\""),
    (Key::Ring, "ring", "ring = 1024"),
    (Key::Linger, "linger", "linger = \"20us\""),
    (Key::Isolation, "isolation", "isolation = \"dedicated\""),
    (Key::Version, "version", "version = 1"),
    (Key::KeepPayload, "keep_payload", "keep_payload = true"),
    (Key::Codec, "codec", "codec = \"json\""),
    (Key::Encrypt, "encrypt", "encrypt = true"),
    (Key::Upgrade, "upgrade", "upgrade = from_older"),
    (Key::Blocking, "blocking", "blocking"),
    (Key::State, "state", "state(Db, Mailer)"),
    (Key::Register, "register", "register = false"),
    (Key::Crate, "crate", "crate = my::duly"),
];

const DAY: Duration = Duration::from_hours(24);
const WEEK: Duration = Duration::from_hours(7 * 24);

/// The parsed annotation; `None` where a key is missing.
pub(crate) struct Attr {
    pub(crate) queue: Option<String>,
    pub(crate) buckets: Option<u32>,
    pub(crate) workers: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) attempts: Option<u32>,
    pub(crate) free_interruptions: Option<u32>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) late: Option<LatePolicy>,
    pub(crate) spread: Option<Duration>,
    pub(crate) ring: Option<u32>,
    pub(crate) linger: Option<Duration>,
    pub(crate) isolation: Isolation,
    pub(crate) version: Option<u32>,
    pub(crate) keep_payload: Option<bool>,
    pub(crate) codec: Option<Codec>,
    pub(crate) encrypt: Option<bool>,
    /// The function that upgrades a payload of an older version.
    pub(crate) upgrade: Option<Path>,
    pub(crate) blocking: bool,
    pub(crate) states: Vec<Type>,
    pub(crate) register: bool,
    /// The path of the crate `duly`.
    pub(crate) krate: Path,
}

impl Attr {
    /// Parses the arguments; all errors go into `errors`.
    pub(crate) fn parse(args: TokenStream, errors: &mut Errors) -> Self {
        let mut attr = Self::empty();
        let said = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(args);
        let Some(said) = errors.keep(said.map_err(|error| malformed(&error))) else {
            return attr;
        };

        let mut seen = Vec::new();
        for meta in &said {
            let Some((key, name, form)) = errors.keep(known(meta.path())) else {
                continue;
            };
            if seen.contains(&key) {
                let message = format!("`{name}` is given twice, keep one");
                errors.push(Error::new_spanned(meta.path(), message));
                continue;
            }
            seen.push(key);
            errors.keep(attr.read(key, &Value { name, form, meta }));
        }
        if let (Some(upgrade), None | Some(0)) = (&attr.upgrade, attr.version) {
            let message = "`upgrade` is for payloads of older versions, add `version = 1` or more";
            errors.push(Error::new_spanned(upgrade, message));
        }
        if !seen.contains(&Key::Queue) {
            let message = "missing queue name, add `queue = \"...\"`";
            errors.push(Error::new(Span::call_site(), message));
        }
        attr
    }

    fn read(&mut self, key: Key, value: &Value<'_>) -> syn::Result<()> {
        match key {
            Key::Queue => self.queue = Some(value.queue()?),
            Key::Buckets => self.buckets = Some(value.integer(1, 1024)?),
            Key::Workers => self.workers = Some(value.integer(1, 65_536)?),
            Key::Timeout => self.timeout = Some(value.duration_up_to(WEEK)?),
            Key::Attempts => self.attempts = Some(value.integer(1, 1000)?),
            Key::FreeInterruptions => self.free_interruptions = Some(value.integer(0, 15)?),
            Key::Backoff => self.backoff = Some(value.backoff()?),
            Key::LatePolicy => self.late = Some(value.late()?),
            Key::Spread => self.spread = Some(value.duration_up_to(DAY)?),
            Key::Ring => self.ring = Some(value.power_of_two(64, 65_536)?),
            Key::Linger => self.linger = Some(value.duration()?),
            Key::Isolation => self.isolation = value.isolation()?,
            Key::Version => self.version = Some(value.integer(0, u32::MAX)?),
            Key::KeepPayload => self.keep_payload = Some(value.boolean()?),
            Key::Codec => self.codec = Some(value.codec()?),
            Key::Encrypt => self.encrypt = Some(value.boolean()?),
            Key::Upgrade => self.upgrade = Some(value.path()?),
            Key::Blocking => self.blocking = value.flag()?,
            Key::State => self.states = value.types()?,
            Key::Register => self.register = value.boolean()?,
            Key::Crate => self.krate = value.path()?,
        }
        Ok(())
    }

    /// Returns an annotation without keys.
    fn empty() -> Self {
        Self {
            queue: None,
            buckets: None,
            workers: None,
            timeout: None,
            attempts: None,
            free_interruptions: None,
            backoff: None,
            late: None,
            spread: None,
            ring: None,
            linger: None,
            isolation: Isolation::Shared,
            version: None,
            keep_payload: None,
            codec: None,
            encrypt: None,
            upgrade: None,
            blocking: false,
            states: Vec::new(),
            register: true,
            krate: parse_quote!(::duly),
        }
    }
}

/// Adds an example to the parser's error.
fn malformed(error: &Error) -> Error {
    let form = "queue = \"order-close\", workers = 16";
    Error::new(error.span(), format!("{error}, write keys as in `{form}`"))
}

/// Returns the key that `path` names, with its name and its example.
fn known(path: &Path) -> syn::Result<(Key, &'static str, &'static str)> {
    let written = path.get_ident().map(|ident| ident.unraw().to_string());
    if let Some(found) = KEYS
        .into_iter()
        .find(|(_, name, _)| written.as_deref() == Some(name))
    {
        return Ok(found);
    }
    let known = KEYS.map(|(_, name, _)| format!("`{name}`")).join(", ");
    let written = path.to_token_stream().to_string().replace(' ', "");
    let message = format!("unknown key `{written}`, expected one of {known}");
    Err(Error::new_spanned(path, message))
}
