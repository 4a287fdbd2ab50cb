//! Code generation from annotation and item.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Error, Generics, Ident, Item, spanned::Spanned};

use crate::{attr::Attr, errors::Errors, function, signature, structure};

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

/// Returns a variable name that cannot clash with the user's code.
pub(crate) fn private(name: &str) -> Ident {
    private_at(Span::call_site(), name)
}

/// Returns the same name, located at `span` in messages.
pub(crate) fn private_at(span: Span, name: &str) -> Ident {
    format_ident!("__duly_{name}", span = Span::mixed_site().located_at(span))
}

/// Generates `impl Annotated`, with the annotation as a constant; `states` includes those of
/// arguments.
pub(crate) fn annotated(
    attr: &Attr,
    ident: &Ident,
    generics: &Generics,
    states: &[syn::Type],
) -> TokenStream {
    let (krate, queue) = (&attr.krate, &attr.queue);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let options = &attr.options;
    let schedule = attr.schedule.as_ref().map(|when| {
        let options = &attr.of_schedule;
        quote! {
            .schedule(#krate::__private::AnnotatedSchedule::new(#when) #(#options)*)
        }
    });
    let blocking = attr.blocking.then(|| quote! { .blocking() });
    let role = format_ident!(
        "{}",
        if attr.blocking {
            "BlockingHandler"
        } else {
            "Handler"
        }
    );
    let states = (!states.is_empty()).then(|| {
        quote! { .states(const { &[#(#krate::__private::StateRequirement::of::<#states>()),*] }) }
    });
    let upgrade = attr.upgrade.as_ref().map(|function| {
        // An error about a function of another type points to its name.
        let span = Span::call_site().located_at(function.span());
        let found = signature::shown_at(function.span(), krate);
        let old = private_at(function.span(), "old");
        let call = quote_spanned! { span =>
            #found::__private::upgraded::<Self::Value, _>(#function(#old))
        };
        quote! {
            const UPGRADE: ::core::option::Option<#krate::__private::Upgrade<Self::Value>> =
                ::core::option::Option::Some(#krate::__private::Upgrade::new(
                    |#old: #krate::__private::OldPayload<'_>| #call,
                ));
        }
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics #krate::__private::Annotated for #ident #ty_generics #where_clause {
            type Value = <Self as #krate::__private::#role>::Payload;
            const ANNOTATION: #krate::__private::Annotation =
                #krate::__private::Annotation::new(#queue) #(#options)* #schedule #blocking #states;
            #upgrade
        }
    }
}

/// Generates the registration, by which the bus finds the handler, and its constructor.
pub(crate) fn registered(attr: &Attr, ident: &Ident, made: &TokenStream) -> TokenStream {
    let krate = &attr.krate;
    let kind = if attr.blocking {
        quote! { blocking }
    } else {
        quote! { of }
    };
    quote! {
        #[automatically_derived]
        impl #krate::__private::Construct for #ident {
            fn construct() -> Self {
                #made
            }
        }

        #krate::__private::inventory::submit! {
            #krate::__private::Registration::#kind::<#ident>()
        }
    }
}
