//! `#[delay_event]` on a function: emits the function unchanged, and a type of the same name that
//! calls it.
//!
//! A struct with braces only takes the name among types, so that the function keeps its own among
//! values and can be called as before.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, Generics, ItemFn, ReturnType, spanned::Spanned};

use crate::{attr::Attr, errors::Errors, generated, names, signature};

pub(crate) fn expand(attr: &Attr, item: &ItemFn, errors: &mut Errors) -> TokenStream {
    let arguments = signature::read(attr, &item.sig, errors);
    let (ident, vis, sig, block) = (&item.sig.ident, &item.vis, &item.sig, &item.block);

    let said = item.attrs.iter().filter(|attribute| is_of_type(attribute));
    let kept = &item.attrs;
    let states = [attr.states.as_slice(), &arguments.states].concat();
    let annotated = generated::annotated(attr, ident, &Generics::default(), &states);
    let handler = handler(attr, item, &arguments);
    let registered = attr
        .register
        .then(|| generated::registered(attr, ident, &quote! { Self {} }));
    // A registration elsewhere cannot be seen here.
    let unused = (!attr.register).then(|| quote! { #[allow(dead_code)] });
    quote! {
        #(#said)*
        #[allow(non_camel_case_types)]
        #[derive(
            ::core::clone::Clone,
            ::core::marker::Copy,
            ::core::fmt::Debug,
            ::core::default::Default,
        )]
        #vis struct #ident {}

        #(#kept)*
        #unused
        #[allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, clippy::unused_async)]
        #vis #sig #block

        #annotated
        #handler
        #registered
    }
}

/// Generates the handler, which calls the function.
fn handler(attr: &Attr, item: &ItemFn, arguments: &signature::Arguments) -> TokenStream {
    let (krate, ident, sig) = (&attr.krate, &item.sig.ident, &item.sig);
    let signature::Arguments {
        payload, passed, ..
    } = arguments;
    let (kind, dot_await) = if attr.blocking {
        (quote! { BlockingHandler }, TokenStream::new())
    } else {
        (quote! { Handler }, quote! { .await })
    };
    // Names that cannot clash with the user's code.
    let [event, cx, returned] = ["event", "cx", "returned"].map(names::private);
    // Everything after the event comes from the context.
    let cx = if passed.len() > 1 {
        quote! { #cx }
    } else {
        quote! { _ }
    };
    // An error about a future that is not `Send` points to the name, one about a wrong result to
    // the return type.
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
    let found = names::shown_at(output, krate);
    let shown = names::private_at(output, "returned");
    let converted = quote_spanned! { output => #found::__private::returned(#shown) };
    quote! {
        #[allow(deprecated)]
        impl #krate::__private::#kind for #ident {
            type Payload = #payload;

            #head(
                &self,
                #event: #krate::__private::Event<#payload>,
                #cx: &#krate::__private::Context,
            ) #tail {
                let #returned = #ident(#(#passed),*) #dot_await;
                #converted
            }
        }
    }
}

/// Returns whether the attribute applies to the generated type.
fn is_of_type(attribute: &Attribute) -> bool {
    is_one_of(attribute, &["doc", "deprecated"]) || is_lint_level(attribute)
}

/// Lint levels apply to both items; `expect` would be unfulfilled on one of them.
fn is_lint_level(attribute: &Attribute) -> bool {
    is_one_of(attribute, &["allow", "warn", "deny", "forbid"])
}

fn is_one_of(attribute: &Attribute, names: &[&str]) -> bool {
    names.iter().any(|name| attribute.path().is_ident(name))
}
