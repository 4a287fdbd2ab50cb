//! The key ring, and keys in settings: what they allow, and that they show nothing.

use duly::codec::{KEYS_MAX, Key, KeyRing};
use duly::config::Settings;

const OLD: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const NEW: &str = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA";

#[test]
fn an_id_stands_for_one_key_for_ever() {
    let keys = KeyRing::new();
    keys.add("a", Key::new([1; 32])).unwrap();
    keys.add("a", Key::new([1; 32])).unwrap();
    let error = keys.add("a", Key::new([2; 32])).unwrap_err();
    assert!(
        error.to_string().contains("belongs to another key"),
        "{error}"
    );
    for wrong in ["", "a b", "a=b", "\u{e4}", &"k".repeat(65)] {
        assert!(keys.add(wrong, Key::new([3; 32])).is_err(), "{wrong}");
    }
    for at in 1..KEYS_MAX {
        keys.add(&at.to_string(), Key::new([4; 32])).unwrap();
    }
    assert!(keys.add("one-more", Key::new([5; 32])).is_err());
}

#[test]
fn the_key_that_is_used_is_not_removed() {
    let keys = KeyRing::new();
    assert!(keys.choose("a").is_err());
    keys.add("a", Key::new([1; 32])).unwrap();
    keys.choose("a").unwrap();
    assert!(keys.remove("a").is_err());
    keys.add("b", Key::new([2; 32])).unwrap();
    keys.choose("b").unwrap();
    assert!(keys.remove("a").unwrap());
    assert!(!keys.remove("a").unwrap());
    assert_eq!(
        (keys.ids(), keys.used()),
        (vec!["b".to_owned()], Some("b".to_owned()))
    );
}

#[test]
fn a_key_is_the_base64_of_32_bytes() {
    for right in [OLD, NEW, &OLD[..43]] {
        right.parse::<Key>().unwrap();
    }
    for wrong in [
        "",
        "MDEy",
        &OLD[1..],
        "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWZh",
        "!!",
    ] {
        let error = wrong.parse::<Key>().unwrap_err().to_string();
        assert!(wrong.len() < 3 || !error.contains(wrong), "{error}");
    }
}

#[test]
fn settings_make_a_ring_from_every_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    std::fs::write(
        &path,
        format!("# keys\nfile-1={OLD}\nfile-2={NEW}  # the newer\n"),
    )
    .unwrap();
    let file = format!(
        "[encryption]\nkeys = {{ \"2026-10\" = \"{OLD}\" }}\nkeys_file = \"{}\"\nuse = \"file-2\"\n",
        path.display()
    );
    let settings = Settings::from_toml(&file).unwrap();
    let ring = settings.encryption.ring().unwrap();
    assert_eq!(ring.ids(), ["2026-10", "file-1", "file-2"]);
    assert_eq!(ring.used().as_deref(), Some("file-2"));

    let spelled = format!("a={OLD} b={NEW}");
    let variables = [
        ("DULY__ENCRYPTION__KEYS", &*spelled),
        ("DULY__ENCRYPTION__USE", "b"),
    ];
    let settings = Settings::default().with_environment(variables).unwrap();
    let ring = settings.encryption.ring().unwrap();
    assert_eq!((ring.ids().len(), ring.used().as_deref()), (2, Some("b")));
}

#[test]
fn nothing_that_is_wrong_with_keys_shows_one() {
    let secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldCE";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    std::fs::write(&path, format!("{secret} = x\n")).unwrap();
    for (at, file) in [
        format!("[encryption]\nkeys = {{ a = \"{secret}\" }}"),
        format!("[encryption]\nkeys = {{ \"{secret}=\" = \"{OLD}\" }}"),
        format!("[encryption]\nkeys = \"{secret}\""),
        format!("[encryption]\nkeys = [\"{secret}\"]"),
        format!("[encryption]\nkeys = {{ a = [\"{secret}\"] }}"),
        format!("[encryption]\nkey = \"{secret}\""),
        format!("[encryption]\nkeys = \"a={OLD} a={secret}\""),
        format!("[encryption]\nkeys_file = \"{}\"", path.display()),
        format!("[encryption]\nkeys = {{ a = \"{OLD}\" }}\nuse = \"{secret}=\""),
    ]
    .into_iter()
    .enumerate()
    {
        let settings = Settings::from_toml(&file);
        let error = match settings {
            Ok(settings) => {
                assert!(!format!("{settings:?}").contains("c2Vj"), "{settings:?}");
                settings.encryption.ring().unwrap_err()
            }
            Err(error) => error,
        };
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains("c2VjcmV0") && !shown.contains(OLD),
            "{at}: {shown}"
        );
    }
    let settings = Settings::from_toml(&format!("[encryption]\nkeys = {{ a = \"{OLD}\" }}\n"));
    let shown = format!("{:?}", settings.unwrap());
    assert!(shown.contains("\"a\"") && !shown.contains(OLD), "{shown}");
}
