//! Which file is read.

use std::error::Error as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use duly::config::Settings;

use crate::config::{NO_VARIABLES, TOML, directory, refusal, refused_toml, toml};

fn load(directory: &Path) -> duly::Result<Settings> {
    Settings::load_from(directory, NO_VARIABLES)
}

#[test]
fn the_file_of_the_working_directory_is_found() {
    let there = directory(&[("duly.toml", TOML), ("other.toml", "x = 1")]);
    assert_eq!(load(there.path()).unwrap(), toml(TOML));
    assert_eq!(
        load(directory(&[]).path()).unwrap(),
        Settings::default(),
        "no file is no mistake"
    );
}

#[test]
fn duly_config_names_the_file_whatever_else_there_is() {
    let directory = directory(&[
        ("duly.toml", "read_ahead = '1ms'"),
        ("mine.TOML", "read_ahead = '3ms'"),
    ]);
    let there = directory.path().join("mine.TOML");
    for path in [Path::new("mine.TOML"), there.as_path()] {
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
        assert!(words.contains("a name that ends in .toml"), "{words}");
    }
    assert!(named("").starts_with("DULY_CONFIG is empty"));

    fs::create_dir(directory.path().join("folder.toml")).unwrap();
    let error = Settings::from_file(directory.path().join("folder.toml")).unwrap_err();
    assert!(error.to_string().ends_with("folder.toml cannot be read"));
    assert!(error.source().is_some(), "the system's reason is the cause");

    fs::write(directory.path().join("bytes.toml"), [0xff, 0xfe]).unwrap();
    assert!(named("bytes.toml").ends_with("bytes.toml is not UTF-8"));
    fs::write(
        directory.path().join("big.toml"),
        "#".repeat(1024 * 1024 + 1),
    )
    .unwrap();
    assert!(named("big.toml").contains("is larger than 1048576 bytes"));
}

#[test]
fn a_file_that_is_not_in_its_format_is_refused_with_its_line() {
    let directory = directory(&[(
        "duly.toml",
        "read_ahead = '1ms'\nstore.url = 'redis://me:s3cret@host",
    )]);
    let words = refusal(load(directory.path()));
    assert!(words.contains("duly.toml is not valid TOML: "), "{words}");
    assert!(words.contains("line 2"), "{words}");
    assert!(!words.contains('\n'), "{words}");
    let error = load(directory.path()).unwrap_err();
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
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
}
