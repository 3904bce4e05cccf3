//! Slips: what is wrong with a text that was meant to be JSON, in words for whoever wrote it.
//!
//! Never mends anything: a guess would put into the log what nobody said. Names the first fault only.

use serde_json::value::RawValue;

/// The words for what a parse error leads to, by the text at that place.
const SPOTS: [(&str, &str); 9] = [
    ("“", "curly quotes"),
    ("”", "curly quotes"),
    ("‘", "curly quotes"),
    ("’", "curly quotes"),
    ("'", "single quotes"),
    ("`", "backticks for quotes"),
    ("None", "`None` where `null` belongs"),
    ("True", "`True` where `true` belongs"),
    ("False", "`False` where `false` belongs"),
];

/// Says why a text is no JSON.
#[must_use]
pub fn no_json(text: &str) -> String {
    format!("no valid JSON: {}", cause(text))
}

fn cause(text: &str) -> String {
    let fault = match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => return "no object".to_owned(),
        Err(fault) => fault,
    };
    if fault.is_eof() {
        return "it ends before its last bracket".to_owned();
    }
    let at = offset(text, fault.line(), fault.column());
    let (before, spot) = (text.get(..at).unwrap_or("").trim_end(), text.get(at..).unwrap_or(""));
    if before.ends_with(',') && spot.starts_with(['}', ']']) {
        return "trailing comma".to_owned();
    }
    if let Some((_, words)) = SPOTS.iter().find(|(start, _)| spot.starts_with(start)) {
        return (*words).to_owned();
    }
    let words = fault.to_string();
    let words = words.split(" at line ").next().unwrap_or("");
    if words.starts_with("control character") {
        // Here the parser stands in front of the character, not on it.
        let slip = match text.as_bytes().get(at + 1) {
            Some(b'\n' | b'\r') => "a line end inside a string, where \\n belongs",
            _ => "a control character inside a string",
        };
        return slip.to_owned();
    }
    match words {
        "key must be a string" if spot.starts_with(char::is_alphabetic) => "a key without quotes",
        "trailing characters" => "text behind the value",
        _ => words,
    }
    .to_owned()
}

/// The byte that an error's line and column name; both count from 1, the column in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start = match line.checked_sub(2) {
        Some(ends) => memchr::memchr_iter(b'\n', text.as_bytes()).nth(ends).map_or(0, |end| end + 1),
        None => 0,
    };
    (start + column).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(no_json(text), format!("no valid JSON: {expect}"));
    }

    #[test]
    fn the_common_slips_are_named() {
        check(r#"{"name":"a.b",}"#, "trailing comma");
        check("{\"name\":\"a.b\",\n \"payload\": [1,\n 2, ]\n}", "trailing comma");
        check("{“name”:“a.b”}", "curly quotes");
        check("{\"name\": ‘a.b’}", "curly quotes");
        check("{'name':'a.b'}", "single quotes");
        check("{\"name\":\n'a.b'}", "single quotes");
        check(r#"{"name":"a.b","payload":None}"#, "`None` where `null` belongs");
        check(r#"{"name":"a.b","payload":{"x":True}}"#, "`True` where `true` belongs");
        check(r#"{name:"a.b"}"#, "a key without quotes");
        check(r#"{"name":"a.b"} and so on"#, "text behind the value");
        check(r#"{"name":"a.b","payload":{}"#, "it ends before its last bracket");
        check("{\"name\":\"a\nb\"}", "a line end inside a string, where \\n belongs");
        check("{\"name\":\"é\nb\"}", "a line end inside a string, where \\n belongs");
        check("{\"name\":\"a\tb\"}", "a control character inside a string");
        check(r#"{"name":"a.b" "payload":{}}"#, "expected `,` or `}`");
        check(r#"{"name":"a.b","payload":{"x":.5}}"#, "expected value");
        check("[]", "no object");
    }
}
