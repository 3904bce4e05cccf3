//! The difference of two texts, line by line: what went, what came, and a little of what stayed around it.
//!
//! A value and its view. What is compared and what is shown have bounds; a text over them is said to be so. The invariant: the lines that
//! stayed and went, in order, are the old text, where nothing was left out, and those that stayed and came are the new one.

use maud::{Markup, html};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use crate::page::told;

/// How many lines a text may have to be compared.
pub const LINES_MAX: usize = 20_000;

/// How many lines of a difference are shown.
pub const SHOWN_MAX: usize = 2_000;

/// How many lines that stayed are shown around a change.
const AROUND: usize = 3;

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// It stayed.
    Stayed,
    /// It went.
    Went,
    /// It came.
    Came,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// What became of it.
    pub became: Became,
    /// Its number in the old text, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<usize>,
    /// Its number in the new text, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<usize>,
    /// The line, without its end.
    pub text: String,
    /// Whether no line end stands behind it.
    pub is_unended: bool,
}

/// What changed between two texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// How many lines went.
    pub went: usize,
    /// How many came.
    pub came: usize,
    /// The changes, each with what stayed around it; at most [`SHOWN_MAX`] lines in all.
    pub hunks: Vec<Vec<Compared>>,
    /// How many lines are left out.
    pub left_out: usize,
}

impl Difference {
    /// Compares two texts; `None` if one has more lines than can be compared.
    #[must_use]
    pub fn of(old: &str, new: &str) -> Option<Difference> {
        if [old, new].iter().any(|text| text.lines().count() > LINES_MAX) {
            return None;
        }
        let compared = TextDiff::from_lines(old, new);
        let mut difference = Difference::default();
        let mut shown = 0;
        for group in compared.grouped_ops(AROUND) {
            let mut hunk = Vec::new();
            for change in group.iter().flat_map(|op| compared.iter_changes(op)) {
                let became = match change.tag() {
                    ChangeTag::Equal => Became::Stayed,
                    ChangeTag::Delete => Became::Went,
                    ChangeTag::Insert => Became::Came,
                };
                difference.went += usize::from(became == Became::Went);
                difference.came += usize::from(became == Became::Came);
                if shown == SHOWN_MAX {
                    difference.left_out += 1;
                    continue;
                }
                shown += 1;
                let line: &str = change.value();
                let text = line.trim_end_matches(['\r', '\n']);
                let (old, new) = (change.old_index().map(|at| at + 1), change.new_index().map(|at| at + 1));
                hunk.push(Compared { became, old, new, text: text.to_owned(), is_unended: text.len() == line.len() });
            }
            if !hunk.is_empty() {
                difference.hunks.push(hunk);
            }
        }
        Some(difference)
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.went + self.came == 0
    }

    /// The difference as a table: the numbers of the line in both texts, and the line, marked.
    #[must_use]
    pub fn table(&self, caption: &str) -> Markup {
        html! {
            table.diff {
                caption { (caption) ": " (self.went) " gone, " (self.came) " new" }
                thead { tr { th.num scope="col" { "old" } th.num scope="col" { "new" } th scope="col" { "line" } } }
                @for hunk in &self.hunks {
                    tbody { @for line in hunk { (row(line)) } }
                }
            }
            @if self.left_out > 0 { p.muted { (self.left_out) " lines more are left out." } }
        }
    }
}

fn row(line: &Compared) -> Markup {
    let text = html! { (told(&line.text)) @if line.is_unended { span.muted { " (no line end)" } } };
    html! {
        tr {
            td.num { @if let Some(old) = line.old { (old) } }
            td.num { @if let Some(new) = line.new { (new) } }
            td {
                @match line.became {
                    Became::Stayed => code { "  " (text) },
                    Became::Went => del { code { "− " (text) } },
                    Became::Came => ins { code { "+ " (text) } },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expect: &str) {
        let difference = Difference::of(old, new).unwrap();
        let mut found = String::new();
        for line in difference.hunks.iter().flatten() {
            let mark = match line.became {
                Became::Stayed => ' ',
                Became::Went => '-',
                Became::Came => '+',
            };
            let number = |at: Option<usize>| at.map_or_else(|| ".".to_owned(), |at| at.to_string());
            found += &format!(
                "{}{}{mark}{}{}\n",
                number(line.old),
                number(line.new),
                line.text,
                if line.is_unended { "~" } else { "" }
            );
        }
        assert_eq!(found, expect);
    }

    #[test]
    fn lines_that_went_and_came_are_numbered_with_what_stayed_around_them() {
        check("a\nb\nc\n", "a\nx\nc\n", "11 a\n2.-b\n.2+x\n33 c\n");
        check("", "a\n", ".1+a\n");
        check("a\n", "a\n", "");
        check("a\n", "a", "1.-a\n.1+a~\n");
        check("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "66 6\n77 7\n88 8\n.9+9\n");
    }

    #[test]
    fn what_is_over_the_bounds_is_said_so() {
        let long = "x\n".repeat(LINES_MAX + 1);
        assert_eq!(Difference::of(&long, "x\n"), None);
        let many: String = (0..SHOWN_MAX + 7).map(|n| format!("{n}\n")).collect();
        let difference = Difference::of("", &many).unwrap();
        assert_eq!((difference.came, difference.left_out), (SHOWN_MAX + 7, 7));
        assert!(difference.table("Script").into_string().ends_with("<p class=\"muted\">7 lines more are left out.</p>"));
    }

    #[test]
    fn a_difference_is_marked_in_words_and_hostile_text_is_text() {
        let table = Difference::of("<b>\n", "</ins><script>\u{1b}\n").unwrap().table("Script").into_string();
        assert_eq!(
            table,
            "<table class=\"diff\"><caption>Script: 1 gone, 1 new</caption><thead><tr><th class=\"num\" scope=\"col\">old</th>\
             <th class=\"num\" scope=\"col\">new</th><th scope=\"col\">line</th></tr></thead><tbody>\
             <tr><td class=\"num\">1</td><td class=\"num\"></td><td><del><code>− &lt;b&gt;</code></del></td></tr>\
             <tr><td class=\"num\"></td><td class=\"num\">1</td><td><ins><code>+ &lt;/ins&gt;&lt;script&gt;\\x1b</code></ins></td></tr>\
             </tbody></table>"
        );
    }

    #[test]
    fn large_texts_that_share_nothing_are_compared_in_time() {
        let [old, new] =
            ["a", "b"].map(|letter| (0..LINES_MAX).map(|n| format!("{letter}{}\n", n * 7919 % 9973)).collect::<String>());
        let difference = Difference::of(&old, &new).unwrap();
        assert_eq!((difference.went, difference.came), (LINES_MAX, LINES_MAX));
    }
}
