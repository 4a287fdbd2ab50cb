//! Names in generated code: those that cannot clash, and where messages show them.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::{Ident, Path};

/// Returns a variable name that cannot clash with the user's code.
pub(crate) fn private(name: &str) -> Ident {
    private_at(Span::call_site(), name)
}

/// Returns the same name, located at `span` in messages.
pub(crate) fn private_at(span: Span, name: &str) -> Ident {
    format_ident!("__duly_{name}", span = Span::mixed_site().located_at(span))
}

/// Returns the same path, resolved as before but located at `span` in messages.
pub(crate) fn shown_at(span: Span, path: &Path) -> TokenStream {
    let token = |mut token: TokenTree| {
        token.set_span(token.span().located_at(span));
        token
    };
    path.to_token_stream().into_iter().map(token).collect()
}
