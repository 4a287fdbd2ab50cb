//! The right of a visitor to what lasts: it is checked again for as long as that goes on.

use std::sync::Arc;
use std::time::Duration;

use duly::QueueName;

use crate::access::{Access, AccessError, Credentials, Role, User};

/// How often what waits checks its right.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// How a visitor has proven who they are.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// By a login; without one they are whom everybody is.
    Login(Option<Credentials>),
    /// A layer in front has said it, and is not asked again.
    Layer(User),
}

impl Identity {
    pub(crate) async fn user(&self, access: &dyn Access) -> Result<Option<User>, AccessError> {
        match self {
            Self::Login(given) => access.user(given.as_ref()).await,
            Self::Layer(user) => Ok(Some(user.clone())),
        }
    }
}

/// What a right is for.
#[derive(Clone, Debug)]
pub(crate) enum Extent {
    /// To be here.
    OpenPage,
    Queue(String),
    /// These, which are all that a user sees who does not see every queue.
    Queues(Arc<[QueueName]>),
    EveryQueue,
}

impl Extent {
    /// Returns that of what goes through one queue, or through all of these, which are those that the
    /// user sees.
    pub(crate) fn of(user: &User, queue: Option<&str>, queues: &[QueueName]) -> Self {
        match queue {
            Some(queue) => Self::Queue(queue.to_owned()),
            None if user.sees_all() => Self::EveryQueue,
            None => Self::Queues(queues.into()),
        }
    }

    /// Whether a user sees all of it.
    pub(crate) fn is_seen_by(&self, user: &User) -> bool {
        match self {
            Self::OpenPage => true,
            Self::Queue(queue) => user.sees(queue),
            Self::Queues(queues) => queues.iter().all(|queue| user.sees(queue)),
            Self::EveryQueue => user.sees_all(),
        }
    }
}

/// The right to do something, in a role. What goes on after its request holds one: a user
/// may be removed meanwhile, or may do less.
#[derive(Debug)]
pub(crate) struct Grant {
    access: Arc<dyn Access>,
    identity: Identity,
    role: Role,
    extent: Extent,
}

/// Why a right has ended.
#[derive(Debug)]
pub(crate) enum GrantEnd {
    /// The user is not known any more.
    Unknown,
    /// The user may do something else now.
    Role(&'static str),
    /// The user may not see the queues any more, or not all.
    Queue,
    /// It cannot be checked.
    Failed(AccessError),
}

impl Grant {
    pub(crate) fn new(
        access: Arc<dyn Access>,
        identity: Identity,
        role: Role,
        extent: Extent,
    ) -> Self {
        Self {
            access,
            identity,
            role,
            extent,
        }
    }

    /// Checks that the user may still do it.
    pub(crate) async fn check(&self) -> Result<(), GrantEnd> {
        let user = self.identity.user(&*self.access).await;
        let user = user.map_err(GrantEnd::Failed)?.ok_or(GrantEnd::Unknown)?;
        if !user.may(self.role) {
            Err(GrantEnd::Role(user.shown_role()))
        } else if self.extent.is_seen_by(&user) {
            Ok(())
        } else {
            Err(GrantEnd::Queue)
        }
    }

    /// Waits until the user may not do it any more. What cannot be checked ends nothing: each step is
    /// checked by itself.
    pub(crate) async fn ended(&self) -> GrantEnd {
        loop {
            tokio::time::sleep(CHECKED_EVERY).await;
            match self.check().await {
                Ok(()) | Err(GrantEnd::Failed(_)) => {}
                Err(ended) => return ended,
            }
        }
    }
}

impl std::fmt::Display for GrantEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("its user is not let in any more"),
            Self::Role(role) => write!(f, "its user has the role {role} now"),
            Self::Queue => f.write_str("its user may not see the queue any more"),
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}
