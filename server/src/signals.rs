//! The signals by which the process is told what to do.

use std::io::{self, Read};
use std::pin::pin;
use std::thread;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// What a signal tells the process to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalAction {
    /// By TERM or INT, or by the end of the standard input.
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
    /// Told of the end of the standard input, where that means something.
    input: Option<oneshot::Receiver<()>>,
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

    /// The end of the standard input says [`Stop`](SignalAction::Stop), too.
    pub(crate) fn and_end_of_input(mut self) -> io::Result<Self> {
        let (ends, input) = oneshot::channel();
        // The runtime's own reader would keep the process until there is something to read.
        thread::Builder::new()
            .name("duly-stdin".to_owned())
            .spawn(move || {
                pass_over(io::stdin().lock());
                let _ = ends.send(()); // the process may have been told to stop already
            })?;
        self.input = Some(input);
        Ok(self)
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
            input: None,
        })
    }

    /// Reloads whenever the process is told to, until it is told to stop, which no reload delays.
    pub(crate) async fn reload_until_stop(&mut self, reload: impl AsyncFn()) {
        let mut is_wanted = false;
        loop {
            if !std::mem::take(&mut is_wanted) && self.next().await == SignalAction::Stop {
                return;
            }
            let mut reload = pin!(reload());
            loop {
                tokio::select! {
                    () = &mut reload => break,
                    action = self.next() => match action {
                        SignalAction::Stop => return,
                        SignalAction::Reload => is_wanted = true, // what is read may be older
                    },
                }
            }
        }
    }

    /// Waits until the process is told something.
    pub(crate) async fn next(&mut self) -> SignalAction {
        let [second, alarm] = &mut self.others;
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return SignalAction::Stop,
                _ = self.interrupt.recv() => return SignalAction::Stop,
                () = ended(self.input.as_mut()) => {
                    tracing::info!("the standard input has ended");
                    self.input = None;
                    return SignalAction::Stop;
                }
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

/// Waits for the end of the standard input; for ever where it means nothing.
async fn ended(input: Option<&mut oneshot::Receiver<()>>) {
    match input {
        Some(input) => drop(input.await),
        None => std::future::pending().await,
    }
}

/// Reads to the end, or to an error, after which nothing more comes either.
fn pass_over(mut input: impl Read) {
    let mut some = [0; 1024];
    loop {
        match input.read(&mut some) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Whether the process ignores HUP, which has the first bit.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 != 0)
}
