//! Files of an embedded store and of the shared state that fail.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use reqwest::Method;

use super::{PATIENCE, Target, failed, publish};
use crate::kills::Program;
use crate::world::reply;

/// What becomes of the files.
#[derive(Clone, Copy, Debug)]
enum FileFault {
    /// Another program has locked that of the state.
    StateLocked,
    /// None has room to grow, as with a quota or on a full disk.
    NoRoom,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_file_fails_requests_have_responses_and_afterwards_all_works() {
    for fault in [FileFault::StateLocked, FileFault::NoRoom] {
        let why = &format!("{fault:?}");
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state.db");
        let state_url = format!("sqlite:{}", state.display());
        let variables = [("DULY_SERVER__ADMIN__STATE", &*state_url)];
        let server = Target::start(folder.path(), "sqlite:jobs.db", &variables).await;
        let limit = |bytes: &str| {
            let pid = server.program.child.id().to_string();
            let set = Command::new("prlimit")
                .args(["--pid", &pid, bytes])
                .status();
            assert!(set.expect("`prlimit` is there").success());
        };
        let mut confirmed = BTreeSet::new();
        let none = failed(&server, 0).await;
        assert!(none.is_empty(), "{why}: before it: {none:?}");
        publish(&server, 10, &mut confirmed).await;
        let locked = rusqlite::Connection::open(&state).unwrap();
        match fault {
            FileFault::StateLocked => locked.execute_batch("BEGIN IMMEDIATE").unwrap(),
            FileFault::NoRoom => limit("--fsize=1024:unlimited"),
        }
        failed(&server, 1).await;
        publish(&server, 3, &mut confirmed).await;
        match fault {
            FileFault::StateLocked => locked.execute_batch("ROLLBACK").unwrap(),
            FileFault::NoRoom => limit("--fsize=unlimited:unlimited"),
        }
        drop(locked);
        server.recovers(why).await;
        publish(&server, 10, &mut confirmed).await;
        server.keeps(&confirmed, why).await;
    }
}

/// What a process does not get over: it says so, confirms nothing, and the next one has all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_file_cannot_be_trusted_nothing_is_confirmed_and_the_next_start_has_all() {
    for (is_away, words) in [(true, "was deleted or moved"), (false, "I/O error")] {
        let folder = tempfile::tempdir().unwrap();
        let (jobs, away) = (folder.path().join("jobs.db"), folder.path().join("away.db"));
        let variables = [("DULY_SERVER__ADMIN__STATE", "sqlite:state.db")];
        let mut server = Target::start(folder.path(), "sqlite:jobs.db", &variables).await;
        let mut confirmed = BTreeSet::new();
        publish(&server, 10, &mut confirmed).await;
        let mut tracer = None;
        if is_away {
            std::fs::rename(&jobs, &away).unwrap();
        } else {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
            strace.args(["-e", "inject=fsync,fdatasync:error=EIO", "-p"]);
            let strace = strace.arg(server.program.child.id().to_string());
            let strace = strace.stderr(Stdio::null()).spawn();
            tracer = Some(strace.expect("`strace` is there"));
        }
        let told = async {
            loop {
                publish(&server, 1, &mut confirmed).await;
                let ready = reply(server.request(Method::GET, "/readyz")).await;
                let told = ready.json()["parts"]["pool default"].to_string();
                // The state's file may have failed before.
                if ready.status == 503 && told.contains(words) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect(words);
        assert!(!failed(&server, 1).await.is_empty(), "{words}");
        let before = confirmed.len();
        publish(&server, 3, &mut confirmed).await;
        assert_eq!(confirmed.len(), before, "{words}: confirmed");
        server.program.kill();
        if let Some(mut tracer) = tracer {
            tracer.wait().expect("it ends with what it traces");
        } else {
            std::fs::rename(&away, &jobs).unwrap();
        }
        server.program = Program::start_with(folder.path(), "sqlite:jobs.db", &variables);
        server.recovers(words).await;
        publish(&server, 3, &mut confirmed).await;
        server.keeps(&confirmed, words).await;
    }
}
