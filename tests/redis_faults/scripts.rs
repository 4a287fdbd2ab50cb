//! How the calls of a script are known among what a node sends.

/// The calls of one script.
pub(crate) struct Call {
    hash: String,
}

impl Call {
    /// By the script's name.
    ///
    /// The hash is made from the table in the source, which says of which files a script is put
    /// together.
    pub(crate) fn of(script: &str) -> Self {
        let room = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/redis");
        let read = |file: String| std::fs::read_to_string(file).expect("a source file");
        let table = read(format!("{room}/scripts.rs"));
        // NAME = "name", FLAGS, ["part", "part"];
        let name = format!("= \"{script}\", ");
        let line = table.lines().find(|line| line.contains(&name));
        let line = line.unwrap_or_else(|| panic!("{script} is not in the table"));
        let words: Vec<_> = line.split('"').collect();
        let [_, _, flags, parts @ ..] = &words[..] else {
            panic!("not a line of the table: {line}");
        };
        let flags = format!("const {}: ", flags.trim_matches([',', ' ', '[', ']', ';']));
        let flags = table.lines().find(|line| line.starts_with(&flags));
        let flags = flags.and_then(|line| line.split('"').nth(1));
        let mut text = flags.expect("a constant").replace("\\n", "\n");
        for part in parts.iter().copied().step_by(2).chain([script]) {
            if !part.contains(';') {
                text += &read(format!("{room}/lua/{part}.lua"));
            }
        }
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { hash }
    }

    /// Whether such a call is among these bytes.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        let hash = self.hash.as_bytes();
        bytes.windows(hash.len()).any(|window| window == hash)
    }
}
