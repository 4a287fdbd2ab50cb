//! `#[delay_event]` on a function: a unit struct of its name whose handler calls the function.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, Generics, ItemFn, ReturnType, spanned::Spanned};

use crate::{attr::Attr, errors::Errors, expand, signature};

pub(crate) fn expand(attr: &Attr, item: &ItemFn, errors: &mut Errors) -> TokenStream {
    let arguments = signature::read(attr, &item.sig, errors);
    let (ident, vis) = (&item.sig.ident, &item.vis);

    let said = item.attrs.iter().filter(|attribute| is_of_type(attribute));
    let states = [attr.states.as_slice(), &arguments.states].concat();
    let annotated = expand::annotated(attr, ident, &Generics::default(), &states);
    let handler = handler(attr, item, &arguments);
    let registered = attr
        .register
        .then(|| expand::registered(attr, ident, &quote! { Self {} }));
    quote! {
        #(#said)*
        #[allow(non_camel_case_types)]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        #vis struct #ident;
        #annotated
        #handler
        #registered
    }
}

/// The handler, with the function inside: its body sees what it saw where it stood.
fn handler(attr: &Attr, item: &ItemFn, arguments: &signature::Arguments) -> TokenStream {
    let (krate, ident, sig, block) = (&attr.krate, &item.sig.ident, &item.sig, &item.block);
    let signature::Arguments {
        payload, passed, ..
    } = arguments;
    let kept = item
        .attrs
        .iter()
        .filter(|attribute| is_of_function(attribute));
    let (kind, dot_await) = if attr.blocking {
        (quote! { BlockingHandler }, TokenStream::new())
    } else {
        (quote! { Handler }, quote! { .await })
    };
    // Everything after the event comes from the context. An `allow` here would reach the body.
    let cx = if passed.len() > 1 {
        quote! { cx }
    } else {
        quote! { _ }
    };
    // A future that is not `Send` is shown at the name, a wrong result where it is returned.
    let name = Span::call_site().located_at(ident.span());
    let asyncness = (!attr.blocking).then(|| quote_spanned! { name => async });
    let head = quote_spanned! { name => #asyncness fn handle };
    let tail = quote_spanned! { name =>
        -> ::core::result::Result<(), #krate::__private::Failure>
    };
    let output = match &sig.output {
        ReturnType::Default => sig.output.span(),
        ReturnType::Type(_, ty) => ty.span(),
    };
    let found = signature::shown_at(output, krate);
    let returned = quote_spanned! { output => #found::__private::returned(returned) };
    quote! {
        impl #krate::__private::#kind for #ident {
            type Payload = #payload;

            #head(
                &self,
                event: #krate::__private::Event<#payload>,
                #cx: &#krate::__private::Context,
            ) #tail {
                #(#kept)*
                #[allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, clippy::unused_async)]
                #sig #block

                let returned = #ident(#(#passed),*) #dot_await;
                #returned
            }
        }
    }
}

/// Whether the attribute speaks of the type that the function becomes.
fn is_of_type(attribute: &Attribute) -> bool {
    is_one_of(attribute, &["doc", "deprecated"]) || is_lint_level(attribute)
}

/// Whether the attribute stays with the function.
fn is_of_function(attribute: &Attribute) -> bool {
    !is_one_of(attribute, &["doc", "deprecated"])
}

/// Lint levels hold for both; `expect` would be left without its warning on one of them.
fn is_lint_level(attribute: &Attribute) -> bool {
    is_one_of(attribute, &["allow", "warn", "deny", "forbid"])
}

fn is_one_of(attribute: &Attribute, names: &[&str]) -> bool {
    names.iter().any(|name| attribute.path().is_ident(name))
}
