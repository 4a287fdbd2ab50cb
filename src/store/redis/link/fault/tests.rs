use super::table::{RULES, SAYINGS};
use super::*;
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::link::options::ConnectionOptions;
use crate::store::redis::link::tests::pretend::{Act, cluster, server};
use crate::store::redis::link::url::Target;
use ErrorKind::{Closed, Conflict, Corrupt, Full, Invalid, LeaseLost, NotFound};
use ErrorKind::{Unavailable, Unknown};

const KEEPS: bool = false;
const BREAKS: bool = true;

/// Error replies of a server with their classification: the kind, and whether the connection is
/// dropped. Every kind but `Unknown` says that nothing happened.
#[rustfmt::skip]
const ANSWERS: &[(&str, ErrorKind, bool)] = &[
    ("-LOADING Redis is loading the dataset in memory\r\n", Unavailable, KEEPS),
    ("-READONLY You can't write against a read only replica.\r\n", Unavailable, BREAKS),
    ("-READONLY You can't write against a read only replica. script: 9f, on @user_script:1.\r\n", Unavailable, BREAKS),
    ("-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", Unavailable, BREAKS),
    ("-CLUSTERDOWN The cluster is down\r\n", Unavailable, KEEPS),
    ("-TRYAGAIN Multiple keys request during rehashing of slot\r\n", Unavailable, KEEPS),
    ("-MOVED 866 127.0.0.1:7000\r\n", Unavailable, KEEPS),
    ("-ASK 866 127.0.0.1:7000\r\n", Unavailable, KEEPS),
    ("-CROSSSLOT Keys in request don't hash to the same slot\r\n", Invalid, KEEPS),
    ("-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n", Unavailable, KEEPS),
    ("-OOM command not allowed when used memory > 'maxmemory'.\r\n", Full, KEEPS),
    ("-OOM command not allowed when used memory > 'maxmemory'. script: 9f, on @user_script:1.\r\n", Full, KEEPS),
    ("-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.\r\n", Unavailable, KEEPS),
    ("-NOREPLICAS Not enough good replicas to write.\r\n", Unavailable, KEEPS),
    ("-NOSCRIPT No matching script. Please use EVAL.\r\n", Unavailable, KEEPS),
    ("-ERR Function not found\r\n", Unavailable, KEEPS),
    ("-NOPERM this user has no permissions to run the 'evalsha' command\r\n", Unavailable, KEEPS),
    ("-NOPERM this user has no permissions to access one of the keys script: 9f, on @user_script:3.\r\n", Unknown, KEEPS),
    ("-NOAUTH Authentication required.\r\n", Unavailable, BREAKS),
    ("-WRONGPASS invalid username-password pair or user is disabled.\r\n", Unavailable, BREAKS),
    ("-DENIED Redis is running in protected mode\r\n", Unavailable, BREAKS),
    ("-NOPROTO unsupported protocol version\r\n", Unavailable, BREAKS),
    ("-EXECABORT Transaction discarded because of previous errors.\r\n", Unavailable, KEEPS),
    ("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", Corrupt, KEEPS),
    ("-WRONGTYPE Operation against a key holding the wrong kind of value script: 9f, on @user_script:2.\r\n", Unknown, KEEPS),
    ("-ERR max number of clients reached\r\n", Unavailable, BREAKS),
    ("-ERR upstream failure\r\n", Unavailable, BREAKS),
    ("-ERR DB index is out of range\r\n", Invalid, KEEPS),
    ("-ERR This instance has cluster support disabled\r\n", Invalid, KEEPS),
    ("-ERR unknown command 'EVALSHA', with args beginning with: \r\n", Invalid, KEEPS),
    ("-ERR this user has no permissions to run the 'select' command\r\n", Unavailable, KEEPS),
    ("-ERR unknown subcommand 'X'. Try SCRIPT HELP.\r\n", Invalid, KEEPS),
    ("-ERR Unknown subcommand or wrong number of arguments for 'X'\r\n", Invalid, KEEPS),
    ("-ERR wrong number of arguments for 'evalsha' command\r\n", Invalid, KEEPS),
    ("-ERR syntax error\r\n", Invalid, KEEPS),
    ("-ERR Unexpected flag in script shebang: allow-oom\r\n", Invalid, KEEPS),
    ("-ERR Error compiling script (new function): user_script:1: '=' expected\r\n", Invalid, KEEPS),
    ("-ERR AUTH <password> called without any password configured for the default user\r\n", Invalid, KEEPS),
    ("-ERR Connection timed out\r\n", Unknown, KEEPS),
    ("-ERR user_script:3: attempt to index a nil value script: 9f, on @user_script:3.\r\n", Unknown, KEEPS),
    ("-STRANGE nobody has heard of it\r\n", Unknown, KEEPS),
    ("-DULY INVALID words\r\n", Invalid, KEEPS),
    ("-DULY NOTFOUND words\r\n", NotFound, KEEPS),
    ("-DULY CONFLICT words\r\n", Conflict, KEEPS),
    ("-DULY FULL words\r\n", Full, KEEPS),
    ("-DULY LEASELOST words\r\n", LeaseLost, KEEPS),
    ("-DULY UNAVAILABLE words\r\n", Unavailable, KEEPS),
    ("-DULY CORRUPT words\r\n", Corrupt, KEEPS),
    ("-DULY CLOSED words\r\n", Closed, KEEPS),
    ("-DULY EXPIRED words\r\n", Unavailable, KEEPS),
    ("-DULY OTHER words\r\n", Unknown, KEEPS),
    ("this is no answer\r\n", Unknown, BREAKS),
];

async fn link(url: &str) -> crate::error::Result<ManagedConnection> {
    let url = format!("{url}?timeout=300ms");
    let target = Target::parse(&url)?;
    ManagedConnection::open(&target, &ConnectionOptions::of(&target)).await
}

/// Returns the error of a call, and whether the next one finds another connection.
async fn called(act: Act) -> (Error, bool) {
    let link = link(&server(act).await).await.expect("it greets");
    let made = *link.connections().borrow();
    let call = redis::cmd("EVALSHA");
    let error = link.send(&call).await.expect_err("it is refused");
    let _ = link.send(&call).await;
    let is_other = *link.connections().borrow() != made;
    (error, is_other)
}

#[tokio::test]
async fn every_answer_means_what_the_table_says() {
    for (reply, kind, breaks) in ANSWERS {
        let (error, is_other) = called(Act::Say(reply)).await;
        assert_eq!(
            (error.kind(), is_other),
            (*kind, *breaks),
            "{reply}: {error}"
        );
    }
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle_leaves_it_unknown() {
    for (act, breaks) in [
        (Act::Close, BREAKS),
        (Act::SayAndClose("$100\r\nhalf"), BREAKS),
        (Act::SayAndClose("*3\r\n:1\r\n"), BREAKS),
        (Act::Hang, KEEPS),
    ] {
        let (error, is_other) = called(act.clone()).await;
        assert_eq!(
            (error.kind(), is_other),
            (Unknown, breaks),
            "{act:?}: {error}"
        );
    }
}

#[tokio::test]
async fn nothing_happened_where_there_was_no_connection() {
    for (greeting, kind) in [
        (
            "-LOADING Redis is loading the dataset in memory\r\n",
            Unavailable,
        ),
        ("-WRONGPASS invalid username-password pair\r\n", Unavailable),
        (
            "-NOAUTH HELLO must be called with the client already authenticated\r\n",
            Unavailable,
        ),
        (
            "-DENIED Redis is running in protected mode\r\n",
            Unavailable,
        ),
        ("-NOPROTO unsupported protocol version\r\n", Invalid),
        ("-ERR max number of clients reached\r\n", Unavailable),
        (
            "-ERR unknown command `HELLO`, with args beginning with: `3`\r\n",
            Invalid,
        ),
        ("this is no answer\r\n", Unavailable),
    ] {
        let url = server(Act::Greet(greeting)).await;
        let error = link(&url).await.map(|_| ()).expect_err(greeting);
        assert_eq!(error.kind(), kind, "{greeting}: {error}");
    }
}

/// A row that another one hides is the answer to nothing.
#[test]
fn every_row_of_the_table_is_the_answer_to_an_error() {
    for rule in RULES {
        let is_answer = |(reply, ..): &(&str, _, _)| {
            let words = reply.strip_prefix('-').and_then(|it| it.split_once(' '));
            let first = words.and_then(|(code, detail)| rule_of(code, detail));
            first.is_some_and(|first| std::ptr::eq(first, rule))
        };
        let part = rule.detail.unwrap_or_default();
        assert!(ANSWERS.iter().any(is_answer), "{} {part}", rule.code);
    }
    for (saying, _) in SAYINGS {
        let start = format!("-DULY {saying} ");
        let tested = |(reply, ..): &(&str, _, _)| reply.starts_with(&start);
        assert!(ANSWERS.iter().any(tested), "{saying}");
    }
}

#[tokio::test]
async fn the_words_say_what_to_do() {
    for (reply, words) in [
        ("-OOM command not allowed\r\n", "raise it"),
        ("-MOVED 866 127.0.0.1:7000\r\n", "redis-cluster://"),
        (
            "-DULY LEASELOST event 7 was reaped\r\n",
            "event 7 was reaped",
        ),
    ] {
        let (error, _) = called(Act::Say(reply)).await;
        let text = error.to_string();
        assert!(text.contains(words), "{text}");
        assert!(!text.contains("DULY"), "{text}");
    }
}

#[tokio::test]
async fn in_a_cluster_a_refusal_after_a_lost_attempt_is_doubted() {
    const DOWN: Act = Act::Say("-CLUSTERDOWN The cluster is down\r\n");
    for (acts, kind) in [
        (vec![DOWN], Unavailable),
        (vec![Act::Close, DOWN], Unknown),
        (vec![Act::SayAndClose("$100\r\nhalf"), DOWN], Unknown),
    ] {
        let url = cluster(acts.clone()).await;
        let target = Target::parse(&url).expect(&url);
        let link = ManagedConnection::open(&target, &ConnectionOptions::of(&target))
            .await
            .expect("it greets");
        let mut call = redis::cmd("EVALSHA");
        call.arg("hash").arg(1).arg("key");
        let error = link.send(&call).await.expect_err("it is down");
        assert_eq!(error.kind(), kind, "{acts:?}: {error}");
        assert!(!is_of_the_data(&error), "{acts:?}: {error}");
    }
}

#[tokio::test]
async fn what_is_stored_is_what_fails_a_script_by_its_own_words() {
    const BROKEN: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    const LOADS: &str = "-LOADING Redis is loading the dataset in memory\r\n";
    for (reply, is_data) in [
        (format!("{BROKEN}\r\n"), true),
        (format!("{BROKEN} script: 9f, on @user_script:1.\r\n"), true),
        (LOADS.to_owned(), false),
    ] {
        let reply: &'static str = reply.leak();
        let (error, _) = called(Act::Say(reply)).await;
        assert_eq!(is_of_the_data(&error), is_data, "{reply}: {error}");
    }
    let (error, _) = called(Act::Close).await;
    assert!(!is_of_the_data(&error), "{error}");
}
