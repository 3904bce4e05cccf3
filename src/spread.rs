//! Spreads: a payload laid out over many lines, for a person.
//!
//! Pure. White space is all that is added: numbers keep their spelling, keys their order, strings their escapes. The invariant: of a
//! payload that is not cut, a spread is the same JSON text but for white space between its tokens.

/// A payload, laid out.
#[derive(Debug, PartialEq, Eq)]
pub struct Spread {
    /// Its lines.
    pub text: String,
    /// How many bytes of the payload are left out at its end.
    pub rest: usize,
}

/// What stands in front of a token for each bracket that it is within.
const INDENT: &str = "  ";

/// Lays out a JSON text until so many bytes are reached, on a character.
#[must_use]
pub fn spread(json: &str, bytes_max: usize) -> Spread {
    let mut text = String::new();
    let (mut depth, mut rest) = (0_usize, json.trim_start());
    while let Some(first) = rest.chars().next() {
        if text.len() >= bytes_max {
            break;
        }
        let behind = rest[first.len_utf8()..].trim_start();
        match first {
            '"' => {
                let end = string_end(rest).min(rest.ceil_char_boundary(bytes_max.saturating_sub(text.len())));
                text.push_str(&rest[..end]);
                rest = if rest[..end].len() > 1 && string_end(rest) == end { rest[end..].trim_start() } else { &rest[end..] };
                continue;
            }
            '{' | '[' if behind.starts_with(['}', ']']) => {
                text.push(first);
                text.push_str(&behind[..1]);
                rest = behind[1..].trim_start();
                continue;
            }
            '{' | '[' => {
                depth += 1;
                text.push(first);
                line(&mut text, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(first);
            }
            ',' => {
                text.push(first);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            other => text.push(other),
        }
        rest = behind;
    }
    Spread { text, rest: rest.len() }
}

fn line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n(INDENT, depth));
}

/// Where the string ends that a text starts with: behind its closing quote.
fn string_end(text: &str) -> usize {
    let mut at = 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &text.as_bytes()[at.min(text.len())..]) {
        at += found;
        if text.as_bytes()[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;

    #[track_caller]
    fn check(json: &str, expect: &str) {
        assert_eq!(spread(json, usize::MAX), Spread { text: expect.to_owned(), rest: 0 });
        assert_eq!(Payload::read(expect).unwrap(), Payload::read(json).unwrap());
    }

    #[test]
    fn a_payload_is_laid_out_and_no_token_changes() {
        check("{}", "{}");
        check("[ ]", "[]");
        check("\"a b\"", "\"a b\"");
        check("1.10", "1.10");
        check(
            r#"{"b":9007199254740993,"a":[1e400,-0.0,{"x":{}}],"b":"{\"[,:] \\","c":null}"#,
            "{\n  \"b\": 9007199254740993,\n  \"a\": [\n    1e400,\n    -0.0,\n    {\n      \"x\": {}\n    }\n  ],\n  \"b\": \"{\\\"[,:] \\\\\",\n  \"c\": null\n}",
        );
        check("{ \"a\" : 1 ,\t\"b\" : [ true ] }", "{\n  \"a\": 1,\n  \"b\": [\n    true\n  ]\n}");
    }

    #[test]
    fn a_long_one_is_cut_on_a_character_and_says_how_much_is_left() {
        let json = format!("{{\"a\":\"{}\"}}", "é".repeat(100));
        for bytes_max in 0..json.len() + 16 {
            let cut = spread(&json, bytes_max);
            assert!(cut.text.len() <= bytes_max + 4, "{bytes_max}: {}", cut.text);
            let squeezed: String = cut.text.split_whitespace().collect();
            assert_eq!(squeezed, json[..json.len() - cut.rest], "{bytes_max}");
        }
        let nested = spread(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), 1 << 16);
        assert!(nested.text.len() < (1 << 16) + 3_000, "{}", nested.text.len());
    }
}
