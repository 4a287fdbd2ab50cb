//! A line of the audit.

use duly::admin::AuditLine;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who did what to what.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct AuditView {
    /// When it was done, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub at_ms: u64,
    /// Who did it: an account, the handle of a token, the user of a command, a program and its machine.
    #[schema(example = "ann")]
    pub actor: String,
    /// What was done.
    #[schema(example = "queue paused")]
    pub action: String,
    /// To what: a queue, an event of it, a schedule, or dead letters in words.
    #[schema(example = "shop.close")]
    pub target: String,
}

impl From<&AuditLine> for AuditView {
    fn from(line: &AuditLine) -> Self {
        Self {
            at_ms: line.at.as_millis(),
            actor: line.actor.clone(),
            action: line.action.clone(),
            target: line.target.clone(),
        }
    }
}
