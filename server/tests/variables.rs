//! Settings by variables of the environment.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::{Command, Output};

use duly_server::Settings;

use crate::kills::Program;
use crate::world::{client, reply};

/// Each setting, and a text that it may be.
const SETTINGS: [(&str, &str); 38] = [
    ("clock", "system"),
    ("api.listen", "127.0.0.1:0"),
    ("api.tls_certificate", "a.crt"),
    ("api.tls_key", "a.key"),
    ("admin.listen", "127.0.0.1:0"),
    ("admin.accounts.ann", "a password"),
    ("admin.hosts", "duly.internal, duly.example"),
    ("admin.trusted_proxies", "10.0.0.0/8, ::1"),
    ("admin.state", "memory:"),
    ("admin.dashboard", "false"),
    ("admin.behind_tls", "true"),
    ("jobs.delay_s", "1"),
    ("jobs.ttl_s", "1"),
    ("jobs.tries", "1"),
    ("jobs.ttr_s", "1"),
    ("jobs.timeout_s", "1"),
    ("limits.connections", "10"),
    ("limits.header_timeout_s", "1"),
    ("limits.body_timeout_s", "1"),
    ("limits.write_timeout_s", "1"),
    ("limits.grace_s", "1"),
    ("log.format", "json"),
    ("log.access", "false"),
    ("outbox.url", "sqlite:shop.db"),
    ("outbox.pool", "eu"),
    ("outbox.done_kept_s", "5184000"),
    ("pools.eu.url", "memory:"),
    ("webhooks.allow_http", "true"),
    ("webhooks.allow_private", "true"),
    ("webhooks.allow_networks", "10.1.0.0/16, fd00::/8"),
    ("webhooks.ca_certificates", "ca.crt"),
    ("webhooks.connect_timeout_ms", "1000"),
    ("webhooks.ttr_ms", "1000"),
    ("webhooks.concurrency", "10"),
    ("webhooks.circuit_failures", "10"),
    ("webhooks.circuit_rest_ms", "100"),
    ("webhooks.circuit_rest_max_ms", "1000"),
    ("webhooks.circuit_free_probes", "10"),
];

/// Returns the keys of a section, as the error of an unknown one lists them.
fn keys(section: &str) -> BTreeSet<String> {
    let error = Settings::from_toml(&format!("{section}\nnone = 1")).unwrap_err();
    let error = error.to_string();
    let (_, known) = error.split_once("expected").expect("what is known");
    let known = known.split(" for key").next().expect("a part");
    known
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn variable(key: &str) -> String {
    format!("DULY_SERVER__{}", key.to_uppercase().replace('.', "__"))
}

fn duly(folder: &std::path::Path, arguments: &[&str], variables: &[(String, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    let variables = variables.iter().map(|(name, value)| (name, value));
    command.args(arguments).envs(variables).current_dir(folder);
    command.output().expect("the program starts")
}

#[test]
fn each_setting_may_be_set_by_a_variable() {
    let mut known = BTreeSet::new();
    for key in keys("") {
        match key.as_str() {
            "clock" => drop(known.insert(key)),
            "pools" => known.extend(keys("[pools.eu]").iter().map(|it| format!("pools.eu.{it}"))),
            section => {
                let inner = keys(&format!("[{section}]"));
                known.extend(inner.iter().map(|it| format!("{section}.{it}")));
            }
        }
    }
    // That one is wrong, so that what is said is only of it.
    assert!(known.remove("log.level"));
    let named = |key: &str| key.replace(".ann", "");
    let listed: BTreeSet<_> = SETTINGS.iter().map(|(key, _)| named(key)).collect();
    assert_eq!(listed, known);
    let mut variables: Vec<_> = SETTINGS.map(|(key, value)| (variable(key), value)).into();
    variables.push((variable("log.level"), "loud"));
    let folder = tempfile::tempdir().unwrap();
    let output = duly(folder.path(), &["serve"], &variables);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("log.level is \"loud\""), "{said}");
}

/// `on` would be one connection, and `1.6` two.
#[test]
fn a_number_is_a_whole_number_and_nothing_else() {
    let is_number = |value: &str| value.parse::<u64>().is_ok();
    let numbers = SETTINGS.iter().filter(|(_, value)| is_number(value));
    let mut checked = 0;
    for (key, _) in numbers {
        let (section, name) = key.split_once('.').unwrap();
        for wrong in [
            "'on'", "'off'", "true", "false", "1.6", "0.4", "'1.6'", "-30", "'-1'", "''",
        ] {
            let text = format!("[{section}]\n{name} = {wrong}");
            let error = Settings::from_toml(&text).unwrap_err().to_string();
            let given = wrong.trim_matches('\'');
            for part in [key, given, "expected a whole number from 0 to "] {
                assert!(error.contains(part), "{text}: {error}");
            }
            checked += 1;
        }
        let right = format!("[{section}]\n{name} = ");
        for number in ["1000", "'1000'"] {
            let _right = Settings::from_toml(&format!("{right}{number}")).unwrap();
        }
    }
    assert_eq!(checked, 180);
    let folder = tempfile::tempdir().unwrap();
    let wrong = (variable("limits.connections"), "on");
    let output = duly(folder.path(), &["serve"], &[wrong]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "invalid value: string \"on\", expected a whole number from 0 to ";
    assert!(
        said.contains(expected) && said.contains("limits.connections"),
        "{said}"
    );
}

/// It would do nothing, and nobody would learn of it.
#[test]
fn a_variable_that_lacks_an_underscore_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["DULY_SERVER_API__LISTEN", "DULY_SERVER_ADMIN_LISTEN"] {
        let output = duly(
            folder.path(),
            &["serve"],
            &[(name.to_owned(), "127.0.0.1:0")],
        );
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("{name} is not a setting")), "{said}");
    }
    // Those of services in Kubernetes, and of other programs.
    let others = [
        "PORT",
        "SERVICE_HOST",
        "API_PORT_7777_TCP",
        "API_SERVICE_PORT",
        "KILLS",
    ];
    let others = others.map(|name| (format!("DULY_SERVER_{name}"), "1"));
    let loud = (variable("log.level"), "loud");
    let output = duly(folder.path(), &["serve"], &[&others[..], &[loud]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("log.level is \"loud\""), "{said}");
}

#[test]
fn what_a_variable_sets_beside_a_name_in_capitals_is_refused() {
    for (file, key, value) in [
        (
            "[admin]\naccounts = { Ann = 'old' }",
            "admin.accounts.ann",
            "new",
        ),
        (
            "[pools.EU]\nurl = 'memory:'",
            "pools.eu.url",
            "sqlite:eu.db",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("duly-server.toml"), file).unwrap();
        let output = duly(folder.path(), &["serve"], &[(variable(key), value)]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("differ by case alone"), "{file}: {said}");
    }
}

/// It is of a program beside it, in the same container or folder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_a_server_nor_a_command_takes_the_port_of_metrics() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let listen = ("DULY__METRICS__LISTEN", address.as_str());
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start_with(folder.path(), "sqlite:jobs.db", &[listen]);
    let metrics = reply(client().get(format!("{}/metrics", program.admin))).await;
    assert_eq!(metrics.status, 200);
    drop(program);
    let listen = [(listen.0.to_owned(), listen.1)];
    for arguments in [["queue", "list"], ["schedule", "list"]] {
        let arguments = [&arguments[..], &["--store", "sqlite:jobs.db"]].concat();
        let output = duly(folder.path(), &arguments, &listen);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}
