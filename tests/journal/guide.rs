//! The examples of the guide: one that does not run is worse than none.

/// The statements in a section of `src/docs/journal.md`.
pub(crate) fn examples(section: &str) -> Vec<&'static str> {
    let guide = include_str!("../../src/docs/journal.md");
    let (_, rest) = guide.split_once(section).expect("a section of the guide");
    let section = rest.split("\n## ").next().expect("its text");
    section
        .split("```sql\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .flat_map(|block| block.split(';'))
        .filter(|sql| !sql.trim().is_empty())
        .collect()
}
