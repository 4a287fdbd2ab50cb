//! The handlers that the linker found.

use std::any;

use crate::{
    __private::Construct,
    handler::{Annotated, Annotation, BlockingHandler, Handler},
};

/// One annotated handler, put into the binary by `#[delay_event]`.
#[derive(Debug)]
pub struct Registration {
    name: fn() -> &'static str,
    annotation: Annotation,
}

impl Registration {
    /// The registration of a handler.
    #[must_use]
    pub const fn of<H: Handler + Annotated + Construct>() -> Self {
        Self {
            name: any::type_name::<H>,
            annotation: H::ANNOTATION,
        }
    }

    /// The registration of a handler that blocks.
    #[must_use]
    pub const fn blocking<H: BlockingHandler + Annotated + Construct>() -> Self {
        Self {
            name: any::type_name::<H>,
            annotation: H::ANNOTATION,
        }
    }

    /// The handler's type.
    #[must_use]
    pub fn name(&self) -> &'static str {
        (self.name)()
    }

    /// What the handler's annotation says.
    #[must_use]
    pub const fn annotation(&self) -> &Annotation {
        &self.annotation
    }
}

inventory::collect!(Registration);
