//! The schema of a webhook, as exact as the check of a target.

use serde_json::{Value, json};

use crate::webhook::{
    HEADER_LEN_MAX, HEADER_NAME_LEN_MAX, HEADERS_MAX, RESERVED, RESERVED_PREFIXES,
};

/// `https://` or `http://`, a host, a port, and a path with a query; no login, no fragment.
fn url_pattern() -> String {
    let label = "(?![Xx][Nn]--)[A-Za-z0-9-]{1,63}\\.";
    let last = "(?![Xx][Nn]--)[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]";
    let byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    let v4 = format!("(?:{byte}\\.){{3}}{byte}");
    let v6 =
        "\\[(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}\\]|\\[[0-9A-Fa-f]{0,4}::[0-9A-Fa-f]{0,4}\\]";
    let port = "(?::[0-9]{1,4})?";
    let path = "(?:[/?][!$-;=?-Z_a-z~]*)?";
    format!("^https?://(?:(?:{label}){{0,3}}{last}|{v4}|{v6}){port}{path}$")
}

/// The prefix, and 24 to 64 bytes in base64.
fn secret_pattern() -> String {
    let any = "[A-Za-z0-9+/]";
    let one = format!("{any}[AQgw]==");
    let two = format!("{any}{{2}}[AEIMQUYcgkosw048]=");
    format!(
        "^whsec_(?:(?:{any}{{4}}){{8,20}}(?:{any}{{4}}|{one}|{two})?|(?:{any}{{4}}){{21}}{one})$"
    )
}

/// A name of a header, in any case, that a target may set.
fn header_pattern() -> String {
    let any_case = |name: &str| -> String {
        let letters = name.chars().map(|letter| match letter {
            'a'..='z' => format!("[{}{letter}]", letter.to_ascii_uppercase()),
            other => other.to_string(),
        });
        letters.collect()
    };
    let names = RESERVED.map(|name| format!("{}$", any_case(name)));
    let prefixes = RESERVED_PREFIXES.map(any_case);
    let refused = [names.as_slice(), prefixes.as_slice()].concat().join("|");
    format!("^(?!{refused})[!#$%&'*+.^_`|~0-9A-Za-z-]{{1,{HEADER_NAME_LEN_MAX}}}$")
}

/// Adds what the fields of a webhook do not say.
pub(super) fn refine(schema: &mut Value) {
    let fields = &mut schema["properties"];
    fields["url"]["pattern"] = url_pattern().into();
    fields["secrets"]["items"]["pattern"] = secret_pattern().into();
    fields["headers"]["maxProperties"] = HEADERS_MAX.into();
    fields["headers"]["propertyNames"] = json!({"pattern": header_pattern()});
    fields["headers"]["additionalProperties"]["pattern"] = json!("^[\\t -~\\u0080-\\uffff]*$");
    fields["headers"]["additionalProperties"]["maxLength"] = HEADER_LEN_MAX.into();
}
