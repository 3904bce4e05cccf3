//! Inputs: the field of a form that fits a parameter, and which of the fields that were sent are arguments.
//!
//! Pure: declarations and fields in, mark-up and arguments out. The invariants: fields become arguments in the order of the document,
//! whoever made the form, and what was typed comes back in an input that can hold it.

use maud::{Markup, html};

use crate::capability::{Declaration, is_optional};
use crate::form::Field;
use crate::moment;
use crate::page::word;

/// The most choices that one parameter can name.
const CHOICES_MAX: usize = 64;

/// From how many characters on a value is shown in an area of several lines.
const LONG_CHARS: usize = 80;

/// The names whose plain text tends to be long.
const LONG_NAMES: [&str; 8] = ["text", "message", "content", "body", "note", "summary", "description", "prompt"];

/// What kind of input a parameter gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// A line of text.
    Line,
    /// Text of several lines.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A day, `2026-11-30`.
    Date,
    /// A time of day, `10:34`.
    Time,
    /// A moment, RFC 3339.
    Moment,
    /// One of these words; a boolean is `true` or `false`.
    Choice(Vec<String>),
}

impl Shape {
    /// The shape of a parameter: by the first of its type words, by the words parted by `|` that its type word or its name gives,
    /// else by its name.
    #[must_use]
    pub fn of(name: &str, type_word: &str) -> Shape {
        let first = type_word.split(',').next().unwrap_or_default().trim();
        match first {
            "integer" => Shape::Integer,
            "number" => Shape::Number,
            "boolean" => Shape::Choice(vec!["true".to_owned(), "false".to_owned()]),
            "date" => Shape::Date,
            "time" => Shape::Time,
            "moment" => Shape::Moment,
            "text" | "markdown" | "object" | "array" | "base64" => Shape::Text,
            _ => choices(first).or_else(|| choices(name)).map_or_else(|| Shape::plain(name), Shape::Choice),
        }
    }

    fn plain(name: &str) -> Shape {
        if LONG_NAMES.contains(&name) { Shape::Text } else { Shape::Line }
    }

    /// Whether an input of this shape can hold a value, so that nobody loses what was typed.
    #[must_use]
    pub fn holds(&self, value: &str) -> bool {
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_whole = |text: &str| is_digits(text.strip_prefix('-').unwrap_or(text));
        match self {
            Shape::Line => !value.contains('\n') && value.chars().count() <= LONG_CHARS,
            Shape::Text => true,
            Shape::Integer => is_whole(value),
            Shape::Number => {
                let starts = value.strip_prefix('-').unwrap_or(value).bytes().next().is_some_and(|byte| byte.is_ascii_digit());
                starts && !value.ends_with('.') && value.parse().is_ok_and(f64::is_finite)
            }
            Shape::Date => value.len() == 10 && moment::read(&format!("{value}T00:00:00Z")).is_some(),
            Shape::Time => {
                let seconds = if value.len() == 5 { ":00" } else { "" };
                matches!(value.len(), 5 | 8) && moment::read(&format!("2000-01-01T{value}{seconds}Z")).is_some()
            }
            Shape::Moment => moment::read(value).is_some(),
            Shape::Choice(choices) => choices.iter().any(|choice| choice == value),
        }
    }
}

/// The words of `good|bad|ugly`.
fn choices(text: &str) -> Option<Vec<String>> {
    let choices: Vec<_> = text.split('|').map(str::trim).collect();
    let is_choice = |word: &&str| !word.is_empty() && !word.contains(char::is_whitespace) && !TYPES.contains(word);
    let is_list = (2..=CHOICES_MAX).contains(&choices.len()) && choices.iter().all(is_choice);
    is_list.then(|| choices.into_iter().map(str::to_owned).collect())
}

/// Type words, which are no choices: `string|null` is no list of them.
const TYPES: [&str; 13] =
    ["string", "text", "integer", "number", "boolean", "date", "time", "moment", "array", "object", "base64", "null", "optional"];

/// The arguments that the fields of a form are: their values in order, but for the empty ones at the end that belong to
/// parameters which may be left out. One in front of a value stays, as an empty argument: what is behind it keeps its place.
#[must_use]
pub fn arguments<'f>(declaration: Option<&Declaration>, fields: &'f [Field]) -> Vec<&'f str> {
    let params = declaration.map_or(&[][..], |declaration| &declaration.params);
    let mut values: Vec<_> = fields.iter().map(|field| field.value.as_str()).collect();
    while let Some(("", (_, type_word))) = values.last().copied().zip(params.get(values.len().wrapping_sub(1)))
        && is_optional(type_word)
    {
        values.pop();
    }
    values
}

/// A field with its label: by its parameter, if the declaration has one in its place.
#[derive(Debug, Clone, Copy)]
pub struct Input<'i> {
    /// Its id in the page.
    pub id: &'i str,
    /// What it is called.
    pub name: &'i str,
    /// Its parameter, name and type word.
    pub param: Option<&'i (String, String)>,
    /// What was typed into it, if it comes back.
    pub typed: Option<&'i str>,
    /// The id of what is said about it, if it comes back.
    pub said: Option<&'i str>,
    /// Whether it has the focus when the page opens.
    pub first: bool,
}

impl Input<'_> {
    fn type_word(&self) -> &str {
        self.param.map_or("", |(_, type_word)| type_word)
    }

    fn is_required(&self) -> bool {
        self.param.is_some_and(|(_, type_word)| !is_optional(type_word))
    }

    /// Whether what was typed is sure to be amiss: missing where it must be there, or not of its type.
    #[must_use]
    pub fn is_amiss(&self) -> bool {
        let shape = Shape::of(self.name_of(), self.type_word());
        match self.typed {
            None => false,
            Some("") => self.is_required(),
            Some(value) => !matches!(shape, Shape::Line | Shape::Text) && !shape.holds(value),
        }
    }

    fn name_of(&self) -> &str {
        self.param.map_or(self.name, |(name, _)| name)
    }

    /// The label and the input, in a paragraph.
    #[must_use]
    pub fn paragraph(&self) -> Markup {
        let label = if self.name.is_empty() { "field" } else { self.name };
        let shape = Shape::of(self.name_of(), self.type_word());
        let hint = match &shape {
            Shape::Integer => "a whole number",
            Shape::Number => "a number",
            Shape::Moment => "a moment, such as 2026-11-30T10:34:18Z",
            Shape::Line | Shape::Text | Shape::Date | Shape::Time | Shape::Choice(_) => "",
        };
        let may = if self.param.is_some() && !self.is_required() { "may be left empty" } else { "" };
        html! {
            p {
                label for=(self.id) {
                    (word(label))
                    @for words in [hint, may].iter().filter(|words| !words.is_empty()) { span.hint { " · " (words) } }
                }
                (self.control(shape))
            }
        }
    }

    fn control(&self, shape: Shape) -> Markup {
        let Input { id, name, typed, said, .. } = *self;
        let (required, value) = (self.is_required(), typed.unwrap_or_default());
        let shape = if value.is_empty() || shape.holds(value) { shape } else { widest(value) };
        let invalid = self.is_amiss().then_some("true");
        let (kind, step) = match &shape {
            Shape::Text => {
                // A browser drops the first line end of a textarea.
                return html! {
                    textarea #(id) name=(name) rows="3" required[required] aria-invalid=[invalid] aria-describedby=[said]
                        autofocus[self.first] { "\n" (value) }
                };
            }
            Shape::Choice(choices) => {
                return html! {
                    select #(id) name=(name) required[required] aria-invalid=[invalid] aria-describedby=[said] autofocus[self.first] {
                        option value="" { (if required { "choose" } else { "–" }) }
                        @for choice in choices { option value=(choice) selected[choice == value] { (word(choice)) } }
                    }
                };
            }
            Shape::Line | Shape::Moment => ("text", None),
            Shape::Integer => ("number", None),
            Shape::Number => ("number", Some("any")),
            Shape::Date => ("date", None),
            Shape::Time => ("time", Some("1")),
        };
        html! {
            input #(id) name=(name) type=(kind) step=[step] value=[typed] required[required] aria-invalid=[invalid]
                aria-describedby=[said] autofocus[self.first];
        }
    }
}

/// The shape that holds any value like this one.
fn widest(value: &str) -> Shape {
    if Shape::Line.holds(value) { Shape::Line } else { Shape::Text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Kind;
    use crate::payload::Payload;

    #[test]
    fn a_shape_is_read_off_the_type_words_then_the_name() {
        let choice = |words: &[&str]| Shape::Choice(words.iter().map(|word| (*word).to_owned()).collect());
        for (name, type_word, expect) in [
            ("a", "string", Shape::Line),
            ("a", "", Shape::Line),
            ("a", "string, optional", Shape::Line),
            ("text", "string", Shape::Text),
            ("a", "text", Shape::Text),
            ("a", "integer, optional", Shape::Integer),
            ("a", "number", Shape::Number),
            ("a", " date ", Shape::Date),
            ("a", "time", Shape::Time),
            ("a", "moment", Shape::Moment),
            ("a", "boolean", choice(&["true", "false"])),
            ("a", "good|bad, optional", choice(&["good", "bad"])),
            ("accepted|rejected", "string", choice(&["accepted", "rejected"])),
            ("a", "string|null", Shape::Line),
            ("a", "one of these | or that", Shape::Line),
            ("a|", "|", Shape::Line),
        ] {
            assert_eq!(Shape::of(name, type_word), expect, "{name}: {type_word}");
        }
    }

    #[test]
    fn a_shape_holds_what_its_input_can_show() {
        let check = |shape: Shape, good: &[&str], bad: &[&str]| {
            for value in good {
                assert!(shape.holds(value), "{shape:?} holds {value:?}");
            }
            for value in bad {
                assert!(!shape.holds(value), "{shape:?} does not hold {value:?}");
            }
        };
        check(Shape::Integer, &["0", "-12", "99999999999999999999"], &["1.5", "+1", "-", "x", " 1"]);
        check(Shape::Number, &["0", "-1.5", "1e3"], &["inf", "NaN", "+1", ".5", "1.", "x", "-", "1e999"]);
        check(Shape::Date, &["2026-11-30"], &["2026-11-31", "30.11.2026", "tomorrow"]);
        check(Shape::Time, &["10:34", "10:34:18"], &["25:00", "10h", "10:34:1", "1034é"]);
        check(Shape::Moment, &["2026-11-30T10:34:18Z", "2026-11-30T10:34:18+02:00"], &["2026-11-30", "20m"]);
        check(Shape::Choice(vec!["a".into(), "b".into()]), &["a"], &["c", "A"]);
        check(Shape::Line, &["é", &"é".repeat(80)], &["a\nb", &"é".repeat(81)]);
        check(Shape::Text, &["a\nb"], &[]);
    }

    fn declaration(params: &str) -> Declaration {
        let payload = Payload::read(&format!(r#"{{"name":"x","params":{params}}}"#)).unwrap();
        Declaration::read(Kind::Command, payload.as_ref()).unwrap()
    }

    #[track_caller]
    fn check(params: &str, values: &[&str], expect: &[&str]) {
        let fields: Vec<_> = values.iter().map(|value| Field { name: "f".to_owned(), value: (*value).to_owned() }).collect();
        assert_eq!(arguments(Some(&declaration(params)), &fields), expect, "{params} {values:?}");
    }

    #[test]
    fn an_empty_optional_field_is_no_argument_unless_something_stands_behind_it() {
        let params = r#"{"a":"string","b":"string, optional","c":"integer, optional"}"#;
        check(params, &["x", "", ""], &["x"]);
        check(params, &["x", "y", ""], &["x", "y"]);
        check(params, &["x", "", "3"], &["x", "", "3"]);
        check(params, &["", "", ""], &[""]);
        check(params, &["x", ""], &["x"]);
        check(params, &["x", " ", ""], &["x", " "]);
        check(params, &["x", "", "", ""], &["x", "", "", ""]);
        check(r#"{"a":"string, optional"}"#, &[""], &[]);
        check(r#"{"a":"string, optional","b":"string"}"#, &["", ""], &["", ""]);
        check("{}", &["", ""], &["", ""]);
        check(params, &[], &[]);
        let fields = [Field { name: "f".to_owned(), value: String::new() }];
        assert_eq!(arguments(None, &fields), [""]);
    }

    fn shown(name: &str, type_word: &str, typed: Option<&str>) -> String {
        let param = (name.to_owned(), type_word.to_owned());
        let input = Input { id: "i", name, param: Some(&param), typed, said: typed.map(|_| "said"), first: false };
        input.control(Shape::of(name, type_word)).into_string()
    }

    #[test]
    fn what_was_typed_comes_back_in_an_input_that_holds_it() {
        for (type_word, typed, expect) in [
            ("integer", "12", r#"<input id="i" name="n" type="number" value="12" required aria-describedby="said">"#),
            (
                "integer",
                "a \"b\"",
                r#"<input id="i" name="n" type="text" value="a &quot;b&quot;" required aria-invalid="true" aria-describedby="said">"#,
            ),
            (
                "date, optional",
                "soon",
                r#"<input id="i" name="n" type="text" value="soon" aria-invalid="true" aria-describedby="said">"#,
            ),
            (
                "string",
                "",
                r#"<input id="i" name="n" type="text" value="" required aria-invalid="true" aria-describedby="said">"#,
            ),
            (
                "string",
                "a\n<b>",
                "<textarea id=\"i\" name=\"n\" rows=\"3\" required aria-describedby=\"said\">\na\n&lt;b&gt;</textarea>",
            ),
            (
                "boolean",
                "false",
                r#"<select id="i" name="n" required aria-describedby="said"><option value="">choose</option><option value="true">true</option><option value="false" selected>false</option></select>"#,
            ),
            (
                "boolean",
                "perhaps",
                r#"<input id="i" name="n" type="text" value="perhaps" required aria-invalid="true" aria-describedby="said">"#,
            ),
        ] {
            assert_eq!(shown("n", type_word, Some(typed)), expect);
        }
        assert_eq!(shown("n", "number, optional", None), r#"<input id="i" name="n" type="number" step="any">"#);
        assert_eq!(shown("n", "time", None), r#"<input id="i" name="n" type="time" step="1" required>"#);
        assert_eq!(
            shown("n", "a|<b>, optional", Some("<b>")),
            r#"<select id="i" name="n" aria-describedby="said"><option value="">–</option><option value="a">a</option><option value="&lt;b&gt;" selected>&lt;b&gt;</option></select>"#
        );
    }

    #[test]
    fn a_label_says_what_fits_and_what_may_be_left_empty() {
        let param = ("n".to_owned(), "integer, optional".to_owned());
        let input = Input { id: "i", name: "n", param: Some(&param), typed: None, said: None, first: false };
        assert_eq!(
            input.paragraph().into_string(),
            r#"<p><label for="i">n<span class="hint"> · a whole number</span><span class="hint"> · may be left empty</span></label><input id="i" name="n" type="number"></p>"#
        );
    }
}
