//! What a settings file in YAML may not hold.
//!
//! The loader calls itself for each list in a list, and copies what an alias names. So a small text
//! can ask for more stack or more memory than there is. Its own parser, which does neither, reads
//! the text first.

use yaml_rust2::Event;
use yaml_rust2::parser::Parser;

/// How deep sections and lists may lie in each other; settings have three levels.
const DEPTH_MAX: usize = 16;

/// Refuses what the loader cannot be given; the words follow `is not valid YAML: `.
pub(super) fn check(text: &str) -> Result<(), String> {
    let mut parser = Parser::new_from_str(text);
    let mut depth = 0;
    loop {
        let (event, mark) = parser.next_token().map_err(|error| error.to_string())?;
        let at = || format!("at line {} column {}", mark.line(), mark.col() + 1);
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) if depth == DEPTH_MAX => {
                return Err(format!(
                    "more than {DEPTH_MAX} lists and sections in each other {}",
                    at()
                ));
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth -= 1,
            Event::Alias(_) => {
                return Err(format!("an alias {}; write out what it stands for", at()));
            }
            // The loader's own error would repeat it.
            Event::Scalar(text, ..) if depth == 0 && !is_nothing(&text) => {
                return Err(format!("a text that is no key {}", at()));
            }
            Event::StreamEnd => return Ok(()),
            _ => {}
        }
    }
}

/// Whether a document of this text alone is an empty one.
fn is_nothing(text: &str) -> bool {
    matches!(text, "" | "~" | "null")
}
