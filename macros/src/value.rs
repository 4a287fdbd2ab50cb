//! Values of the annotation's keys.

use std::time::Duration;

use duly_options::backoff::{Backoff, Shape};
use duly_options::late::{self, Late};
use duly_options::{Kind, Measure, duration, rate};
use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::{
    Error, Expr, ExprLit, Lit, LitInt, LitStr, Meta, Path, Token, Type, punctuated::Punctuated,
};

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

    /// Returns the value of an option of a queue, as code.
    pub(crate) fn option(&self, kind: Kind, krate: &Path) -> syn::Result<TokenStream> {
        match kind {
            Kind::Number(..) | Kind::PowerOfTwo(..) => {
                let literal = self.literal_integer()?;
                let number = literal.base10_parse().ok();
                let number = number.filter(|number| kind.allows(Measure::Number(*number)));
                let Some(number) = number else {
                    let (name, given) = (self.name, literal.base10_digits());
                    let message = format!("`{name}` is {given}, expected {}", kind.bounds());
                    return Err(Error::new_spanned(literal, message));
                };
                let number = Literal::u64_unsuffixed(number);
                Ok(quote! { #number })
            }
            Kind::Span(..) => {
                let text = self.string()?;
                let span = parsed(&text, duration::parse)?;
                if !kind.allows(Measure::Duration(span)) {
                    let (name, given, bounds) = (self.name, text.value(), kind.bounds());
                    let message = format!("`{name}` is `{given}`, expected {bounds}");
                    return Err(Error::new_spanned(text, message));
                }
                Ok(duration_code(span))
            }
            Kind::Backoff => {
                if let Ok(function) = self.path() {
                    return Ok(quote! { #krate::__private::RetryPolicy::function(#function) });
                }
                let Ok(text) = self.string() else {
                    return Err(self.expected("a string or the path of a function"));
                };
                Ok(backoff_code(parsed(&text, Backoff::parse)?, krate))
            }
            Kind::Late => {
                let text = self.string()?;
                match parsed(&text, late::parse)? {
                    Some(late) => Ok(late_code(late, krate)),
                    None => {
                        let (given, expected) = (text.value(), late::EXPECTED);
                        let message = format!("unknown late policy `{given}`, expected {expected}");
                        Err(Error::new_spanned(text, message))
                    }
                }
            }
            Kind::Rate => {
                let text = self.string()?;
                let per_second = parsed(&text, rate::parse)?;
                if !kind.allows(Measure::Rate(per_second)) {
                    let (name, given, bounds) = (self.name, text.value(), kind.bounds());
                    let message = format!("`{name}` is `{given}`, expected {bounds}");
                    return Err(Error::new_spanned(text, message));
                }
                let per_second = Literal::f64_unsuffixed(per_second);
                Ok(quote! { #per_second })
            }
            Kind::Flag => {
                let value = self.boolean()?;
                Ok(quote! { #value })
            }
            Kind::Codec => {
                let text = self.string()?;
                let codec = match text.value().as_str() {
                    "json" => quote! { Json },
                    "msgpack" => quote! { MsgPack },
                    "raw" => quote! { Raw },
                    other => {
                        let message =
                            format!("unknown codec `{other}`, expected {}", kind.expects());
                        return Err(Error::new_spanned(text, message));
                    }
                };
                Ok(quote! { #krate::__private::Codec::#codec })
            }
        }
    }

    /// Returns whether it is the number 0.
    pub(crate) fn is_zero(&self) -> bool {
        let literal = self.literal_integer();
        literal.is_ok_and(|literal| literal.base10_digits() == "0")
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

    pub(crate) fn string(&self) -> syn::Result<LitStr> {
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
}

/// Parses a text; an error points to it.
fn parsed<T, E: ToString>(text: &LitStr, parse: impl Fn(&str) -> Result<T, E>) -> syn::Result<T> {
    parse(&text.value()).map_err(|error| Error::new_spanned(text, error.to_string()))
}

fn duration_code(value: Duration) -> TokenStream {
    let secs = Literal::u64_unsuffixed(value.as_secs());
    let nanos = Literal::u32_unsuffixed(value.subsec_nanos());
    quote! { ::core::time::Duration::new(#secs, #nanos) }
}

fn late_code(late: Late, krate: &Path) -> TokenStream {
    let policy = match late {
        Late::Deliver => quote! { Deliver },
        Late::Expire(limit) => {
            let limit = duration_code(limit);
            quote! { Expire(#limit) }
        }
        Late::Bury(limit) => {
            let limit = duration_code(limit);
            quote! { Bury(#limit) }
        }
    };
    quote! { #krate::__private::LatePolicy::#policy }
}

fn backoff_code(backoff: Backoff, krate: &Path) -> TokenStream {
    let shape = match backoff.shape {
        Shape::Fixed(delay) => {
            let delay = duration_code(delay);
            quote! { fixed(#delay) }
        }
        Shape::Linear { step, max } => {
            let (step, max) = (duration_code(step), duration_code(max));
            quote! { linear(#step, #max) }
        }
        Shape::Exponential { first, max } => {
            let (first, max) = (duration_code(first), duration_code(max));
            quote! { exponential(#first, #max) }
        }
        Shape::Steps(steps) => {
            let delays = steps.listed().iter().map(|delay| duration_code(*delay));
            quote! { steps([#(#delays),*]) }
        }
    };
    let jitter = (backoff.jitter_percent > 0).then(|| {
        let percent = Literal::u8_unsuffixed(backoff.jitter_percent);
        quote! { .jitter(#percent) }
    });
    quote! { #krate::__private::RetryPolicy::#shape #jitter }
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
