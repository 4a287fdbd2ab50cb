//! Every command says the same of a store and of a server, of what there is and of what there is
//! not: the same words, the same exit code.

use std::collections::BTreeSet;

use super::{Ran, Shop, Target, duly};

/// An id of no event.
const UNKNOWN: &str = "01KBKSY8Q3X4H1W9V0T5RZ7M2C";

/// Commands that do not work on either a store or a server.
const OTHERS: [&str; 14] = [
    "serve",
    "demo",
    "health",
    "doctor",
    "bench",
    "completions",
    "man",
    "token create",
    "token list",
    "token revoke",
    "top",
    "outbox schema",
    "audit", // it says who, which a store and a server know by other names
    "schedule next",
];

/// What each command is tried with: `S` is the scheduled event, `D` a dead letter, `U` an id of no
/// event. With `--server` an event is named with its queue, and so it is here.
const COMMANDS: &[&str] = &[
    "queue show ns.mail",
    "queue show ns.nothing",
    "queue show ns.mial",
    "queue pause ns.mail",
    "queue pause ns.nothing",
    "queue pause ns.mial",
    "queue resume ns.mail",
    "queue resume ns.nothing",
    "queue set ns.mail --rate 2",
    "queue set ns.mail --rate none",
    "queue set ns.new --rate 2",
    "queue set ns.mial --rate 2",
    "queue set ns.mail --rate nan",
    "queue set ns.mail --rate inf",
    "queue set ns.mail --rate -1",
    "queue set ns.mail --rate 0",
    "queue set ns.mail --rate 0.0001",
    "queue set ns.mail --rate 1e9",
    "queue set ns.mail --workers 0",
    "queue set ns.mail --workers 2000",
    "queue set ns.mail --workers 70000",
    "queue set ns.mail --buckets 0",
    "queue set ns.mail --buckets 2000",
    "queue set ns.mail",
    "queue pause ns.other --new",
    "queue show ns.other",
    "queue resume ns.other",
    "queue set ns.mial --rate 2 --new",
    "queue show ns.mial",
    "queue drain ns.nothing",
    "event list --queue ns.mail --key nobody",
    "event list --queue ns.mail --state nope",
    "event list --queue ns.mail --after x",
    "event list --queue ns.mail --limit 0",
    "event list --queue ns.nothing",
    "event list --queue ns.mial",
    "queue drain ns.mail --timeout 0s",
    "queue purge ns.nothing --yes",
    "queue purge ns.new --yes",
    "queue purge ns.mial --yes",
    "queue purge ns.mail",
    "event show S --queue ns.mail",
    "event show D --queue ns.mail",
    "event show U --queue ns.mail",
    "event show S --queue ns.nothing",
    "event show S --queue ns.mial",
    "event show nonsense --queue ns.mail",
    "event explain S --queue ns.mail",
    "event explain U --queue ns.mail",
    "event explain S --queue ns.nothing",
    "event reschedule U --queue ns.mail --after 1h",
    "event reschedule D --queue ns.mail --after 1h",
    "event reschedule S --queue ns.nothing --after 1h",
    "event reschedule S --queue ns.mail --at 2100-01-01T00:00:00Z",
    "event run-now U --queue ns.mail",
    "event run-now D --queue ns.mail",
    "event run-now S --queue ns.nothing",
    "event update U --queue ns.mail --payload 1",
    "event update D --queue ns.mail --payload 1",
    "event update S --queue ns.nothing --payload 1",
    "event update S --queue ns.mail --payload {",
    "event update S --queue ns.mail --payload 7",
    "event cancel U --queue ns.mail --yes",
    "event cancel D --queue ns.mail --yes",
    "event cancel S --queue ns.nothing --yes",
    "event cancel S --queue ns.mail",
    "event cancel --queue ns.mail",
    "event cancel S --queue ns.mail --key nobody --yes",
    "event cancel S --queue ns.mail --dry-run",
    "event cancel --queue ns.mail --key nobody",
    "event cancel --queue ns.mail --key nobody --yes",
    "event cancel --queue ns.mail --all --dry-run",
    "event cancel --queue ns.nothing --all --yes",
    "event cancel --queue ns.mial --all --yes",
    "event cancel --queue ns.mail --all --resume x --yes",
    "event cancel --queue ns.mail --all --rate 0 --yes",
    "event cancel --queue ns.mail --state nope --yes",
    "event cancel --queue ns.mail --key a --unique b --yes",
    "event reschedule --queue ns.mail --all",
    "event reschedule --queue ns.mail --all --after 1h --rate 1000",
    "event reschedule --queue ns.mail --state scheduled --at 2100-01-01T00:00:00Z",
    "event reschedule --queue ns.mail --after 1h",
    "event run-now --queue ns.mail",
    "event run-now --queue ns.mail --all --dry-run",
    "event run-now --queue ns.mail --contains nobody",
    "event erase --queue ns.mail",
    "event erase --queue ns.mail --key nobody",
    "event erase --queue ns.mail --key nobody --yes",
    "event erase --queue ns.mail --key nobody --dry-run",
    "event erase --queue ns.nothing --key nobody --yes",
    "event erase --queue ns.mial --key nobody --yes",
    "event replay --queue ns.mail",
    "event replay --queue ns.mail --name one",
    "event replay --queue ns.mail --name one --dry-run",
    "event replay --queue ns.mail --name one --outcome cancelled --yes",
    "event replay --queue ns.mail --name one --key nobody --since 1h --yes",
    "event replay --queue ns.mail --name one --outcome nope --yes",
    "event replay --queue ns.mail --name one --outcome retried --yes",
    "event replay --queue ns.mail --name one --outcome buried --dry-run",
    "event replay --queue ns.mail --name one --resume x --yes",
    "event replay --queue ns.mail --name one --until 2100-01-01T00:00:00Z --resume x --yes",
    "event replay --queue ns.nothing --name one --yes",
    "event replay --queue ns.mial --name one --yes",
    "dead list --queue ns.mail",
    "dead list --queue ns.nothing",
    "dead list --queue ns.mial",
    "dead list --queue ns.mail --cause nonsense",
    "dead show D --queue ns.mail",
    "dead show U --queue ns.mail",
    "dead show S --queue ns.mail",
    "dead show D --queue ns.nothing",
    "dead revive U --queue ns.mail",
    "dead revive S --queue ns.mail",
    "dead revive D --queue ns.nothing",
    "dead revive --queue ns.mail",
    "dead revive --queue ns.nothing --all",
    "dead revive --queue ns.mail --all --dry-run",
    "dead drop U --queue ns.mail --yes",
    "dead drop D --queue ns.nothing --yes",
    "dead drop --queue ns.nothing --all --yes",
    "dead drop --queue ns.mail --error nobody --yes",
    "records --queue ns.mail",
    "records --queue ns.nothing",
    "records --queue ns.mial",
    "records --queue ns.mail --id U",
    "records --queue ns.mail --outcome nonsense",
    "forecast ns.mail --horizon 2h --step 1h",
    "forecast ns.nothing --horizon 2h --step 1h",
    "forecast ns.mial --horizon 2h --step 1h",
    "forecast ns.mail --horizon 2h --step 1s",
    "schedule show ns.yearly",
    "schedule pause ns.yearly",
    "schedule resume ns.yearly",
    "schedule run-now ns.yearly",
    "schedule remove ns.yearly --yes",
    "schedule set ns.yearly @nightly --queue ns.recurs",
    "schedule set ns.yearly @yearly",
    "schedule set ns.yearly @yearly --queue ns.recurs --payload {",
    "schedule set ns.yearly @yearly --queue ns.recurs --missed all(0)",
    "schedule set ns.yearly @yearly --queue ns.recurs --overlap never",
    "schedule set ns.yearly @yearly --queue ns.recurs --jitter 2d",
    "schedule set ns.yearly @yearly --queue ns.recurs --exclude 2026-02-30",
    "schedule set ns.yearly @yearly --queue ns.recurs --payload 7",
    "schedule pause ns.yealry",
    "schedule pause ns.yearly",
    "schedule pause ns.yearly",
    "schedule show ns.yearly",
    "schedule run-now ns.yearly",
    "schedule set ns.yearly @monthly --queue ns.recurs",
    "schedule resume ns.yearly",
    "schedule remove ns.yearly",
    "schedule remove ns.yearly --yes",
    "schedule show ns.yearly",
    // What changes most comes last.
    "event run-now S --queue ns.mail",
    "dead revive D --queue ns.mail",
    "dead drop --queue ns.mail --all --yes",
    "queue purge ns.mail --yes",
    "event cancel S --queue ns.mail --yes",
    "event show S --queue ns.mail",
    "event update S --queue ns.mail --payload 1",
    "event run-now S --queue ns.mail",
    "event explain S --queue ns.mail",
];

/// Runs a command on a shop; ids and times are made alike.
fn run(shop: &Shop, command: &str) -> (i32, String, String) {
    let words: Vec<String> = command
        .split(' ')
        .map(|word| match word {
            "S" => shop.scheduled.to_string(),
            "D" => shop.dead[0].to_string(),
            "U" => UNKNOWN.to_owned(),
            word => word.to_owned(),
        })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Ran { code, out, err } = shop.run(&words);
    (code, alike(shop, &out), alike(shop, &err))
}

fn alike(shop: &Shop, text: &str) -> String {
    let names = [
        (shop.scheduled, "S"),
        (shop.dead[0], "D"),
        (shop.dead[1], "E"),
    ];
    let named = names.iter().fold(text.to_owned(), |text, (id, name)| {
        text.replace(&id.to_string(), name)
    });
    // Times, and what is left until then.
    let mut words: Vec<String> = Vec::new();
    // A store carries out no change by itself: it pushes nothing ahead, and so takes nothing back.
    let is_said = |line: &&str| {
        !line.starts_with("Usage:")
            && !line.starts_with("change ")
            && !line.starts_with("LAST RESULTS")
            && !line.contains("  cancelled  ")
    };
    let lines = named.lines().filter(is_said);
    let named: Vec<_> = lines.collect();
    for word in named.join("\n").split_inclusive([' ', '\n', ',', ';']) {
        let is_time = word.contains('T') && word.contains('Z') && word.contains(':');
        let is_span = word
            .trim()
            .trim_end_matches([',', ';', '.'])
            .ends_with(['s', 'm', 'h'])
            && word.starts_with(|first: char| first.is_ascii_digit());
        let is_id = word.trim().len() == 26 && !word.contains(|c: char| c.is_ascii_lowercase());
        words.push(if is_id {
            "<id> ".to_owned()
        } else if is_time || is_span {
            "<time> ".to_owned()
        } else {
            word.to_owned()
        });
    }
    words.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_and_a_server_say_the_same() {
    let (store, server) = (
        Shop::open(Target::Embedded).await,
        Shop::open(Target::Server).await,
    );
    let mut wrong = Vec::new();
    for command in COMMANDS {
        let (of_store, of_server) = (run(&store, command), run(&server, command));
        if of_store != of_server {
            wrong.push(format!(
                "{command}\n  store  {of_store:?}\n  server {of_server:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    store.close().await;
    server.close().await;
}

/// Returns the commands without commands of their own.
pub(super) fn leaves(path: &[String]) -> Vec<String> {
    let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
    arguments.push("--help");
    let help = duly(&arguments).text().to_owned();
    let Some((_, commands)) = help.split_once("Commands:\n") else {
        return vec![path.join(" ")];
    };
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| {
        let name = line.strip_prefix("  ")?;
        name.starts_with(|first: char| first != ' ')
            .then(|| name.split(' ').next())?
    });
    let names = names.filter(|name| *name != "help");
    names
        .flat_map(|name| leaves(&[path, &[name.to_owned()]].concat()))
        .collect()
}

#[test]
fn no_command_is_left_out() {
    let is_tried = |command: &String| {
        let begin = format!("{command} ");
        OTHERS.contains(&command.as_str()) || COMMANDS.iter().any(|it| it.starts_with(&begin))
    };
    let all = BTreeSet::from_iter(leaves(&[]));
    assert!(all.len() > 20, "{all:?}");
    let left_out: Vec<_> = all.iter().filter(|it| !is_tried(it)).collect();
    assert!(
        left_out
            .iter()
            .all(|it| ["node list", "queue list", "schedule list"].contains(&it.as_str())),
        "{left_out:?}"
    );
}
