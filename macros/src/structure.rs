//! `#[delay_event]` on a struct: emits the struct unchanged, its annotation and its registration.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Error, ItemStruct};

use crate::{attr::Attr, errors::Errors, generated};

pub(crate) fn expand(attr: &Attr, item: &ItemStruct, errors: &mut Errors) -> TokenStream {
    let (krate, ident, generics) = (&attr.krate, &item.ident, &item.generics);
    if attr.register && !generics.params.is_empty() {
        errors.push(Error::new_spanned(
            generics,
            "a generic handler is many handlers, add `register = false` and register each of them",
        ));
    }
    let annotated = generated::annotated(attr, ident, generics, &attr.states);
    let registered = attr.register.then(|| {
        let made = if item.fields.is_empty() {
            quote! { Self {} }
        } else {
            quote_spanned! { ident.span() => <#ident as #krate::__private::ByDefault>::by_default() }
        };
        generated::registered(attr, ident, &made)
    });
    quote! {
        #item
        #annotated
        #registered
    }
}
