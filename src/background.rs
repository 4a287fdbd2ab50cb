//! A small runtime of one thread, for what goes on while a program's own runtime is blocked:
//! connections to a shared store, and the calls that keep its leases.
//!
//! A process has one at a time, which its stores and buses share: it starts with the first of them
//! and ends with the last.

use std::future::Future;
use std::io;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::panics;

static SHARED: Mutex<Weak<Background>> = Mutex::new(Weak::new());

/// A runtime for calls to a store. If it is the small one, its thread and its tasks end when this is
/// dropped.
#[derive(Debug)]
pub(crate) struct Background {
    handle: Handle,
    own: Option<Runtime>,
}

impl Background {
    /// Returns the process's small runtime, starting it if there is none.
    ///
    /// If the system has no thread for it that is logged, and the current runtime takes its place.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, if there is no thread.
    pub(crate) fn shared() -> Arc<Self> {
        // Poison is harmless: every change under the lock is one assignment.
        let mut shared = SHARED.lock();
        if let Some(running) = shared.upgrade() {
            return running;
        }
        // With a worker of its own, as a runtime of the current thread would need one to drive it.
        let build = || {
            Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("duly-store")
                .enable_all()
                .build()
        };
        // It panics where the system has no thread.
        let runtime = panics::caught(build).unwrap_or_else(|words| Err(io::Error::other(words)));
        match runtime {
            Ok(runtime) => {
                let handle = runtime.handle().clone();
                let own = Some(runtime);
                let started = Arc::new(Self { handle, own });
                *shared = Arc::downgrade(&started);
                started
            }
            Err(error) => {
                panics::reported(|| {
                    tracing::warn!(
                        %error,
                        "failed to start a thread for calls to the store; a handler that blocks \
                         its runtime for longer than the lease timeout loses its lease"
                    );
                });
                Self::current()
            }
        }
    }

    /// Returns the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub(crate) fn current() -> Arc<Self> {
        Arc::new(Self {
            handle: Handle::current(),
            own: None,
        })
    }

    /// Returns whether it is another runtime than the program's.
    pub(crate) fn is_apart(&self) -> bool {
        self.own.is_some()
    }

    /// Spawns a task.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.handle.spawn(task)
    }

    /// Makes it the current runtime of this thread until the guard is dropped.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }
}

impl Drop for Background {
    /// Waits for nothing, so that it may happen anywhere, also in one of its tasks.
    fn drop(&mut self) {
        if let Some(runtime) = self.own.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_ends_with_its_last_user_wherever_that_is_dropped() {
        let one = Background::shared();
        let other = Background::shared();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        drop(one);
        // Its task has the last one, and what the task holds goes with the thread.
        let handle = other.handle.clone();
        let task = handle.spawn(async move {
            drop(other);
            let _held = sender;
            std::future::pending::<()>().await;
        });
        assert!(task.await.is_err_and(|ended| ended.is_cancelled()));
        assert!(receiver.await.is_err());
    }

    #[test]
    fn its_tasks_go_on_while_the_runtime_of_its_user_is_blocked() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let background = Background::shared();
            let (sender, receiver) = std::sync::mpsc::channel();
            background.spawn(async move { sender.send(()) });
            receiver.recv().expect("a task that ran"); // without an await
        });
    }
}
