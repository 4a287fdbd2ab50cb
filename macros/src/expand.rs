//! The expansion of the annotation, by the kind of its item.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Item, spanned::Spanned};

use crate::{attr::Attr, errors::Errors, function, structure};

/// Expands the annotation; on errors it emits the unchanged item beside them, so that no further
/// errors follow.
pub(crate) fn expand(args: TokenStream, item: &TokenStream) -> TokenStream {
    try_expand(args, item.clone()).unwrap_or_else(|error| {
        let errors = error.into_compile_error();
        quote! { #item #errors }
    })
}

fn try_expand(args: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let mut errors = Errors::default();
    let attr = Attr::parse(args, &mut errors);
    let tokens = match syn::parse2(item)? {
        Item::Struct(item) => structure::expand(&attr, &item, &mut errors),
        Item::Fn(item) => function::expand(&attr, &item, &mut errors),
        other => {
            errors.push(misplaced(&other));
            TokenStream::new()
        }
    };
    errors.finish()?;
    Ok(tokens)
}

fn misplaced(item: &Item) -> Error {
    let (kind, span) = match item {
        Item::Enum(item) => ("an enum", item.enum_token.span()),
        Item::Union(item) => ("a union", item.union_token.span()),
        Item::Trait(item) => ("a trait", item.trait_token.span()),
        Item::Impl(item) => ("an `impl`", item.impl_token.span()),
        Item::Const(item) => ("a constant", item.const_token.span()),
        Item::Static(item) => ("a static", item.static_token.span()),
        Item::Type(item) => ("a type alias", item.type_token.span()),
        Item::Mod(item) => ("a module", item.mod_token.span()),
        other => ("this item", other.span()),
    };
    Error::new(
        span,
        format!("`#[delay_event]` belongs on a struct or an `async fn`, not on {kind}"),
    )
}
