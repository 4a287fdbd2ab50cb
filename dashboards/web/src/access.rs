//! Authorisation: roles, users, and the trait that knows them.

use std::fmt;
use std::sync::Arc;

use duly::admin::Schedule;
use futures_util::future::BoxFuture;

/// What a user may do; each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read everything, payloads included.
    View,
    /// Cancel and reschedule events, run a schedule now.
    Operate,
    /// Pause queues, set their rates, revive and drop dead letters, pause and remove schedules.
    Admin,
}

impl Role {
    /// The name of the role.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// Returns whether a user may see a queue.
type NameFilter = dyn Fn(&str) -> bool + Send + Sync;

/// A user of the dashboard.
#[derive(Clone)]
pub struct User {
    pub(crate) name: String,
    pub(crate) role: Role,
    queues: Option<Arc<NameFilter>>,
    namespace: Option<Arc<str>>,
    is_of_whole_namespace: bool,
    operates: bool,
    runs_schedules: bool,
}

impl User {
    /// A user of all queues. The name is that of the audit and of records; what exceeds 128 bytes is
    /// cut off.
    #[must_use]
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        let mut name = name.into();
        name.truncate(name.floor_char_boundary(duly::records::BY_BYTES_MAX));
        Self {
            name,
            role,
            queues: None,
            namespace: None,
            is_of_whole_namespace: false,
            operates: true,
            runs_schedules: true,
        }
    }

    /// Takes away what [`Role::Operate`] adds, of which an [`Admin`](Role::Admin) may do the rest.
    #[must_use]
    pub fn without_operating(mut self) -> Self {
        self.operates = false;
        self
    }

    /// Takes away that the user runs schedules: each run is a push, and a dashboard counts none.
    #[must_use]
    pub fn without_runs(mut self) -> Self {
        self.runs_schedules = false;
        self
    }

    /// Restricts the user to the queues for whose name `sees` returns `true`.
    #[must_use]
    pub fn only(mut self, sees: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.queues = Some(Arc::new(sees));
        self
    }

    /// Restricts the user to the schedules of a namespace, whose names begin with it and a dot, of
    /// those whose queue the user sees; and to a pause or a rate of 1,000 queues of the namespace.
    #[must_use]
    pub fn only_schedules_of(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Declares that the user sees every queue of the namespace, and so what was done to its
    /// schedules: the audit does not say of which queue a schedule was.
    #[must_use]
    pub fn whole_namespace(mut self) -> Self {
        self.is_of_whole_namespace = true;
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the user may do what a role adds.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.role >= role && (role != Role::Operate || self.operates)
    }

    pub(crate) fn runs_schedules(&self) -> bool {
        self.may(Role::Operate) && self.runs_schedules
    }

    /// What the user may do, in words.
    pub(crate) fn shown_role(&self) -> &'static str {
        match self.role {
            Role::Admin if !self.operates => "admin without operate",
            Role::Operate if !self.operates => Role::View.as_str(),
            role => role.as_str(),
        }
    }

    pub(crate) fn sees(&self, queue: &str) -> bool {
        self.queues.as_ref().is_none_or(|sees| sees(queue))
    }

    pub(crate) fn sees_schedule(&self, schedule: &Schedule) -> bool {
        let is_own = self.namespace.is_none() || self.owns(&schedule.name);
        is_own && self.sees(schedule.options.queue())
    }

    /// Whether the user sees what was done to a name of the namespace, whichever its queue was.
    pub(crate) fn sees_past_of_all(&self, name: &str) -> bool {
        self.is_of_whole_namespace && self.owns(name)
    }

    /// Whether a schedule, or a queue, is of the user's namespace.
    pub(crate) fn owns(&self, name: &str) -> bool {
        let name = self.namespace().and_then(|it| name.strip_prefix(it));
        name.is_some_and(|name| name.starts_with('.'))
    }

    /// The queue that is chosen, or else all that the user sees, in words.
    pub(crate) fn queues_in_words(&self, queue: Option<&str>) -> String {
        match queue {
            Some(queue) => format!("of queue {queue}"),
            None if self.sees_all() => "of every queue".to_owned(),
            None => format!("of all queues that {} sees", self.name),
        }
    }

    /// Whether the user sees every queue of the own namespace.
    pub(crate) fn sees_whole_namespace(&self) -> bool {
        self.sees_all() || self.is_of_whole_namespace
    }

    pub(crate) fn sees_all(&self) -> bool {
        self.queues.is_none() && self.namespace.is_none()
    }

    /// Whether the user sees which machines there are: who sees some queues only has to administer
    /// them.
    pub(crate) fn sees_hosts(&self) -> bool {
        self.sees_all() || self.role == Role::Admin
    }

    /// The namespace of the schedules that the user sees, if not all.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// What a visitor has entered into the login form.
#[derive(Clone)]
pub struct Credentials {
    /// A name, or the namespace of a token.
    pub name: String,
    /// A password, or a token.
    pub secret: String,
}

/// Leaves the secret out.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why it is not known now who a visitor is.
#[derive(Clone, Debug)]
pub struct AccessError {
    reason: String,
    counts: bool,
}

impl AccessError {
    /// An error with the reason, which the visitor sees.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            counts: false,
        }
    }

    /// Counts a login as wrong all the same, where a part of what it may be was checked, and was
    /// wrong: else who guesses that part would not be slowed down meanwhile.
    #[must_use]
    pub fn counts_as_wrong(mut self) -> Self {
        self.counts = true;
        self
    }

    pub(crate) fn is_wrong(&self) -> bool {
        self.counts
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "who you are cannot be checked now: {}", self.reason)
    }
}

impl std::error::Error for AccessError {}

/// Knows the users of a dashboard.
pub trait Access: fmt::Debug + Send + Sync + 'static {
    /// Returns who a visitor is, by what the login form was given; `None` lets nobody in. Without
    /// credentials it returns whom everybody is who has not logged in; `None` asks for a login.
    ///
    /// It is called for every request, also of who has logged in, and again while something of a
    /// visitor lasts: a token that was revoked, or a password that was changed, ends the session, and
    /// what it has begun. Logins are throttled before they get here.
    ///
    /// # Errors
    ///
    /// When it is not known now: then the request fails, no session ends, and a login does not count
    /// as wrong, unless the error [says so](AccessError::counts_as_wrong).
    fn user<'a>(
        &'a self,
        given: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>>;

    /// Records that a user has changed something. By default it is logged.
    fn audit<'a>(&'a self, user: &'a User, action: &'a str, target: &'a str) -> BoxFuture<'a, ()> {
        tracing::info!(user = user.name, action, target, "dashboard action");
        Box::pin(std::future::ready(()))
    }
}

/// Everybody has one role.
#[derive(Debug)]
pub(crate) struct Open(pub(crate) Role);

impl Access for Open {
    fn user<'a>(
        &'a self,
        _: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>> {
        let user = User::new("anonymous", self.0);
        Box::pin(std::future::ready(Ok(Some(user))))
    }
}
