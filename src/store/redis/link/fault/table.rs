//! The classification table: one row for each kind of server error.

use super::Effect;
use crate::error::ErrorKind;

/// A row: how to classify one error code.
pub(super) struct Rule {
    pub(super) code: &'static str,
    /// A part of the text, where the code alone is ambiguous.
    pub(super) detail: Option<&'static str>,
    pub(super) effect: Effect,
    pub(super) kind: ErrorKind,
    /// Whether the connection is of no more use.
    pub(super) breaks: bool,
    /// Whether the server sent nothing at all.
    pub(super) is_silence: bool,
    /// Whether a server sends it for the first write of a script and for none after it.
    pub(super) is_before_writes: bool,
    /// Advice for the user.
    pub(super) words: &'static str,
}

impl Rule {
    /// Certainly not applied; the connection stays.
    const fn refused(code: &'static str, kind: ErrorKind, words: &'static str) -> Self {
        Self {
            code,
            detail: None,
            effect: Effect::None,
            kind,
            breaks: false,
            is_silence: false,
            is_before_writes: false,
            words,
        }
    }

    /// Possibly applied; the connection is dropped.
    const fn lost(words: &'static str) -> Self {
        Self {
            effect: Effect::Unknown,
            breaks: true,
            is_silence: true,
            ..Self::refused("", ErrorKind::Unknown, words)
        }
    }

    const fn before_writes(self) -> Self {
        Self {
            is_before_writes: true,
            ..self
        }
    }

    const fn breaking(self) -> Self {
        Self {
            breaks: true,
            ..self
        }
    }

    const fn with(self, detail: &'static str) -> Self {
        Self {
            detail: Some(detail),
            ..self
        }
    }
}

use ErrorKind::{Corrupt, Full, Invalid, Unavailable, Unknown};

/// Errors that servers send, by code. Of two rows for one code the first match counts.
pub(super) static RULES: &[Rule] = &[
    Rule::refused(
        "LOADING",
        Unavailable,
        "the server is still loading its data; it will respond by itself",
    ),
    Rule::refused(
        "READONLY",
        Unavailable,
        "the server is a replica now; looking for the master again",
    )
    .before_writes()
    .breaking(),
    Rule::refused(
        "MASTERDOWN",
        Unavailable,
        "the server is a replica that has lost its master; looking for the master again",
    )
    .before_writes()
    .breaking(),
    Rule::refused(
        "CLUSTERDOWN",
        Unavailable,
        "the cluster does not serve every slot; `redis-cli --cluster check` says which are missing",
    ),
    Rule::refused(
        "TRYAGAIN",
        Unavailable,
        "the bucket is being moved to another node; if that lasts, the move was interrupted, and \
         `redis-cli --cluster fix` ends it",
    ),
    Rule::refused(
        "MOVED",
        Unavailable,
        "the bucket is on another node; open a cluster with redis-cluster://",
    ),
    Rule::refused(
        "ASK",
        Unavailable,
        "the bucket is being moved to another node; try again",
    ),
    Rule::refused(
        "CROSSSLOT",
        Invalid,
        "keys of several slots in one call, which is a bug in this library",
    ),
    Rule::refused(
        "BUSY",
        Unavailable,
        "the server is busy with a script that does not end; SCRIPT KILL ends one",
    ),
    Rule::refused(
        "OOM",
        Full,
        "the server has reached maxmemory; raise it, or let events be handled first",
    )
    .before_writes(),
    Rule::refused(
        "MISCONF",
        Unavailable,
        "the server cannot write to its disk and refuses changes; see its log",
    )
    .before_writes(),
    Rule::refused(
        "NOREPLICAS",
        Unavailable,
        "the server has fewer good replicas than min-replicas-to-write asks for",
    )
    .before_writes(),
    Rule::refused(
        "NOSCRIPT",
        Unavailable,
        "the server lost the script again at once; do not flush scripts in a loop",
    ),
    Rule::refused(
        "ERR",
        Unavailable,
        "the server lost the function again at once; do not delete functions in a loop",
    )
    .with("Function not found"),
    Rule::refused(
        "NOPERM",
        Unavailable,
        "the user lacks this permission; grant it with ACL SETUSER",
    ),
    Rule::refused(
        "NOAUTH",
        Unavailable,
        "the server requires a password: redis://user:password@host",
    )
    .breaking(),
    Rule::refused(
        "WRONGPASS",
        Unavailable,
        "the server does not accept this user and password",
    )
    .breaking(),
    Rule::refused(
        "DENIED",
        Unavailable,
        "the server is in protected mode and serves its own machine only",
    )
    .breaking(),
    Rule::refused(
        "NOPROTO",
        Invalid,
        "the server is too old; Redis 7.0 or Valkey is needed",
    )
    .breaking(),
    Rule::refused(
        "EXECABORT",
        Unavailable,
        "the server refused the transaction",
    ),
    Rule::refused(
        "WRONGTYPE",
        Corrupt,
        "a key has an unexpected type; another program uses the same prefix",
    ),
    Rule::refused(
        "ERR",
        Unavailable,
        "the server has no connection to spare; raise maxclients",
    )
    .with("max number of clients")
    .breaking(),
    Rule::refused(
        "ERR",
        Unavailable,
        "a proxy has lost its connection to the server",
    )
    .with("upstream")
    .breaking(),
    Rule::refused(
        "ERR",
        Invalid,
        "the server has no database of the number in the store's URL; they are numbered from 0, and \
         there are 16 unless `databases` in its configuration says otherwise",
    )
    .with("DB index"),
    Rule::refused(
        "ERR",
        Invalid,
        "the server is not a cluster; open it with redis://",
    )
    .with("cluster support disabled"),
    Rule::refused(
        "ERR",
        Unavailable,
        "the user may not choose a database; grant it with ACL SETUSER and +select",
    )
    .with("no permissions"),
    Rule::refused("ERR", Invalid, UNKNOWN_CALL).with("unknown command"),
    Rule::refused("ERR", Invalid, UNKNOWN_CALL).with("unknown subcommand"),
    Rule::refused("ERR", Invalid, UNKNOWN_CALL).with("Unknown subcommand"),
    Rule::refused("ERR", Invalid, UNKNOWN_CALL).with("wrong number of arguments"),
    Rule::refused("ERR", Invalid, UNKNOWN_CALL).with("syntax error"),
    Rule::refused("ERR", Invalid, UNKNOWN_CALL).with("script shebang"),
    Rule::refused("ERR", Invalid, UNKNOWN_CALL)
        .with("Error compiling script")
        .before_writes(),
    Rule::refused(
        "ERR",
        Invalid,
        "the server accepts no password; remove it from the URL",
    )
    .with("without any password"),
];

const UNKNOWN_CALL: &str = "the server does not know this call: the command was renamed or disabled \
     (`rename-command` in its configuration), or it is not Redis 7.0 or later";

/// A script failed while it ran, possibly between two writes.
pub(super) const MIDWAY: Rule = Rule {
    effect: Effect::Unknown,
    ..Rule::refused(
        "",
        Unknown,
        "a script failed while it ran; does another program use the same prefix, or was a \
         permission taken away?",
    )
};

/// An error that is not in this table: probably a proxy's, which may have forwarded the call
/// before.
pub(super) const STRANGE: Rule = Rule {
    effect: Effect::Unknown,
    ..Rule::refused("", Unknown, "the server sent an unexpected reply")
};

/// No reply within the timeout of a call. One late reply breaks no connection.
pub(super) const LATE: Rule = Rule {
    effect: Effect::Unknown,
    is_silence: true,
    ..Rule::refused("", Unknown, "the server did not reply in time")
};

/// The connection ended before the reply.
pub(super) const CUT: Rule = Rule::lost("the connection ended before the reply");

/// The reply violates the protocol.
pub(super) const GARBLED: Rule = Rule::lost("the reply could not be decoded");

/// The cluster node of the call cannot be reached, and nothing was sent.
pub(super) const NO_NODE: Rule = Rule {
    is_silence: true,
    ..Rule::refused(
        "",
        Unavailable,
        "the cluster node of the bucket cannot be reached",
    )
};

/// The server rejected the login, without saying which part.
pub(super) const LOGIN: Rule = Rule::refused(
    "",
    Unavailable,
    "the server does not accept this user and password",
)
.breaking();

/// Refused by the package, before anything was sent.
pub(super) const REFUSED_HERE: Rule =
    Rule::refused("", Invalid, "the call or the settings cannot be used");

/// The server supports only the old protocol.
pub(super) const TOO_OLD: Rule = Rule::refused(
    "",
    Invalid,
    "the server is too old; Redis 7.0 or Valkey is needed",
)
.breaking();

/// The text for a connection that was not established.
pub(super) const UNREACHABLE: &str = "cannot be reached";

/// The refusals of this store's scripts, by the word after `DULY`.
pub(super) const SAYINGS: &[(&str, ErrorKind)] = &[
    ("INVALID", Invalid),
    ("NOTFOUND", ErrorKind::NotFound),
    ("CONFLICT", ErrorKind::Conflict),
    ("FULL", Full),
    ("LEASELOST", ErrorKind::LeaseLost),
    ("UNAVAILABLE", Unavailable),
    ("CORRUPT", Corrupt),
    ("CLOSED", ErrorKind::Closed),
    // Its caller ends what has expired, and calls again.
    ("EXPIRED", Unavailable),
];
