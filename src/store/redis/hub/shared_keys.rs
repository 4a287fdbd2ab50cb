//! Access to the keys that all nodes share: their names, their connection and their format.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Cmd, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::panics;
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::link::url::{Place, Target};
use crate::store::redis::script::call::Call;
use crate::store::redis::script::keys;
use crate::store::redis::script::lifecycle::Lifecycle;
use crate::store::redis::script::reader::unreadable;
use crate::store::redis::script::table::Arguments;
use crate::time::Clock;

/// The keys that all nodes share.
pub(in crate::store::redis) struct SharedKeys {
    pub(in crate::store::redis) prefix: String,
    pub(in crate::store::redis) target: Target,
    pub(super) link: ManagedConnection,
    pub(super) lifecycle: Arc<Lifecycle>,
    /// The time, for tests.
    pub(super) clock: Option<Arc<dyn Clock>>,
    /// Whether the key format was checked.
    is_claimed: AtomicBool,
}

/// The format of all keys except the bodies, which carry their own; `src/docs/storage.md` describes
/// it.
const FORMAT: &str = "6";

impl SharedKeys {
    pub(in crate::store::redis) fn new(
        prefix: String,
        target: Target,
        link: ManagedConnection,
        lifecycle: Arc<Lifecycle>,
        clock: Option<Arc<dyn Clock>>,
    ) -> Self {
        Self {
            prefix,
            target,
            link,
            lifecycle,
            clock,
            is_claimed: AtomicBool::new(false),
        }
    }

    /// Returns whether the keys are on several servers, of which one may be unavailable.
    pub(in crate::store::redis) fn is_cluster(&self) -> bool {
        matches!(self.target.place, Place::Cluster(_))
    }

    /// Returns the name of a key.
    pub(super) fn key(&self, part: &str) -> Vec<u8> {
        keys::hub(&self.prefix, part).into_bytes()
    }

    /// Calls the script that has these arguments; rows may follow.
    pub(super) fn call<A: Arguments>(&self, arguments: A) -> Call {
        let script = A::script();
        let keys = script.parts().iter().map(|part| self.key(part));
        let mut command = script.call(false, keys);
        arguments.add_to(&mut command);
        Call {
            script,
            command,
            has_records: false,
        }
    }

    /// Runs a script.
    pub(super) async fn run(&self, call: &Call) -> Result<Value> {
        self.lifecycle.check_open()?;
        self.link.run(call.script, &call.command).await
    }

    /// Sends a command.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value> {
        self.lifecycle.check_open()?;
        self.link.send(command).await
    }

    /// Checks the key format at the start, which writes nothing: under a mistyped prefix there is
    /// nothing, and nothing is left behind by a look. While the cluster node that has it is
    /// unavailable, the first successful membership poll checks it.
    pub(in crate::store::redis) async fn claim_at_start(&self) -> Result<()> {
        match self.claim_once(false).await {
            Err(error) if self.is_cluster() && is_away(&error) => {
                panics::reported(|| {
                    tracing::warn!(
                        %error,
                        "the server that has the registry of nodes and buckets is away: this program \
                         starts on what its settings say"
                    );
                });
                Ok(())
            }
            claimed => claimed,
        }
    }

    /// Checks the key format, until it has been found, and writes it if there is none and `writes`.
    pub(super) async fn claim_once(&self, writes: bool) -> Result<()> {
        if !self.is_claimed.load(Ordering::Acquire) && self.claim(writes).await? {
            self.is_claimed.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Refuses an unknown key format. If there is none, writes it if `writes`; returns whether there
    /// is one now.
    pub(super) async fn claim(&self, writes: bool) -> Result<bool> {
        let hub = self.key("hub");
        let mut question = redis::cmd("HGET");
        question.arg(&hub).arg("format");
        let mut reply = self.send(&question).await?;
        // Only if it is missing: a server whose memory is full refuses writes, and must drain.
        if reply == Value::Nil {
            if !writes {
                return Ok(false);
            }
            let mut command = redis::cmd("HSETNX");
            command.arg(&hub).arg("format").arg(FORMAT);
            self.send(&command).await?;
            reply = self.send(&question).await?;
        }
        match reply {
            Value::BulkString(format) => self.check_format(&format).map(|()| true),
            _ => Err(unreadable("HGET")),
        }
    }

    /// Refuses an unknown key format.
    pub(super) fn check_format(&self, format: &[u8]) -> Result<()> {
        if format == FORMAT.as_bytes() {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "the keys under prefix {:?} have format {}, this duly knows format {FORMAT}: they were \
             written by another version of duly; use that one, or another prefix",
            self.prefix,
            String::from_utf8_lossy(format)
        )))
    }
}

/// Returns whether no server responded, so that a retry may succeed.
pub(super) fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown)
}
