//! Code beside an item, of a function or a struct: the annotation and the registration.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Generics, Ident, spanned::Spanned};

use crate::attr::Attr;
use crate::names::{private_at, shown_at};

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
        let found = shown_at(function.span(), krate);
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
