//! `duly token`.

use super::duly;
use crate::world::{Place, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_created_listed_and_revoked() {
    let more = "accounts = { ann = 'a password' }\n";
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n{more}\
         [pools.default]\nurl = 'sqlite:{}'",
        folder.path().join("jobs.db").display()
    );
    let settings = duly_server::Settings::from_toml(&text).unwrap();
    let server = duly_server::Server::start(settings).await.unwrap();
    let admin = format!("http://{}", server.admin_address());
    let api = format!("http://{}", server.api_address());
    let account = ["--admin", &admin, "--account", "ann:a password"];
    let run = |arguments: &[&str]| duly(&[arguments, &account[..]].concat());

    let create = ["token", "create", "ns", "--description", "the shop"];
    let limited = ["--scopes", "publish,consume", "--queues", "mail-*"];
    let created = run(&[&create[..], &limited].concat());
    let token = created.text().trim().to_owned();
    assert_eq!(token.len(), 32);
    let on_server = ["--server", &api, "--token", &token];
    let show = |queue| duly(&[&["queue", "show", queue], &on_server[..]].concat());
    show("ns.mail-a").fails(3, "there is no queue ns.mail-a");
    show("ns.other").fails(6, "the token is not for queue other");
    let pause = ["queue", "pause", "ns.mail-a", "--new"];
    duly(&[&pause[..], &on_server[..]].concat()).fails(6, "no scope admin");

    let listed = run(&["token", "list", "ns", "--json"]).json();
    assert_eq!(listed[0]["description"], "the shop");
    run(&["token", "revoke", "ns", &token]).fails(2, "--yes");
    run(&["token", "revoke", "ns", &token, "--yes"]).text();
    for token in [&token, "sha256~1f2e3d4c5b6a7988", "nonsense"] {
        run(&["token", "revoke", "ns", token, "--yes"]).fails(3, "no such token");
    }
    show("ns.mail-a").fails(6, "by --token or the variable DULY_TOKEN");

    let wrong = ["--admin", &admin, "--account", "ann:wrong"];
    duly(&[&["token", "list", "ns"], &wrong[..]].concat()).fails(6, "by --account or the variable");
    duly(&["token", "list", "ns", "--admin", &admin, "--account", "ann"]).fails(2, "name:password");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_not_asked_without_a_token() {
    let world = World::start(Place::Embedded).await;
    let server = world.api_url("");
    duly(&["queue", "show", "ns.mail", "--server", &server]).fails(6, "DULY_TOKEN");
}
