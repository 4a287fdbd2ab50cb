//! Scopes: what a token may do, and to which queues.

use serde::{Deserialize, Serialize};

/// A kind of call that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A publish, or a bulk.
    Produce,
    /// A consume.
    Consume,
}

impl Action {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Consume => "consume",
        }
    }
}

/// A right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Publish, recall and read jobs.
    Publish,
    /// Consume, acknowledge and read jobs.
    Consume,
    /// Dead letters, destroying a queue, settings of queues.
    Admin,
}

impl Scope {
    /// All rights.
    pub(crate) const ALL: [Self; 3] = [Self::Publish, Self::Consume, Self::Admin];

    /// Returns this right as all that is needed.
    pub(crate) const fn alone(self) -> &'static [Self] {
        match self {
            Self::Publish => &[Self::Publish],
            Self::Consume => &[Self::Consume],
            Self::Admin => &[Self::Admin],
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Consume => "consume",
            Self::Admin => "admin",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// A pattern of names of queues, in which `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct QueuePattern(pub(crate) String);

impl QueuePattern {
    pub(crate) fn matches(&self, queue: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = queue.strip_prefix(first) else {
            return false;
        };
        let mut last = None;
        for part in parts {
            if let Some(part) = last.replace(part) {
                let Some(at) = rest.find(part) else {
                    return false;
                };
                rest = &rest[at + part.len()..];
            }
        }
        match last {
            Some(last) => rest.ends_with(last),
            None => rest.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let matches = |pattern: &str, queue| QueuePattern(pattern.to_owned()).matches(queue);
        assert!(matches("*", "mail"));
        assert!(matches("mail", "mail"));
        assert!(!matches("mail", "mails"));
        assert!(matches("order-*", "order-close"));
        assert!(!matches("order-*", "reorder-close"));
        assert!(matches("*-close", "order-close"));
        assert!(matches("a*b*c", "a-b-b-c"));
        assert!(!matches("a*b*c", "a-c-b"));
        assert!(!matches("aa*aa", "aaa"));
        assert!(!matches("", "mail"));
    }
}
