//! The signals by which the process is told what to do.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal tells the process to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalAction {
    /// By TERM or INT.
    Stop,
    /// By HUP.
    Reload,
}

/// The signals that would end the process, and do not.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` where it stays ignored.
    hangup: Option<Signal>,
    /// By which the original reopens its log files.
    reopen: Signal,
    others: [Signal; 2],
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        Self::with(Some(signal(SignalKind::hangup())?))
    }

    /// As [`listen`](Self::listen), for what reads nothing again: HUP ends it, but not where it was
    /// ignored before, as `nohup` has it.
    pub(crate) fn listen_for_end() -> io::Result<Self> {
        if hangup_is_ignored() {
            Self::with(None)
        } else {
            Self::listen()
        }
    }

    fn with(hangup: Option<Signal>) -> io::Result<Self> {
        Ok(Self {
            hangup,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reopen: signal(SignalKind::user_defined1())?,
            others: [
                signal(SignalKind::user_defined2())?,
                signal(SignalKind::alarm())?,
            ],
        })
    }

    /// Waits until the process is told something.
    pub(crate) async fn next(&mut self) -> SignalAction {
        let [second, alarm] = &mut self.others;
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return SignalAction::Stop,
                _ = self.interrupt.recv() => return SignalAction::Stop,
                () = received(self.hangup.as_mut()) => return SignalAction::Reload,
                _ = self.reopen.recv() => {
                    tracing::info!("the log is standard output; nothing to reopen");
                }
                _ = second.recv() => tracing::info!("signal USR2 ignored"),
                _ = alarm.recv() => tracing::info!("signal ALRM ignored"),
            }
        }
    }
}

/// Waits for a signal; for ever where there is none.
async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether the process ignores HUP, which has the first bit.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 != 0)
}
