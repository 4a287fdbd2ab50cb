//! The server of these tests runs in a locale by which every text equals every other of its length.

use crate::servers::shared;

/// Otherwise no test would find a script that relies on the order of texts.
#[tokio::test]
async fn no_text_of_a_script_comes_before_another() {
    let pairs = [("R", "a"), ("a", "b"), (r"\200\1", r"\200\2")];
    for (one, other) in pairs {
        let script = format!(
            "return tostring('{one}' < '{other}') .. tostring('{one}' > '{other}') .. \
             tostring('{one}' >= '{other}') .. tostring('{one}' == '{other}')"
        );
        let found = shared().cli(&["EVAL", &script, "0"]);
        assert_eq!(found, "falsefalsetruefalse", "{one} and {other}");
    }
}
