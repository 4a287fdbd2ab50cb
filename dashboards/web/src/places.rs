//! Places among few: of a user, of a namespace, or of all queues.

use crate::access::User;

/// Whose place it is.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) user: String,
    namespace: Option<String>,
    sees_all: bool,
}

impl Owner {
    pub(crate) fn of(user: &User) -> Self {
        Self {
            user: user.name.clone(),
            namespace: user.namespace().map(str::to_owned),
            sees_all: user.sees_all(),
        }
    }

    /// Whether both are of one namespace.
    pub(crate) fn is_sibling(&self, other: &Self) -> bool {
        self.namespace.is_some() && self.namespace == other.namespace
    }
}

/// How many places there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) of_all: usize,
    /// Those that only who sees every queue may have.
    pub(crate) reserved: usize,
    /// The most of all users of a namespace.
    pub(crate) of_namespace: usize,
    /// The most of a user who sees some queues, and of one who sees every one.
    pub(crate) of_user: usize,
    pub(crate) of_operator: usize,
}

impl Bounds {
    /// Whether there is a place for somebody beside those that are taken.
    pub(crate) fn admit<'a>(
        &self,
        owner: &Owner,
        taken: impl Iterator<Item = &'a Owner> + Clone,
    ) -> bool {
        let own = taken.clone().filter(|it| it.user == owner.user).count();
        if taken.clone().count() >= self.of_all {
            return false;
        }
        if owner.sees_all {
            return own < self.of_operator;
        }
        let of_tenants = taken.clone().filter(|it| !it.sees_all).count();
        let siblings = taken.filter(|it| it.is_sibling(owner)).count();
        own < self.of_user
            && siblings < self.of_namespace
            && of_tenants < self.of_all.saturating_sub(self.reserved)
    }
}
