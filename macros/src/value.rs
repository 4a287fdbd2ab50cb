//! Values of the annotation's keys.

use std::{fmt, time::Duration};

use syn::{
    Error, Expr, ExprLit, Lit, LitInt, LitStr, Meta, Path, Token, Type, punctuated::Punctuated,
};

use crate::{backoff::Backoff, duration, late::LatePolicy};

/// Whether a queue shares the runtime of the bus.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    Shared,
    Dedicated,
}

/// The payload codec.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Json,
    MsgPack,
    Raw,
}

/// A key with its value.
pub(crate) struct Value<'a> {
    pub(crate) name: &'static str,
    /// An example, for messages.
    pub(crate) form: &'static str,
    pub(crate) meta: &'a Meta,
}

impl Value<'_> {
    pub(crate) fn queue(&self) -> syn::Result<String> {
        let text = self.string()?;
        let name = text.value();
        match wrong_name(&name) {
            Some(wrong) => Err(Error::new_spanned(text, wrong)),
            None => Ok(name),
        }
    }

    pub(crate) fn integer(&self, least: u32, most: u32) -> syn::Result<u32> {
        let literal = self.literal_integer()?;
        literal
            .base10_parse()
            .ok()
            .filter(|value| (least..=most).contains(value))
            .ok_or_else(|| self.outside(&literal, format_args!("expected {least} to {most}")))
    }

    pub(crate) fn power_of_two(&self, least: u32, most: u32) -> syn::Result<u32> {
        let literal = self.literal_integer()?;
        literal
            .base10_parse::<u32>()
            .ok()
            .filter(|value| (least..=most).contains(value) && value.is_power_of_two())
            .ok_or_else(|| {
                self.outside(
                    &literal,
                    format_args!("expected a power of two from {least} to {most}"),
                )
            })
    }

    pub(crate) fn duration(&self) -> syn::Result<Duration> {
        let text = self.string()?;
        duration::parse(&text.value()).map_err(|message| Error::new_spanned(text, message))
    }

    /// Parses a duration above zero and at most `most`, which is in whole days.
    pub(crate) fn duration_up_to(&self, most: Duration) -> syn::Result<Duration> {
        let value = self.duration()?;
        if value.is_zero() || value > most {
            let (text, days) = (self.string()?, most.as_secs() / 86_400);
            let (name, value) = (self.name, text.value());
            let message =
                format!("`{name}` is `{value}`, expected more than zero and at most `{days}d`");
            return Err(Error::new_spanned(text, message));
        }
        Ok(value)
    }

    pub(crate) fn backoff(&self) -> syn::Result<Backoff> {
        let text = self.string()?;
        Backoff::parse(&text.value()).map_err(|message| Error::new_spanned(text, message))
    }

    pub(crate) fn late(&self) -> syn::Result<LatePolicy> {
        let text = self.string()?;
        LatePolicy::parse(&text.value()).map_err(|message| Error::new_spanned(text, message))
    }

    pub(crate) fn isolation(&self) -> syn::Result<Isolation> {
        let text = self.string()?;
        match text.value().as_str() {
            "shared" => Ok(Isolation::Shared),
            "dedicated" => Ok(Isolation::Dedicated),
            other => {
                let message =
                    format!("unknown isolation `{other}`, expected `shared` or `dedicated`");
                Err(Error::new_spanned(text, message))
            }
        }
    }

    pub(crate) fn codec(&self) -> syn::Result<Codec> {
        let text = self.string()?;
        match text.value().as_str() {
            "json" => Ok(Codec::Json),
            "msgpack" => Ok(Codec::MsgPack),
            "raw" => Ok(Codec::Raw),
            other => {
                let message =
                    format!("unknown codec `{other}`, expected `json`, `msgpack` or `raw`");
                Err(Error::new_spanned(text, message))
            }
        }
    }

    pub(crate) fn flag(&self) -> syn::Result<bool> {
        match self.meta {
            Meta::Path(_) => Ok(true),
            Meta::NameValue(_) | Meta::List(_) => {
                let message = format!("`{}` takes no value, write it alone", self.name);
                Err(Error::new_spanned(self.meta, message))
            }
        }
    }

    pub(crate) fn boolean(&self) -> syn::Result<bool> {
        match self.literal() {
            Some(Lit::Bool(value)) => Ok(value.value),
            _ => Err(self.expected("`true` or `false`")),
        }
    }

    pub(crate) fn path(&self) -> syn::Result<Path> {
        match self.expr() {
            Some(Expr::Path(path)) if path.qself.is_none() => Ok(path.path.clone()),
            _ => Err(self.expected("a path")),
        }
    }

    pub(crate) fn types(&self) -> syn::Result<Vec<Type>> {
        let Meta::List(list) = self.meta else {
            return Err(self.expected("types in parentheses"));
        };
        let types = list.parse_args_with(Punctuated::<Type, Token![,]>::parse_terminated)?;
        if types.is_empty() {
            return Err(self.expected("at least one type"));
        }
        Ok(types.into_iter().collect())
    }

    fn string(&self) -> syn::Result<LitStr> {
        match self.literal() {
            Some(Lit::Str(text)) if text.suffix().is_empty() => Ok(text.clone()),
            _ => Err(self.expected("a string")),
        }
    }

    fn literal_integer(&self) -> syn::Result<LitInt> {
        match self.literal() {
            Some(Lit::Int(value)) if value.suffix().is_empty() => Ok(value.clone()),
            _ => Err(self.expected("an integer")),
        }
    }

    fn literal(&self) -> Option<&Lit> {
        match self.expr()? {
            Expr::Lit(ExprLit { lit, .. }) => Some(lit),
            _ => None,
        }
    }

    /// Returns the value after `=`; a macro that passes a value on wraps it into invisible groups.
    fn expr(&self) -> Option<&Expr> {
        let Meta::NameValue(pair) = self.meta else {
            return None;
        };
        let mut expr = &pair.value;
        while let Expr::Group(group) = expr {
            expr = &group.expr;
        }
        Some(expr)
    }

    /// Returns the error for a value of the wrong kind.
    fn expected(&self, kind: &str) -> Error {
        let message = format!("expected {kind}, as in `{}`", self.form);
        match self.meta {
            Meta::NameValue(pair) => Error::new_spanned(&pair.value, message),
            Meta::Path(_) | Meta::List(_) => Error::new_spanned(self.meta, message),
        }
    }

    /// Returns the error for a value outside its bounds.
    fn outside(&self, literal: &LitInt, bounds: fmt::Arguments<'_>) -> Error {
        let message = format!("`{}` is {}, {bounds}", self.name, literal.base10_digits());
        Error::new_spanned(literal, message)
    }
}

/// Returns what is wrong with a queue name, if anything.
fn wrong_name(name: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() {
        return Some("queue name is empty, write 1 to 512 characters".to_owned());
    }
    if let Some(wrong) = name.chars().find(|c| !legal(*c)) {
        return Some(format!(
            "queue name `{name}` contains `{wrong}`, use letters, digits, `.`, `_` and `-`"
        ));
    }
    if name.starts_with('.') {
        return Some(format!(
            "queue name `{name}` starts with `.`, start with another character"
        ));
    }
    (name.len() > 512).then(|| {
        format!(
            "queue name has {} characters, at most 512 are allowed",
            name.len()
        )
    })
}
