//! A server that is killed in the middle of a change of the shared state.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::Method;
use sha2::{Digest, Sha256};

use super::Target;
use crate::kills::Program;

const REVOKED: &str = "a-token-that-is-revoked";
const STATE: [(&str, &str); 1] = [("DULY_SERVER__ADMIN__STATE", "sqlite:state.db")];

/// Kills a process as it writes to a disk for the `sync`th time from now on.
fn kill_at_sync(program: &Program, sync: usize) -> Child {
    let calls = "fsync,fdatasync";
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    strace.args(["-e", &format!("inject={calls}:signal=KILL:when={sync}")]);
    strace.args(["-p", &program.child.id().to_string()]);
    let mut strace = strace.stderr(Stdio::piped()).spawn().expect("`strace`");
    let mut words = BufReader::new(strace.stderr.take().expect("its errors"));
    let mut line = String::new();
    words.read_line(&mut line).expect("a line");
    assert!(line.contains("attached"), "{line}");
    // What it writes later is read, so that it never waits.
    std::thread::spawn(move || std::io::copy(&mut words, &mut std::io::sink()));
    strace
}

/// Whether the limit of a token is there, and whether the token and its end in the audit are.
async fn found(server: &Target, handle: &str) -> [bool; 3] {
    let get = async |path| {
        server
            .admin(Method::GET, path, "")
            .await
            .is(200)
            .to_string()
    };
    let limits = get("/limits").await;
    let tokens = get("/token/other").await;
    let audit = get("/audit").await;
    let lines = audit.split("\"action\"");
    let mut ends = lines.filter(|line| line.contains("token revoked"));
    [
        limits.contains(handle),
        tokens.contains(handle),
        ends.any(|line| line.contains(handle)),
    ]
}

/// It is tried again by a text or a handle, whichever the first try was by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_ends_with_its_limit_and_in_the_audit_wherever_its_revocation_is_cut() {
    let hash = Sha256::digest(REVOKED);
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let handle = &*format!("sha256~{}", &hash[..16]);
    for [first, again] in [[REVOKED, handle], [handle, REVOKED], [handle, handle]] {
        for sync in 1.. {
            let why = format!("by {first}, cut at sync {sync}, then by {again}");
            let folder = tempfile::tempdir().unwrap();
            let mut server = Target::start(folder.path(), "sqlite:jobs.db", &STATE).await;
            let create = format!("/token/other?description=d&token={REVOKED}");
            server.admin(Method::POST, &create, "").await.is(201);
            let limit = format!("/token/other/{REVOKED}/limit");
            let body = r#"{"read":1,"write":1,"interval":3600}"#;
            server.admin(Method::POST, &limit, body).await.is(201);

            let mut strace = kill_at_sync(&server.program, sync);
            let url = format!("{}/token/other/{first}", server.program.admin);
            let response = server.client.delete(url).send().await;
            let was_cut = response.is_err();
            assert!(was_cut || sync > 1, "{why}: {response:?}");
            server.program.kill();
            strace.wait().expect("it ends with what it traces");
            server.program = Program::start_with(folder.path(), "sqlite:jobs.db", &STATE);

            let [has_limit, has_token, is_audited] = found(&server, handle).await;
            assert_eq!(has_limit, has_token, "{why}: a limit goes with its token");
            assert!(has_token || is_audited, "{why}: it ended without a line");
            assert!(was_cut || !has_token, "{why}: it was confirmed");
            let revoke = format!("/token/other/{again}");
            server.admin(Method::DELETE, &revoke, "").await.is(204);
            assert_eq!(found(&server, handle).await, [false, false, true], "{why}");
            server.admin(Method::POST, &create, "").await.is(201);
            let inherited = server.admin(Method::GET, &limit, "").await;
            assert_eq!(inherited.status, 404, "{why}");
            if !was_cut {
                break;
            }
        }
    }
}
