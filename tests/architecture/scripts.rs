//! Scripts of Redis: a server does nothing else while one runs, so what a loop does and what a command
//! reads or takes has a bound, which stands beside it.

use crate::architecture::files::File;

/// Commands that return all of a key.
const OF_ALL: [&str; 6] = [
    "\"HGETALL\"",
    "\"HKEYS\"",
    "\"HVALS\"",
    "\"SMEMBERS\"",
    "0, -1)",
    "\"KEYS\"",
];

/// Lines without their bound: of `while` and `repeat`, and of what reads all of a key, it is a comment;
/// of `unpack`, whose results must fit on the stack of Lua, a constant.
pub(crate) fn without_bound(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".lua")) {
        for (line, number) in file.text.lines().zip(1..) {
            let (code, said) = line.split_once("--").unwrap_or((line, ""));
            let code = code.trim();
            let loops = code.starts_with("while ") || code == "repeat";
            let reads_all = OF_ALL.iter().any(|command| code.contains(command));
            if (loops || reads_all) && said.trim().is_empty() {
                wrong.push(format!("{}:{number}: has no bound beside it", file.path));
            }
            let is_bounded = |rest: &str| rest.contains("CHUNK") || rest.contains("AT_ONCE");
            let unpacks = code.split("unpack(").skip(1);
            if unpacks.into_iter().any(|rest| !is_bounded(rest)) {
                wrong.push(format!("{}:{number}: unpacks any number", file.path));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> usize {
        without_bound(&[File::new("a.lua", text)]).len()
    }

    #[test]
    fn a_loop_without_a_bound_is_found() {
        assert_eq!(complaints("while true do\nend\n  repeat\n until it\n"), 2);
        let bounded = "while true do -- a thousand at most\nend\nrepeat -- twice\nuntil it\n";
        assert_eq!(complaints(bounded), 0);
    }

    #[test]
    fn a_read_of_everything_is_found() {
        assert_eq!(complaints("call(\"HGETALL\", NODES)\n"), 1);
        assert_eq!(complaints("call(\"LRANGE\", PAST, 0, -1)\n"), 1);
        assert_eq!(complaints("call(\"LRANGE\", PAST, 0, 9)\n"), 0);
    }

    #[test]
    fn an_unpack_of_any_number_is_found() {
        assert_eq!(complaints("call(\"HSET\", STATE, unpack(all))\n"), 1);
        let bounded = "call(\"HSET\", STATE, unpack(all, 1, CHUNK))\n";
        assert_eq!(complaints(bounded), 0);
    }
}
