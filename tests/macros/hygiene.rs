//! What a handler function and what stands around it may be called: anything.

#![allow(non_camel_case_types, dead_code, unused_variables)]

use duly::{Annotated, Handler, States};

/// Names that mean something else here than in the prelude.
mod shadowed {
    use duly::{Context, Event, Failure, OldPayload, State, delay_event};

    pub(super) struct Result;
    pub(super) struct Option;
    pub(super) struct String;
    pub(super) struct Box;
    pub(super) struct Self_;
    pub(super) trait Send {}
    pub(super) trait Sync {}
    pub(super) trait Clone {}
    pub(super) trait Copy {}
    pub(super) trait Debug {}
    pub(super) trait Default {}
    pub(super) trait Handler {}
    pub(super) struct Annotation;
    pub(super) mod core {}
    pub(super) mod std {}
    #[allow(non_snake_case)]
    pub(super) fn Ok() {}
    #[allow(non_snake_case)]
    pub(super) fn Some() {}

    type Done = ::core::result::Result<(), Failure>;

    #[delay_event(queue = "shadowed", version = 1, upgrade = old, state(u8))]
    pub(super) async fn shadowed(event: Event<u64>, cx: &Context, State(db): State<u16>) -> Done {
        ::core::result::Result::Ok(())
    }

    fn old(old: OldPayload<'_>) -> ::core::result::Result<u64, Failure> {
        ::core::result::Result::Ok(old.version().into())
    }
}

/// Names that the annotation itself might use.
mod taken {
    use duly::{Context, Event, Failure, State, delay_event};

    #[delay_event(queue = "event")]
    pub(super) async fn event(event: Event<u64>, cx: &Context) -> Result<(), Failure> {
        Ok(())
    }

    #[delay_event(queue = "cx")]
    pub(super) async fn cx(cx: Event<u64>, event: &Context) -> Result<(), Failure> {
        Ok(())
    }

    #[delay_event(queue = "returned")]
    pub(super) async fn returned(returned: Event<u64>, _: State<u16>) -> Result<(), Failure> {
        Ok(())
    }

    #[delay_event(queue = "handle", blocking)]
    pub(super) fn handle(handle: Event<u64>, handler: &Context) -> Result<(), Failure> {
        Ok(())
    }

    pub(super) mod statics {
        use duly::{Context, Event, Failure, delay_event};

        /// A pattern of this name would be this value.
        pub(super) struct cx;
        pub(super) struct event;
        pub(super) const RETURNED: u8 = 1;
        #[allow(non_upper_case_globals)]
        pub(super) const returned: u8 = 1;

        #[delay_event(queue = "statics")]
        pub(crate) async fn close(it: Event<u64>, context: &Context) -> Result<(), Failure> {
            let _ = (cx, event, returned);
            Ok(())
        }
    }
}

#[test]
fn a_handler_function_and_what_is_around_it_may_have_any_name() {
    let queues = [
        shadowed::shadowed::ANNOTATION.queue,
        taken::event::ANNOTATION.queue,
        taken::cx::ANNOTATION.queue,
        taken::returned::ANNOTATION.queue,
        taken::handle::ANNOTATION.queue,
        taken::statics::close::ANNOTATION.queue,
    ];
    assert_eq!(
        queues,
        ["shadowed", "event", "cx", "returned", "handle", "statics"]
    );
}

/// Tests call the function itself, and the handler calls it too.
#[tokio::test]
async fn a_handler_function_stays_a_function() {
    use duly::{Context, Event};

    let mut states = States::default();
    states.insert(7_u16);
    let cx = Context::detached("event", states);
    taken::event(Event::published(1), &cx).await.unwrap();
    taken::returned(Event::published(1), cx.share())
        .await
        .unwrap();
    taken::handle(Event::published(1), &cx).unwrap();
    taken::event {}
        .handle(Event::published(1), &cx)
        .await
        .unwrap();
    let returned = taken::returned::default();
    returned.handle(Event::published(1), &cx).await.unwrap();
}

/// Errors of any kind become failures, with what led to them.
mod failures {
    use std::error::Error;
    use std::fmt;

    use duly::{Event, Failure, FailureExt, delay_event};

    #[derive(Debug)]
    pub(super) struct Refused(pub(super) std::num::ParseIntError);

    impl fmt::Display for Refused {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("refused")
        }
    }

    impl Error for Refused {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    pub(super) fn refuse() -> Result<(), Refused> {
        "x".parse::<u8>().map(drop).map_err(Refused)
    }

    pub(super) fn by_anyhow() -> Result<(), Failure> {
        use anyhow::Context;
        refuse().context("the bank")?;
        Ok(())
    }

    pub(super) fn by_eyre() -> Result<(), Failure> {
        use eyre::WrapErr;
        refuse().wrap_err("the bank")?;
        Ok(())
    }

    pub(super) fn by_box() -> Result<(), Failure> {
        let boxed: Result<(), Box<dyn Error + Send + Sync>> = refuse().map_err(Into::into);
        boxed?;
        Ok(())
    }

    pub(super) fn by_text(owned: bool) -> Result<(), Failure> {
        if owned {
            Err(format!("{} and no", "no").into())
        } else {
            Err("no".into())
        }
    }

    pub(super) fn by_failure() -> Result<(), Failure> {
        by_text(false)?;
        Ok(())
    }

    pub(super) fn permanent() -> Result<(), Failure> {
        Err::<(), _>(anyhow::anyhow!("no such bank")).permanent()
    }

    #[delay_event(queue = "anyhow", register = false)]
    pub(super) async fn returns_anyhow(_event: Event<u64>) -> anyhow::Result<()> {
        anyhow::bail!("the bank is closed")
    }

    #[delay_event(queue = "eyre", register = false)]
    pub(super) async fn returns_eyre(_event: Event<u64>) -> eyre::Result<()> {
        eyre::bail!("the bank is closed")
    }

    #[delay_event(queue = "box", register = false)]
    pub(super) async fn returns_box(
        _event: Event<u64>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        Err("the bank is closed".into())
    }
}

#[test]
fn any_error_becomes_a_failure_with_what_led_to_it() {
    let text = |result: Result<(), duly::Failure>| result.unwrap_err().to_string();
    let chain = "refused: invalid digit found in string";
    assert_eq!(text(failures::refuse().map_err(Into::into)), chain);
    assert_eq!(text(failures::by_box()), chain);
    assert_eq!(text(failures::by_anyhow()), format!("the bank: {chain}"));
    assert_eq!(text(failures::by_eyre()), format!("the bank: {chain}"));
    assert_eq!(text(failures::by_text(false)), "no");
    assert_eq!(text(failures::by_text(true)), "no and no");
    assert_eq!(text(failures::by_failure()), "no");
    let permanent = failures::permanent().unwrap_err();
    assert_eq!(format!("{permanent:?}"), "Failure(Permanent, no such bank)");
}

#[tokio::test]
async fn a_handler_function_may_return_the_errors_of_others() {
    use duly::{Context, Event};

    let cx = Context::detached("any", States::default());
    let event = || Event::published(1);
    let failed = [
        failures::returns_anyhow {}.handle(event(), &cx).await,
        failures::returns_eyre {}.handle(event(), &cx).await,
        failures::returns_box {}.handle(event(), &cx).await,
    ];
    for result in failed {
        assert_eq!(result.unwrap_err().to_string(), "the bank is closed");
    }
}
