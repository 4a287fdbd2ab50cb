//! Files of an embedded store and of the shared state that fail.

use std::collections::BTreeSet;
use std::process::Command;

use super::{Target, failed, publish};

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
