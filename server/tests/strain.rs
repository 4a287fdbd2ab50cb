//! A server that is short of something, or told something: descriptors, a reader of its output, a
//! disk; a stop, a new certificate, signals.

use std::time::Duration;

use reqwest::Certificate;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::kills::Program;
use crate::world::{client, reply, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_duly");
const TOKEN: &str = "a-token-under-strain-0001";

async fn make_token(program: &Program) {
    let path = format!("{}/token/ns?description=d&token={TOKEN}", program.admin);
    reply(client().post(path)).await.is(201);
}

async fn publish(program: &Program, queue: &str) {
    let put = client().put(format!("{}/api/ns/{queue}", program.api));
    let put = reply(put.header("X-Token", TOKEN).body("x"));
    let put = tokio::time::timeout(Duration::from_secs(30), put).await;
    put.expect("an answer").is(201);
}

async fn connect(program: &Program) -> TcpStream {
    let api = program.api.strip_prefix("http://").unwrap();
    TcpStream::connect(api).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_nobody_reads_stops_no_request_and_no_stop() {
    let folder = tempfile::tempdir().unwrap();
    let log = [("DULY_SERVER__LOG__ACCESS", "true")];
    let mut program = Program::run(&[PROGRAM], folder.path(), "sqlite:duly.db", &log);
    make_token(&program).await;
    let client = client();
    let mut requests = JoinSet::new();
    for _ in 0..8 {
        let get = client.get(format!("{}/healthz", program.api));
        requests.spawn(async move {
            for _ in 0..4_000 {
                let get = reply(get.try_clone().unwrap());
                let get = tokio::time::timeout(Duration::from_secs(30), get).await;
                get.expect("an answer").is(200);
            }
        });
    }
    requests.join_all().await;
    publish(&program, "q").await;
    let metrics = format!("{}/metrics", program.admin);
    let dropped = async || {
        let page = reply(client.get(&metrics)).await.text;
        page.contains("duly_log_lines_dropped")
    };
    assert!(
        !dropped().await,
        "nothing is known of it while the output is blocked"
    );
    let output = program.read().unwrap();
    until("what was dropped is counted", dropped).await;
    program.signal("TERM");
    assert!(program.ended().await);
    let output = output.join().unwrap();
    assert!(output.contains("log lines dropped"), "{}", output.len());
    assert!(output.ends_with("stopped\n"), "the last lines are there");
    // And a stop does not wait for a reader.
    let mut program = Program::run(&[PROGRAM], folder.path(), "sqlite:duly.db", &log);
    for _ in 0..2_000 {
        reply(client.get(format!("{}/healthz", program.api)))
            .await
            .is(200);
    }
    program.signal("TERM");
    assert!(program.ended().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_few_descriptors_the_idlest_connections_end_and_operators_get_in() {
    let folder = tempfile::tempdir().unwrap();
    let limited = ["sh", "-c", "ulimit -n 300; exec \"$@\"", "sh", PROGRAM];
    let mut program = Program::run(&limited, folder.path(), "sqlite:duly.db", &[]);
    make_token(&program).await;
    let mut idle = Vec::new();
    for number in 0..500 {
        let mut stream = connect(&program).await;
        // Silent, with half a head, and idle after a request.
        if number % 3 > 0 {
            let head = "GET /healthz HTTP/1.1\r\nHost: x\r\n";
            let end = if number % 3 == 1 { "" } else { "\r\n" };
            stream
                .write_all(format!("{head}{end}").as_bytes())
                .await
                .ok();
        }
        idle.push(stream);
    }
    for _ in 0..20 {
        for url in [&program.api, &program.admin] {
            let get = reply(client().get(format!("{url}/healthz")));
            let get = tokio::time::timeout(Duration::from_secs(30), get).await;
            get.expect("an answer").is(200);
        }
        publish(&program, "q").await;
    }
    let mut first = Vec::new();
    let ended = idle[0].read_to_end(&mut first);
    let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
    ended.expect("the idlest has ended").ok();
    let mut newest = idle.pop().unwrap();
    newest
        .write_all(b"\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut begin = [0; 12];
    newest.read_exact(&mut begin).await.unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
    let output = program.read().unwrap();
    program.signal("TERM");
    assert!(program.ended().await);
    let output = output.join().unwrap();
    assert!(output.lines().count() < 20, "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_does_not_respond_stops_no_push_to_a_new_queue() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.db");
    let url = format!("sqlite:{}", state.display());
    let variables = [("DULY_SERVER__ADMIN__STATE", &*url)];
    let mut program = Program::run(&[PROGRAM], folder.path(), "sqlite:duly.db", &variables);
    make_token(&program).await;
    publish(&program, "first").await;
    let locked = rusqlite::Connection::open(&state).unwrap();
    locked.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut pushes = JoinSet::new();
    for number in 0..16 {
        let put = client().put(format!("{}/api/ns/new-{number}", program.api));
        pushes.spawn(reply(put.header("X-Token", TOKEN).body("x")));
    }
    for pushed in pushes.join_all().await {
        pushed.is(201);
    }
    reply(client().get(format!("{}/healthz", program.api)))
        .await
        .is(200);
    locked.execute_batch("ROLLBACK").unwrap();
    program.signal("TERM");
    assert!(program.ended().await);
    let known = "SELECT count(*) FROM entries WHERE kind = 'queues' AND key LIKE '%/new-%'";
    let known: i64 = locked.query_row(known, [], |row| row.get(0)).unwrap();
    assert_eq!(known, 16, "they are known in the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_half_a_request() {
    let folder = tempfile::tempdir().unwrap();
    // The grace is longer than a test may take.
    let grace = [
        ("DULY_SERVER__LIMITS__GRACE_S", "3600"),
        ("DULY_SERVER__LIMITS__BODY_TIMEOUT_S", "3600"),
        ("DULY_SERVER__LIMITS__HEADER_TIMEOUT_S", "3600"),
    ];
    let mut program = Program::run(&[PROGRAM], folder.path(), "sqlite:duly.db", &grace);
    make_token(&program).await;
    let token = format!("Host: x\r\nX-Token: {TOKEN}\r\n");
    let lines = "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
    let json = "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{";
    let large = format!("Content-Length: 900000\r\n\r\n{}", "x".repeat(800_000));
    let mut begun = Vec::new();
    for request in [
        String::new(),
        "GET /healthz HT".to_owned(),
        format!("GET /healthz HTTP/1.1\r\n{token}"),
        format!("PUT /api/ns/q HTTP/1.1\r\n{token}Content-Length: 10\r\n\r\n"),
        format!("PUT /api/ns/q HTTP/1.1\r\n{token}Content-Length: 10\r\n\r\nx"),
        format!("PUT /api/ns/q HTTP/1.1\r\n{token}{large}"),
        format!("GET /api/ns/q?timeout=600 HTTP/1.1\r\n{token}Content-Length: 10\r\n\r\n"),
        format!("POST /v1/ns/queues/q/events HTTP/1.1\r\n{token}{json}"),
        format!("POST /v1/ns/queues/q/events HTTP/1.1\r\n{token}{lines}"),
        format!("POST /v1/ns/queues/q/events HTTP/1.1\r\n{token}{lines}5\r\n{{\"pay"),
        format!("GET /v1/ns/queues/q/leases/stream?ttr_ms=1000 HTTP/1.1\r\n{token}\r\n"),
        format!("GET /api/ns/q?timeout=600 HTTP/1.1\r\n{token}\r\n"),
        "PUT /api//q HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n".to_owned(),
    ] {
        let mut stream = connect(&program).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        begun.push(stream);
    }
    let admin = program.admin.strip_prefix("http://").unwrap();
    for request in [
        "GET /met".to_owned(),
        "POST /token/ns HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
         application/x-www-form-urlencoded\r\nContent-Length: 10\r\n\r\nx"
            .to_owned(),
    ] {
        let mut stream = TcpStream::connect(admin).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        begun.push(stream);
    }
    publish(&program, "other").await; // what came before was read
    let output = program.read().unwrap();
    program.signal("TERM");
    assert!(program.ended().await);
    let output = output.join().unwrap();
    assert!(!output.contains("did not end in time"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_end_the_server_only_if_they_mean_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::run(&[PROGRAM], folder.path(), "sqlite:duly.db", &[]);
    make_token(&program).await;
    for signal in ["HUP", "USR1", "USR2", "ALRM", "HUP"] {
        program.signal(signal);
        publish(&program, "q").await;
    }
    program.signal("INT");
    assert!(program.ended().await);
}

/// Makes an authority and a certificate for `localhost`, and returns the authority.
fn certify(folder: &std::path::Path) -> Certificate {
    crate::servers::certificates::write(folder);
    let authority = std::fs::read(folder.join("ca.crt")).unwrap();
    Certificate::from_pem(&authority).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_served_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = certify(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let variables = [
        ("DULY_SERVER__API__TLS_CERTIFICATE", &*file("server.crt")),
        ("DULY_SERVER__API__TLS_KEY", &*file("server.key")),
    ];
    let mut program = Program::run(&[PROGRAM], folder.path(), "sqlite:duly.db", &variables);
    let port = program.api.rsplit(':').next().unwrap();
    let health = format!("https://localhost:{port}/healthz");
    let _installed = client();
    // A new connection for each request.
    let trusts = async |authority: &Certificate| {
        let builder = reqwest::Client::builder().tls_certs_only([authority.clone()]);
        let client = builder.build().unwrap();
        client.get(&health).send().await.is_ok()
    };
    assert!(trusts(&first).await);
    // Half of a renewal, and files that are wrong, change nothing.
    let key = std::fs::read(file("server.key")).unwrap();
    std::fs::write(file("server.key"), "no key").unwrap();
    program.signal("HUP");
    std::fs::write(file("server.key"), key).unwrap();
    assert!(trusts(&first).await);
    let second = certify(folder.path());
    program.signal("HUP");
    until("the new one is served", async || trusts(&second).await).await;
    assert!(!trusts(&first).await);
    // Without a signal as well.
    let third = certify(folder.path());
    until("the newest one is served", async || trusts(&third).await).await;
    program.signal("TERM");
    assert!(program.ended().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_cannot_be_read_to_its_end_delays_no_stop() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let variables = [
        ("DULY_SERVER__API__TLS_CERTIFICATE", &*file("server.crt")),
        ("DULY_SERVER__API__TLS_KEY", &*file("server.key")),
    ];
    let mut program = Program::run(&[PROGRAM], folder.path(), "sqlite:duly.db", &variables);
    std::fs::remove_file(file("server.crt")).unwrap();
    let mut make = std::process::Command::new("mkfifo");
    assert!(make.arg(file("server.crt")).status().unwrap().success());
    program.signal("HUP");
    // It opens as soon as the server reads it, which gets nothing.
    let path = file("server.crt");
    let opened = tokio::task::spawn_blocking(move || {
        std::fs::OpenOptions::new().write(true).open(path).unwrap()
    });
    let pipe = tokio::time::timeout(Duration::from_secs(30), opened).await;
    let _pipe = pipe.expect("the server reads it").unwrap();
    program.signal("TERM");
    assert!(program.ended().await);
}
