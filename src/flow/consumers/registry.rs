//! The registry of handlers: those that the linker found and those added by hand.

use std::any::{Any, type_name};
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

use crate::codec::KeyRing;
use crate::error::Result;
use crate::event::Envelope;
use crate::flow::consumers::consumer::{Consumer, HandlerConsumer};
use crate::flow::handlers::attempt::{AsyncAttempt, Attempt, BlockingAttempt};
use crate::flow::handlers::blocking_threads::BlockingThreads;
use crate::flow::handlers::decode::{DecodeError, PayloadDecoder};
use crate::flow::handlers::deps::ExecutorDeps;
use crate::flow::handlers::executor::Executor;
use crate::flow::pool::deadlines::DeadlineTable;
use crate::handler::{Annotated, Annotation, BlockingHandler, Handler, Upgrade};
use crate::panics;

/// The dependencies of a consumer besides its handler.
pub(crate) struct ConsumerDeps {
    pub(crate) deps: ExecutorDeps,
    pub(crate) runtime: Handle,
    pub(crate) deadlines: Arc<DeadlineTable>,
    /// Whether time is virtual, and so must stand still while a thread works.
    pub(crate) virtual_time: bool,
}

type Install = Box<dyn FnOnce(ConsumerDeps) -> Result<Arc<dyn Consumer>> + Send>;

/// Decodes a stored payload at a version, and drops the value.
type Decode = dyn Fn(&KeyRing, u32, &Envelope) -> Result<(), DecodeError> + Send + Sync;

/// How the handler of a queue reads payloads, for those who have none of its type's values.
#[derive(Clone)]
pub(crate) struct Check {
    decode: Arc<Decode>,
    /// Its `Upgrade<T>`.
    upgrade: Option<Arc<dyn Any + Send + Sync>>,
}

impl Check {
    fn new<T: DeserializeOwned + 'static>(upgrade: Option<Upgrade<T>>) -> Self {
        let decode = move |keys: &KeyRing, version, envelope: &Envelope| {
            let reading = PayloadDecoder {
                keys: keys.clone(),
                version,
                upgrade,
            };
            reading.read(envelope).map(panics::dropped)
        };
        Self {
            decode: Arc::new(decode),
            upgrade: upgrade.map(|upgrade| Arc::new(upgrade) as _),
        }
    }

    /// Decodes a stored payload as the handler would at this version, and drops the value.
    pub(crate) fn decode(
        &self,
        keys: &KeyRing,
        version: u32,
        envelope: &Envelope,
    ) -> Result<(), DecodeError> {
        (self.decode)(keys, version, envelope)
    }

    /// Returns the handler's upgrade function, if `T` is its payload.
    pub(crate) fn upgrade<T: 'static>(&self) -> Option<Upgrade<T>> {
        self.upgrade.as_ref()?.downcast_ref().copied()
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

/// A handler and its annotation, ready to become a consumer.
pub(crate) struct Entry {
    /// The handler's type, for messages.
    pub(crate) handler: &'static str,
    pub(crate) annotation: Annotation,
    pub(crate) install: Install,
    pub(crate) check: Check,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {:?}", self.handler, self.annotation.queue)
    }
}

impl Entry {
    /// Registers a handler on the runtime.
    pub(crate) fn suspending<H: Handler>(
        handler: H,
        annotation: Annotation,
        upgrade: Option<Upgrade<H::Payload>>,
    ) -> Self {
        Self::new::<H, _>(annotation, upgrade, |_| AsyncAttempt::new(handler))
    }

    /// Registers a handler on its own threads.
    pub(crate) fn blocking<H: BlockingHandler>(
        handler: H,
        annotation: Annotation,
        upgrade: Option<Upgrade<H::Payload>>,
    ) -> Self {
        Self::new::<H, _>(annotation, upgrade, |parts| {
            let queue = &parts.deps.surroundings.queue;
            BlockingAttempt::new(handler, BlockingThreads::new(queue, parts.virtual_time))
        })
    }

    fn new<H, A: Attempt>(
        annotation: Annotation,
        upgrade: Option<Upgrade<A::Payload>>,
        make: impl FnOnce(&ConsumerDeps) -> A + Send + 'static,
    ) -> Self
    where
        A::Payload: DeserializeOwned,
    {
        let install = move |parts: ConsumerDeps| {
            let handler = make(&parts);
            let ConsumerDeps {
                deps,
                runtime,
                deadlines,
                virtual_time: _,
            } = parts;
            let reading = PayloadDecoder {
                keys: deps.keys.clone(),
                version: deps.options.version,
                upgrade,
            };
            let executor = Executor {
                handler,
                deps,
                reading,
            };
            let consumer = HandlerConsumer::new(executor, &runtime, &deadlines)?;
            Ok(Arc::new(consumer) as Arc<dyn Consumer>)
        };
        Self {
            handler: type_name::<H>(),
            annotation,
            install: Box::new(install),
            check: Check::new(upgrade),
        }
    }
}

/// Constructs a registered handler; `#[delay_event]` implements it.
pub trait Construct: Sized {
    /// Creates the single value of the handler that the bus keeps.
    fn construct() -> Self;
}

/// One annotated handler, put into the binary by `#[delay_event]`.
pub struct Registration {
    annotation: Annotation,
    entry: fn(Annotation) -> Entry,
    check: fn() -> Check,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("queue", &self.annotation.queue)
            .finish()
    }
}

impl Registration {
    /// Returns the registration of a handler.
    #[must_use]
    pub const fn of<H>() -> Self
    where
        H: Handler + Annotated<Value = <H as Handler>::Payload> + Construct,
    {
        Self {
            annotation: H::ANNOTATION,
            entry: |annotation| Entry::suspending(H::construct(), annotation, H::UPGRADE),
            check: || Check::new(H::UPGRADE),
        }
    }

    /// Returns the registration of a blocking handler.
    #[must_use]
    pub const fn blocking<H>() -> Self
    where
        H: BlockingHandler + Annotated<Value = <H as BlockingHandler>::Payload> + Construct,
    {
        Self {
            annotation: H::ANNOTATION,
            entry: |annotation| Entry::blocking(H::construct(), annotation, H::UPGRADE),
            check: || Check::new(H::UPGRADE),
        }
    }

    /// Returns the handler's annotation.
    #[must_use]
    pub const fn annotation(&self) -> &Annotation {
        &self.annotation
    }
}

inventory::collect!(Registration);

/// Returns every handler that the linker found in this program.
pub(crate) fn linked() -> Vec<Entry> {
    inventory::iter::<Registration>
        .into_iter()
        .map(|registration| (registration.entry)(registration.annotation))
        .collect()
}

/// Returns the queue and the payload check of each handler that the linker found.
pub(crate) fn checks() -> impl Iterator<Item = (&'static str, Check)> {
    inventory::iter::<Registration>
        .into_iter()
        .map(|registration| (registration.annotation.queue, (registration.check)()))
}

/// Returns the annotation of each handler that the linker found.
pub(crate) fn annotations() -> impl Iterator<Item = &'static Annotation> {
    inventory::iter::<Registration>
        .into_iter()
        .map(Registration::annotation)
}
