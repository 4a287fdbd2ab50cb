//! Which file is read.

use std::error::Error as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use duly::config::{Format, Settings};

use crate::{NO_VARIABLES, TOML, YAML, directory, refusal, refused_toml, toml};

fn load(directory: &Path) -> duly::Result<Settings> {
    Settings::load_from(directory, NO_VARIABLES)
}

#[test]
fn each_of_the_names_is_found() {
    for (name, text) in [("duly.toml", TOML), ("duly.yaml", YAML), ("duly.yml", YAML)] {
        let directory = directory(&[(name, text), ("other.toml", "x = 1")]);
        assert_eq!(load(directory.path()).unwrap(), toml(TOML), "{name}");
    }
    assert_eq!(
        load(directory(&[]).path()).unwrap(),
        Settings::default(),
        "no file is no mistake"
    );
}

#[test]
fn two_files_at_once_are_refused_and_both_named() {
    let directory = directory(&[("duly.toml", TOML), ("duly.yml", YAML)]);
    let words = refusal(load(directory.path()));
    assert!(words.contains("duly.toml and "), "{words}");
    assert!(words.contains("duly.yml; keep one"), "{words}");
}

#[test]
fn duly_config_names_the_file_whatever_else_there_is() {
    let directory = directory(&[
        ("duly.toml", "read_ahead = '1ms'"),
        ("duly.yaml", "read_ahead: 2ms"),
        ("mine.YML", "read_ahead: 3ms"),
    ]);
    let there = directory.path().join("mine.YML");
    for path in [Path::new("mine.YML"), there.as_path()] {
        let settings = Settings::load_from(directory.path(), [("DULY_CONFIG", path)]);
        assert_eq!(settings.unwrap().read_ahead, Some(Duration::from_millis(3)));
    }
}

#[test]
fn a_named_file_must_be_there_and_readable() {
    let directory = directory(&[("duly.json", "{}"), ("plain", "")]);
    let named = |name| {
        refusal(Settings::load_from(
            directory.path(),
            [("DULY_CONFIG", name)],
        ))
    };

    let words = named("gone.toml");
    assert!(words.ends_with("gone.toml does not exist"), "{words}");
    for name in ["duly.json", "plain"] {
        let words = named(name);
        assert!(words.contains(name), "{words}");
        assert!(words.contains(".toml, .yaml or .yml"), "{words}");
    }
    assert!(named("").starts_with("DULY_CONFIG is empty"));

    fs::create_dir(directory.path().join("folder.toml")).unwrap();
    let error = Settings::from_file(directory.path().join("folder.toml")).unwrap_err();
    assert!(error.to_string().ends_with("folder.toml cannot be read"));
    assert!(error.source().is_some(), "the system's reason is the cause");

    fs::write(directory.path().join("bytes.toml"), [0xff, 0xfe]).unwrap();
    assert!(named("bytes.toml").ends_with("bytes.toml is not text in UTF-8"));
    fs::write(
        directory.path().join("big.toml"),
        "#".repeat(1024 * 1024 + 1),
    )
    .unwrap();
    assert!(named("big.toml").contains("is larger than 1048576 bytes"));
}

#[test]
fn a_file_that_is_not_in_its_format_is_refused_with_its_line() {
    let directory = directory(&[
        (
            "duly.toml",
            "read_ahead = '1ms'\nstore.url = 'redis://me:s3cret@host",
        ),
        ("bad.yaml", "read_ahead: 1ms\nstore: url: x"),
        ("list.yaml", "- 1"),
        ("two.yaml", "a: 1\n---\nb: 1"),
    ]);
    let words = refusal(load(directory.path()));
    assert!(words.contains("duly.toml is not valid TOML: "), "{words}");
    assert!(words.contains("line 2"), "{words}");
    assert!(!words.contains('\n'), "{words}");
    let error = load(directory.path()).unwrap_err();
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");

    for (name, says) in [
        ("bad.yaml", "line 2"),
        ("list.yaml", "sequence"),
        ("two.yaml", "2"),
    ] {
        let words = refusal(Settings::from_file(directory.path().join(name)));
        assert!(words.contains(name), "{words}");
        assert!(words.contains("is not valid YAML: "), "{words}");
        assert!(words.contains(says), "{words}");
    }
}

/// Its loader would ask for more stack, or more memory, than there is.
#[test]
fn a_yaml_file_asks_for_no_more_than_it_has_bytes() {
    let refused = |text: &str| refusal(Settings::from_text(text, Format::Yaml));
    let laughs = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]";
    assert!(refused(laughs).contains("an alias at line 2 column 8"));
    for text in ["- ".repeat(300_000), "? ".repeat(300_000), "[".repeat(200)] {
        let words = refused(&text);
        assert!(words.contains("in each other at line 1"), "{words}");
    }
    let words = refused("my s3cret");
    assert!(
        words.contains("no key") && !words.contains("s3cret"),
        "{words}"
    );
}

#[test]
fn a_message_is_one_line_and_no_copy_of_the_file() {
    let words = refused_toml(&format!("'a\\n{}' = 1", "k".repeat(100_000)));
    assert!(words.len() < 600, "{} bytes", words.len());
    let words = refused_toml(&format!("read_ahead = '{}s'", "9".repeat(100_000)));
    assert!(words.len() < 600, "{} bytes", words.len());
    let words = refused_toml("\"a\\nb\\u0000\" = 1");
    assert!(!words.contains(char::is_control), "{words:?}");
    assert!(words.contains(r"a\nb\u{0}"), "{words}");
}

#[test]
fn a_key_given_twice_is_refused() {
    assert!(refused_toml("read_ahead = '1s'\nread_ahead = '2s'").contains("line 2"));
    let twice = Settings::from_text("read_ahead: 1s\nread_ahead: 2s", Format::Yaml);
    assert!(refusal(twice).contains("read_ahead"));
}
