//! No circle of modules within a room, and nothing that names its room's front.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::files::{File, is_name, words};

/// The rooms of a crate: the folders whose files are modules of one. What lies right in the folder of
/// `src` itself has floors ([`super::rooms`]); of another crate it is a room, too.
pub(crate) fn rooms<'a>(files: &'a [File], source: &str) -> BTreeSet<&'a str> {
    let folders = files.iter().map(File::folder);
    let rooms = folders.filter(|folder| {
        let inside = folder.strip_prefix(source);
        inside.is_some_and(|inside| inside.starts_with('/') || inside.is_empty() && source != "src")
    });
    rooms.filter(|room| !room.ends_with("tests")).collect()
}

/// Rooms whose files name what their front shows, or has in itself. In every other room the `mod.rs`
/// has declarations alone, and the files name the module of what they use.
#[rustfmt::skip]
pub(crate) const BY_FRONT: &[&str] = &[
    "dashboards/web/src", "dashboards/web/src/action", "outbox/src/postgres", "server/src/api",
    "server/src/auth", "server/src/bus", "server/src/command", "server/src/command/schedule",
    "server/src/command/top", "server/src/lmstfy", "server/src/lmstfy/admin", "server/src/settings",
    "server/src/shared", "server/src/webhook", "src/bus/dead_letters", "src/bus/erasure",
    "src/bus/events", "src/bus/explain", "src/bus/records", "src/bus/schedules", "src/codec/body", "src/core/node",
    "src/core/op", "src/core/pull", "src/flow/membership", "src/flow/pool", "src/flow/pull",
    "src/handler", "src/journal/recorder", "src/metrics", "src/record", "src/schedule",
    "src/sqlite", "src/sqlite/records", "src/store/redis", "src/store/redis/hub/registry",
    "src/store/redis/link/fault", "src/store/redis/link/managed",
    "src/store/redis/link/subscription", "src/store/redis/link/topology",
    "src/store/redis/link/url", "src/store/shards", "src/testing",
];

/// The modules of a room, and which of its modules each names.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Circles of the modules of a room; a file or a folder of it is a module.
pub(crate) fn circles(files: &[File], room: &str) -> Vec<String> {
    let arrows = arrows(files, room);
    let reach = |module: &str| reachable(&arrows, module);
    let mut circles = BTreeSet::new();
    for module in arrows.keys().filter(|it| reach(it).contains(it.as_str())) {
        let there = reach(module);
        let circle = there.into_iter().filter(|it| reach(it).contains(&**module));
        circles.insert(circle.collect::<Vec<_>>());
    }
    let complaint = |circle: Vec<&str>| format!("{room}: {}", circle.join(", "));
    circles.into_iter().map(complaint).collect()
}

/// Circles that stay: their room, their modules, and why.
const LISTED: &[(&str, &str)] = &[(
    "outbox/src/relay: pushes, run",
    "what a push changes is the state of its relay, whose methods are in both",
)];

/// The circles of a room that are not listed, and the lists that are longer than they need be.
pub(crate) fn unlisted(files: &[File], room: &str) -> Vec<String> {
    let found = circles(files, room);
    let listed: Vec<_> = LISTED.iter().map(|(circle, _)| *circle).collect();
    let of_room = format!("{room}: ");
    let unlisted = found.iter().filter(|it| !listed.contains(&it.as_str()));
    let unlisted =
        unlisted.map(|it| format!("a circle of modules in {it}; one of them knows too much"));
    let gone = listed
        .iter()
        .filter(|it| it.starts_with(&of_room) && !found.iter().any(|is| is == *it));
    let gone =
        gone.map(|it| format!("{it} is no circle any more, or another one; correct the list"));
    unlisted.chain(gone).collect()
}

fn arrows(files: &[File], room: &str) -> Arrows {
    let place = module_path(room);
    let mut arrows = Arrows::new();
    for file in files.iter().filter(|file| file.is_in(room)) {
        let Some(module) = module_in(&file.path, room) else {
            continue;
        };
        let code = code(file);
        let named = named_in(&place, &paths(&code, &module_path(&file.path)));
        let others = named.into_iter().filter(|it| it != module);
        let known = arrows.entry(module.to_owned()).or_default();
        known.extend(others);
    }
    arrows
}

/// The module of a room that a file is of; `None` for its front, and for tests.
fn module_in<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let inside = path.strip_prefix(folder)?.strip_prefix('/')?;
    let module = inside.split(['/', '.']).next()?;
    let is_front = ["mod", "lib", "main"].contains(&module);
    let is_test = inside.contains("tests/") || inside.contains("tests.rs");
    (!is_front && !is_test).then_some(module)
}

/// The modules that a file or a folder is within, from the root of its crate on.
fn module_path(path: &str) -> Vec<&str> {
    let inside = match path.rsplit_once("src/") {
        Some((_, inside)) => inside.trim_end_matches(".rs"),
        None => "",
    };
    let names = inside.split('/');
    let names = names.filter(|name| !["", "mod", "lib", "main"].contains(name));
    names.collect()
}

fn code(file: &File) -> String {
    let lines = file.code().into_iter().map(|(_, line)| line);
    lines.collect::<Vec<_>>().join("\n")
}

/// What stands right behind a place, in those of the paths that lead through it.
fn named_in(place: &[&str], paths: &[Vec<&str>]) -> BTreeSet<String> {
    let inside = paths.iter().filter_map(|path| path.strip_prefix(place));
    inside
        .filter_map(|rest| rest.first())
        .map(|&it| it.to_owned())
        .collect()
}

/// What the code of a module names, from the root of the crate on: `super` is resolved, and each path
/// of a group in braces is one.
fn paths<'a>(code: &'a str, module: &[&'a str]) -> Vec<Vec<&'a str>> {
    let (inline, mut paths) = (inline_modules(code), Vec::new());
    for (at, _) in code.match_indices("::") {
        let before = code[..at].trim_end_matches(is_name);
        let first = &code[before.len()..at];
        if !before.ends_with("::") && ["crate", "super", "self"].contains(&first) {
            let around = inline.iter().filter(|(bytes, _)| bytes.contains(&at));
            let mut module = module.to_vec();
            module.extend(around.map(|(_, name)| *name));
            read_path(&code[before.len()..], module, &mut paths);
        }
    }
    paths
}

/// The modules with their code in the same file. The brace that ends one stands, by rustfmt, right
/// under its beginning.
fn inline_modules(code: &str) -> Vec<(Range<usize>, &str)> {
    let mut modules = Vec::new();
    for at in words(code, "mod") {
        let begin = code[..at].rfind('\n').map_or(0, |it| it + 1);
        let line = code[begin..].lines().next().unwrap_or_default();
        let indent = &line[..line.len() - line.trim_start().len()];
        let name = code[at + "mod".len()..].split_once(" {\n");
        let end = code[at..].find(&format!("\n{indent}}}"));
        if let (Some((name, _)), Some(length)) = (name, end)
            && line.ends_with('{')
        {
            modules.push((at..at + length, name.trim()));
        }
    }
    modules
}

/// Reads a path, or the first one of a group; returns what follows it.
fn read_path<'a>(text: &'a str, mut path: Vec<&'a str>, paths: &mut Vec<Vec<&'a str>>) -> &'a str {
    let text = text.trim_start();
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match name {
        "crate" => path.clear(),
        "super" => drop(path.pop()),
        "self" => {}
        "" if text.starts_with('*') => path.push("*"),
        _ => path.push(name),
    }
    let Some(rest) = rest.strip_prefix("::") else {
        paths.push(path);
        return rest.strip_prefix('*').unwrap_or(rest);
    };
    let Some(mut rest) = rest.strip_prefix('{') else {
        return read_path(rest, path, paths);
    };
    loop {
        // A name may have another one here: `a as b`.
        rest = read_path(rest, path.clone(), paths);
        rest = rest.trim_start_matches(|c| c != ',' && c != '}');
        match rest.strip_prefix(',').map(str::trim_start) {
            Some(next) if !next.starts_with('}') => rest = next,
            Some(end) => return &end[1..],
            None => return rest.strip_prefix('}').unwrap_or(rest),
        }
    }
}

fn reachable<'a>(arrows: &'a Arrows, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = arrows
        .get(from)
        .into_iter()
        .flatten()
        .map(|it| &**it)
        .collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(arrows.get(module).into_iter().flatten().map(|it| &**it));
        }
    }
    reached
}

/// What a room names by its front, unless it is one of those that do; and one that no longer does.
pub(crate) fn by_front(files: &[File], room: &str) -> Vec<String> {
    let named = front_named(files, room);
    match (BY_FRONT.contains(&room), named.is_empty()) {
        (false, _) => named,
        (true, false) => Vec::new(),
        (true, true) => vec![format!("{room} names nothing by its front; unlist it")],
    }
}

/// Where a file of a room names what the room's front shows to others: that makes a circle of the
/// front and all that is behind it.
pub(crate) fn front_named(files: &[File], room: &str) -> Vec<String> {
    let place = module_path(room);
    let modules: BTreeSet<_> = files
        .iter()
        .filter_map(|it| module_in(&it.path, room))
        .collect();
    let mut wrong = Vec::new();
    let behind = files
        .iter()
        .filter(|file| file.folder() != room || !file.path.ends_with("/mod.rs"));
    let behind = behind.filter(|file| file.is_in(room));
    for file in behind.filter(|file| module_in(&file.path, room).is_some()) {
        let code = code(file);
        let named = named_in(&place, &paths(&code, &module_path(&file.path)));
        if let Some(name) = named.iter().find(|name| !modules.contains(name.as_str())) {
            wrong.push(format!(
                "{}: names {name} by the front of {room}; name its module",
                file.path
            ));
        }
    }
    wrong
}

#[test]
fn circles_are_found() {
    let made_up = |a: &str, b: &str| {
        [
            File::new("src/store/a.rs", a),
            File::new("src/store/b/mod.rs", "mod c;\n"),
            File::new("src/store/b/c.rs", b),
        ]
    };
    let circles_of = |files: &[File]| circles(files, "src/store");
    let names_b = "use crate::store::b::B;\n";
    let one_way = made_up(names_b, "use crate::store::b::c::C;\nuse super::c::D;\n");
    assert_eq!(circles_of(&one_way), [""; 0]);
    assert_eq!(
        rooms(&one_way, "src"),
        BTreeSet::from(["src/store", "src/store/b"])
    );
    for names_a in [
        "use crate::store::a::A;\n",
        "use crate::store::{\n    z::{x, y as w},\n    a::A,\n};\n",
        "use crate::{time::T, store::{a}};\n",
        "use super::super::a::A;\n",
        "use super::{\n    c::*,\n    super::a::{self, A},\n};\n",
        "fn at() -> super::super::a::A {\n    todo()\n}\n",
    ] {
        let circle = made_up("use super::b::B;\n", names_a);
        assert_eq!(circles_of(&circle), ["src/store: a, b"], "{names_a}");
    }
    let by_front = [
        File::new("src/store/a.rs", names_b),
        File::new("src/store/b/mod.rs", "use super::a;\n"),
    ];
    assert_eq!(circles_of(&by_front), ["src/store: a, b"]);
    let own = [File::new(
        "src/store/b/mod.rs",
        "use self::c::C;\nuse super::b::c;\n",
    )];
    assert_eq!(circles_of(&own), [""; 0]);

    let of_root = [
        File::new("server/src/v1/mod.rs", "use crate::http::{Http, Origin};\n"),
        File::new("server/src/http.rs", "use super::v1::Problem;\n"),
        File::new("server/src/lib.rs", "use self::v1::V1;\n"),
    ];
    assert_eq!(rooms(&of_root, "server/src").len(), 2);
    assert_eq!(circles(&of_root, "server/src"), ["server/src: http, v1"]);
}

#[test]
fn modules_within_a_file_are_known() {
    let code = "mod a {\n    use super::b;\n    mod c {\n        use super::super::d;\n    }\n}\nuse self::e;\n";
    let named = paths(code, &["store"]);
    assert_eq!(named, [["store", "b"], ["store", "d"], ["store", "e"]]);
}

#[test]
fn what_is_named_by_a_front_is_found() {
    let front = |text: &str| {
        let beside = File::new("src/store/a.rs", text);
        let within = File::new("src/store/b/c.rs", &text.replace("super", "super::super"));
        let files = [
            beside,
            within,
            File::new("src/store/mod.rs", "use self::a::A;\n"),
        ];
        front_named(&files, "src/store").len()
    };
    assert_eq!(front("use crate::store::b::c::C;\nuse super::b::D;\n"), 0);
    assert_eq!(front("use crate::store::Store;\n"), 2);
    assert_eq!(front("use crate::store::{a, Store};\n"), 2);
    assert_eq!(front("use super::Store;\n"), 2);
    assert_eq!(front("use super::{b::C, *};\n"), 2);
    let deeper = [File::new(
        "src/store/b/c.rs",
        "use crate::store::b::Shown;\n",
    )];
    assert_eq!(front_named(&deeper, "src/store/b").len(), 1);
}
