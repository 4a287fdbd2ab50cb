//! Script execution over a connection: by function or hash, durably, and with detection of repeats.

use std::pin::pin;

use redis::{Arg, Cmd, Value};
use tokio::time::Instant;

use super::{ManagedConnection, State, closed};
use crate::error::{Error, ErrorKind, Result};
use crate::store::redis::link::fault::{CallFailure, Stage};
use crate::store::redis::link::functions;
use crate::store::redis::link::live_connection::LiveConnection;
use crate::store::redis::link::managed::durable::{
    DurabilityWait, DurableCalls, ReachedDurability,
};
use crate::store::redis::link::script::Script;

/// A reply, and whether its call may have been executed more than once.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::store::redis) struct ScriptReply {
    pub(in crate::store::redis) value: Value,
    pub(in crate::store::redis) is_repeat: bool,
}

impl ManagedConnection {
    /// Runs a script or its function. A server that lacks it is sent its text, with the same keys,
    /// so that in a cluster it reaches the same node.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub(in crate::store::redis) async fn run(&self, script: &Script, call: &Cmd) -> Result<Value> {
        let reply = self.run_script(script, call).await?;
        Ok(reply.value)
    }

    /// Runs a script by its text, where `call` is of its hash.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub(in crate::store::redis) async fn run_text(&self, text: &str, call: &Cmd) -> Result<Value> {
        let reply = self.run_either(text, None, call).await?;
        Ok(reply.value)
    }

    /// Runs a script; also returns whether the call may have been executed more than once, so that
    /// the reply may show the effect of an earlier execution.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub(in crate::store::redis) async fn run_script(
        &self,
        script: &Script,
        call: &Cmd,
    ) -> Result<ScriptReply> {
        self.run_either(script.text(), Some(script.library()), call)
            .await
    }

    async fn run_either(
        &self,
        text: &str,
        library: Option<&str>,
        call: &Cmd,
    ) -> Result<ScriptReply> {
        let deadline = self.deadline();
        let live = self.live(deadline).await?;
        let (mut reply, mut is_repeat) = {
            let asking = pin!(live.send_noted(call, deadline));
            self.watched(&live, asking).await
        };
        let denied = reply.as_ref().err().filter(|it| it.denies_functions());
        if let Some(why) = denied {
            self.shared.options.functions.refused(why);
        }
        if denied.is_some() || reply.as_ref().is_err_and(CallFailure::lacks_script) {
            // Rare, so boxed: every call would be as large.
            let whole = with_text(text, call);
            let (again, repeats) = Box::pin(live.send_noted(&whole, deadline)).await;
            (reply, is_repeat) = (again, is_repeat || repeats);
            let is_allowed = self.shared.options.functions.is_on();
            if let Some(library) =
                library.filter(|_| is_allowed && call.args_iter().next() == Some(FCALL))
            {
                Box::pin(self.load(&live, library, call, deadline)).await;
            }
        }
        match self.judge(&live, reply) {
            Ok(value) => Ok(ScriptReply { value, is_repeat }),
            Err(error) => Err(maybe_applied(error, is_repeat)),
        }
    }

    /// Gives the server of a call a library, for its next call. One that does not arrive is given
    /// again then.
    async fn load(&self, live: &LiveConnection, library: &str, call: &Cmd, deadline: Instant) {
        let load = functions::load(library);
        let (replies, _) = live.ask_all(&load, self.slot_of(call), deadline).await;
        let reply = replies.ok().and_then(|replies| replies.into_iter().next());
        if let Some(Value::ServerError(error)) = reply
            && !error.details().is_some_and(is_loaded)
        {
            let why = CallFailure::new(error.into(), Stage::Sent);
            self.shared.options.functions.refused(&why);
        }
    }

    /// Runs a script, and returns when it is as durable as `wait` requests, or when the wait is
    /// over: the reply then contains the durability reached. A group in progress is waited for, but
    /// not beyond `deadline`: a call whose turn has not come by then is not sent.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); [`Unknown`](ErrorKind::Unknown) also when it has happened with
    /// unconfirmed durability, for instance because the server is too old for `WAITAOF`.
    pub(in crate::store::redis) async fn run_durably(
        &self,
        script: &Script,
        call: &Cmd,
        wait: DurabilityWait,
        deadline: Instant,
    ) -> Result<(ScriptReply, ReachedDurability)> {
        self.durably(script.text(), call, wait, deadline).await
    }

    /// Runs a script by its text, durably.
    #[cfg(test)]
    pub(in crate::store::redis) async fn run_text_durably(
        &self,
        text: &str,
        call: &Cmd,
        wait: DurabilityWait,
    ) -> Result<(Value, ReachedDurability)> {
        let deadline = Instant::now() + (self.shared.options.timeout + wait.timeout) * 2;
        let (noted, reached) = self.durably(text, call, wait, deadline).await?;
        Ok((noted.value, reached))
    }

    async fn durably(
        &self,
        text: &str,
        call: &Cmd,
        wait: DurabilityWait,
        deadline: Instant,
    ) -> Result<(ScriptReply, ReachedDurability)> {
        let shared = &self.shared;
        if matches!(*shared.state(), State::Closed) {
            return Err(closed());
        }
        let durable = shared.durable.get_or_init(|| {
            let name = format!("{}-durable", shared.options.name);
            let options = shared.options.clone().named(&name);
            DurableCalls::new(Self::new(&shared.target, options))
        });
        durable.run(text, call, wait, deadline).await
    }
}

/// The name of the command that calls a function.
const FCALL: Arg<&[u8]> = Arg::Simple(b"FCALL");

/// Returns whether an error says that another process has loaded the same library meanwhile.
fn is_loaded(error: &str) -> bool {
    error.contains("already exists")
}

/// Returns the error of a call of which an earlier execution may have succeeded.
pub(in crate::store::redis) fn maybe_applied(error: Error, is_repeat: bool) -> Error {
    if is_repeat && error.kind() != ErrorKind::Unknown {
        Error::new(ErrorKind::Unknown, error.to_string()).because(error)
    } else {
        error
    }
}

/// Replaces the script's hash by its text.
pub(in crate::store::redis) fn with_text(text: &str, call: &Cmd) -> Cmd {
    let mut whole = redis::cmd("EVAL");
    whole.arg(text);
    for argument in call.args_iter().skip(2) {
        if let Arg::Simple(bytes) = argument {
            whole.arg(bytes);
        }
    }
    whole
}
