//! Parsing of the signature of a handler function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::{
    Error, FnArg, GenericArgument, Path, PathArguments, PathSegment, ReturnType, Signature, Type,
    spanned::Spanned,
};

use crate::{attr::Attr, errors::Errors, names};

/// The arguments of a handler function.
#[derive(Default)]
pub(crate) struct Arguments {
    /// `T` of the first argument, `Event<T>`.
    pub(crate) payload: Option<Type>,
    /// `S` of each argument `State<S>`.
    pub(crate) states: Vec<Type>,
    /// The arguments that the generated handler passes, in order.
    pub(crate) passed: Vec<TokenStream>,
}

/// Reads the arguments; all errors go into `errors`.
pub(crate) fn read(attr: &Attr, signature: &Signature, errors: &mut Errors) -> Arguments {
    check_qualifiers(attr, signature, errors);
    if let Some(receiver) = signature.receiver() {
        let message =
            "a handler function has no `self`, annotate a struct and implement `Handler` for it";
        errors.push(Error::new_spanned(receiver, message));
        return Arguments::default();
    }
    let mut inputs = signature.inputs.iter();
    let mut arguments = Arguments {
        payload: errors.keep(payload(attr, signature, inputs.next())),
        states: Vec::new(),
        passed: vec![names::private("event").into_token_stream()],
    };
    let mut contexts = 0;
    for input in inputs {
        match errors.keep(Argument::of(input)) {
            Some(Argument::Context) => {
                contexts += 1;
                if contexts > 1 {
                    errors.push(Error::new_spanned(input, "a second `&Context`, keep one"));
                }
                arguments
                    .passed
                    .push(names::private("cx").into_token_stream());
            }
            Some(Argument::State(state)) => {
                arguments.passed.push(state_of(&attr.krate, input, state));
                arguments.states.push(state.clone());
            }
            None => {}
        }
    }
    arguments
}

/// Returns an example signature for messages.
fn form(attr: &Attr) -> &'static str {
    if attr.blocking {
        "`fn close(event: Event<T>, cx: &Context) -> Result<(), Failure>`"
    } else {
        "`async fn close(event: Event<T>, cx: &Context) -> Result<(), Failure>`"
    }
}

/// Checks everything but the arguments.
fn check_qualifiers(attr: &Attr, signature: &Signature, errors: &mut Errors) {
    let mut wrong = |at: &dyn ToTokens, message: &str| {
        errors.push(Error::new_spanned(at.to_token_stream(), message));
    };
    match &signature.asyncness {
        Some(token) if attr.blocking => {
            wrong(
                token,
                "an `async fn` cannot be `blocking`, leave out one of the two",
            );
        }
        None if !attr.blocking => wrong(
            &signature.fn_token,
            "expected an `async fn`, or `blocking` in the annotation of a `fn` that blocks",
        ),
        _ => {}
    }
    if let Some(token) = &signature.constness {
        wrong(token, "a handler function cannot be `const`");
    }
    if let Some(token) = &signature.unsafety {
        wrong(token, "a handler function cannot be `unsafe`");
    }
    if let Some(abi) = &signature.abi {
        wrong(abi, "a handler function cannot be `extern`");
    }
    if let Some(dots) = &signature.variadic {
        wrong(dots, "a handler function cannot be variadic");
    }
    if !signature.generics.params.is_empty() {
        wrong(
            &signature.generics,
            "a handler function cannot be generic, its queue carries one payload type",
        );
    }
    if let ReturnType::Default = signature.output {
        let form = form(attr);
        let message = format!("a handler function must return a result, as in {form}");
        wrong(&signature.ident, &message);
    }
}

/// Returns `T` of the first argument, `Event<T>`.
fn payload(attr: &Attr, signature: &Signature, first: Option<&FnArg>) -> syn::Result<Type> {
    let expected = || {
        format!(
            "the first argument must be `Event<T>`, as in {}",
            form(attr)
        )
    };
    let Some(FnArg::Typed(first)) = first else {
        return Err(Error::new_spanned(&signature.ident, expected()));
    };
    match inside("Event", &first.ty) {
        Some(hidden @ Type::ImplTrait(_)) => Err(Error::new_spanned(
            hidden,
            "a payload type needs a name, not `impl Trait`",
        )),
        Some(payload) => Ok(payload.clone()),
        None => Err(Error::new_spanned(&first.ty, expected())),
    }
}

/// An argument after the first.
enum Argument<'a> {
    Context,
    State(&'a Type),
}

impl<'a> Argument<'a> {
    fn of(input: &'a FnArg) -> syn::Result<Self> {
        let FnArg::Typed(typed) = input else {
            // Rust's parser rejects a `self` that is not first.
            return Err(Error::new_spanned(
                input,
                "a handler function has no `self`",
            ));
        };
        match &*typed.ty {
            Type::Reference(to) if to.mutability.is_none() && is_context(&to.elem) => {
                Ok(Self::Context)
            }
            ty => match inside("State", ty) {
                Some(state) => Ok(Self::State(state)),
                None if inside("Event", ty).is_some() => Err(Error::new_spanned(
                    ty,
                    "the event must come first, and only there",
                )),
                None => Err(Error::new_spanned(
                    ty,
                    "expected `&Context` or `State<T>` after the event",
                )),
            },
        }
    }
}

/// Returns `T`, if `ty` is `name<T>`, by any path.
fn inside<'a>(name: &str, ty: &'a Type) -> Option<&'a Type> {
    let segment = last(ty).filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(given) = &segment.arguments else {
        return None;
    };
    match given.args.first() {
        Some(GenericArgument::Type(inside)) if given.args.len() == 1 => Some(inside),
        _ => None,
    }
}

fn is_context(ty: &Type) -> bool {
    last(ty).is_some_and(|segment| segment.ident == "Context" && segment.arguments.is_none())
}

fn last(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        Type::Group(group) => last(&group.elem),
        _ => None,
    }
}

/// Generates the state for one argument; an error about a foreign `State` points to it.
fn state_of(krate: &Path, input: &FnArg, state: &Type) -> TokenStream {
    let span = input.span();
    let (krate, cx) = (names::shown_at(span, krate), names::private_at(span, "cx"));
    quote_spanned! { span => #krate::__private::state::<#state>(#cx) }
}
