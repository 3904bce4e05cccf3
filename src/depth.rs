//! How deep a page nests, and how many elements it makes, found by one reading of it that stops at the limits.
//!
//! Builds the tree as a browser does, without text and attributes, in steps of a few KiB. Never touches the world. The invariant: the
//! time it takes is linear in the page's length, whatever the page does.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use html5ever::interface::create_element;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use html5ever::tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeBuilder, TreeBuilderOpts, TreeSink};
use html5ever::{Attribute, LocalName, QualName, ns};

use crate::markup::SEPARATORS_MAX;

/// How deep the elements of a page may nest.
pub const DEPTH_MAX: usize = 256;

/// How many elements a page may make.
pub const ELEMENTS_MAX: usize = 1 << 19;

/// How much is read at a time, in bytes.
const PIECE_BYTES: usize = 4 << 10;

/// The limit that a page passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Tangle {
    /// It nests too deeply.
    #[error("it nests deeper than {DEPTH_MAX} elements")]
    Deep,
    /// It makes too many elements.
    #[error("it makes more than {ELEMENTS_MAX} elements")]
    Many,
    /// One of its tags is too long.
    #[error("one of its tags has more than {SEPARATORS_MAX} blanks, slashes and quotes")]
    Long,
}

/// Reads a page up to the first limit that it passes.
///
/// # Errors
/// When it passes one.
pub fn measure(html: &str) -> Result<(), Tangle> {
    let (found, separators) = (Rc::default(), Rc::default());
    let name = |local| QualName::new(None, ns!(html), LocalName::from(local));
    let sink = Sink { document: Node::new(name("")), found: Rc::clone(&found), elements: Cell::new(0) };
    let context = create_element(&sink, name("div"), Vec::new());
    let tree = TreeBuilder::new_for_fragment(sink, context, None, TreeBuilderOpts::default());
    let options = TokenizerOpts { initial_state: Some(tree.tokenizer_state_for_context_elem(false)), ..TokenizerOpts::default() };
    let tokenizer = Tokenizer::new(Watch { tree, separators: Rc::clone(&separators) }, options);
    let queue = BufferQueue::default();
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        rest = behind;
        let more = piece.bytes().filter(|byte| b" \t\n\r\x0c/\"'".contains(byte)).count();
        separators.set(separators.get() + more);
        if separators.get() > SEPARATORS_MAX {
            return Err(Tangle::Long);
        }
        queue.push_back(StrTendril::from_slice(piece));
        // The tree may ask for a script to be run in between; there is none, so reading goes on.
        while !queue.is_empty() {
            let _ = tokenizer.feed(&queue);
        }
        if let Some(tangle) = found.get() {
            return Err(tangle);
        }
    }
    Ok(())
}

/// Hands tokens to the tree, and counts what a tag that has not ended holds.
struct Watch {
    tree: TreeBuilder<Rc<Node>, Sink>,
    separators: Rc<Cell<usize>>,
}

impl TokenSink for Watch {
    type Handle = Rc<Node>;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Rc<Node>> {
        if !matches!(token, Token::ParseError(_)) {
            self.separators.set(0);
        }
        self.tree.process_token(token, line)
    }

    fn end(&self) {
        self.tree.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.tree.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// An element, by its name and its place alone.
#[derive(Debug)]
struct Node {
    name: QualName,
    parent: RefCell<Weak<Node>>,
    children: RefCell<Vec<Rc<Node>>>,
}

impl Node {
    fn new(name: QualName) -> Rc<Node> {
        Rc::new(Node { name, parent: RefCell::default(), children: RefCell::default() })
    }

    fn is_deeper_than(&self, levels: usize) -> bool {
        let mut above = self.parent.borrow().upgrade();
        for _ in 0..levels {
            let Some(node) = above else { return false };
            above = node.parent.borrow().upgrade();
        }
        above.is_some()
    }

    fn detach(&self) {
        let parent = std::mem::take(&mut *self.parent.borrow_mut()).upgrade();
        if let Some(parent) = parent {
            let mut children = parent.children.borrow_mut();
            // What is moved was put there lately.
            if let Some(at) = children.iter().rposition(|child| std::ptr::eq(&**child, self)) {
                children.remove(at);
            }
        }
    }
}

/// What the tree is built of.
struct Sink {
    document: Rc<Node>,
    found: Rc<Cell<Option<Tangle>>>,
    elements: Cell<usize>,
}

impl Sink {
    fn put(&self, parent: &Rc<Node>, child: NodeOrText<Rc<Node>>) {
        let NodeOrText::AppendNode(child) = child else { return };
        child.detach();
        *child.parent.borrow_mut() = Rc::downgrade(parent);
        // Two levels are the document's and its root's.
        if child.is_deeper_than(DEPTH_MAX + 1) {
            self.fail(Tangle::Deep);
        } else {
            parent.children.borrow_mut().push(child);
        }
    }

    fn fail(&self, tangle: Tangle) {
        self.found.set(self.found.get().or(Some(tangle)));
    }
}

impl TreeSink for Sink {
    type Handle = Rc<Node>;
    type Output = ();
    type ElemName<'a> = &'a QualName;

    fn finish(self) {}

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Rc<Node> {
        Rc::clone(&self.document)
    }

    fn elem_name<'a>(&'a self, target: &'a Rc<Node>) -> &'a QualName {
        &target.name
    }

    fn create_element(&self, name: QualName, _: Vec<Attribute>, _: ElementFlags) -> Rc<Node> {
        self.elements.set(self.elements.get() + 1);
        if self.elements.get() > ELEMENTS_MAX {
            self.fail(Tangle::Many);
        }
        Node::new(name)
    }

    fn create_comment(&self, _: StrTendril) -> Rc<Node> {
        Node::new(QualName::new(None, ns!(), LocalName::from("")))
    }

    fn create_pi(&self, target: StrTendril, _: StrTendril) -> Rc<Node> {
        self.create_comment(target)
    }

    fn append(&self, parent: &Rc<Node>, child: NodeOrText<Rc<Node>>) {
        self.put(parent, child);
    }

    fn append_based_on_parent_node(&self, element: &Rc<Node>, before: &Rc<Node>, child: NodeOrText<Rc<Node>>) {
        let parent = element.parent.borrow().upgrade();
        self.put(&parent.unwrap_or_else(|| Rc::clone(before)), child);
    }

    fn append_before_sibling(&self, sibling: &Rc<Node>, child: NodeOrText<Rc<Node>>) {
        let parent = sibling.parent.borrow().upgrade();
        if let Some(parent) = parent {
            self.put(&parent, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Rc<Node>) -> Rc<Node> {
        Rc::clone(target)
    }

    fn same_node(&self, one: &Rc<Node>, other: &Rc<Node>) -> bool {
        Rc::ptr_eq(one, other)
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn add_attrs_if_missing(&self, _: &Rc<Node>, _: Vec<Attribute>) {}

    fn remove_from_parent(&self, target: &Rc<Node>) {
        target.detach();
    }

    fn reparent_children(&self, node: &Rc<Node>, new_parent: &Rc<Node>) {
        let moved = std::mem::take(&mut *node.children.borrow_mut());
        for child in &moved {
            *child.parent.borrow_mut() = Rc::downgrade(new_parent);
        }
        new_parent.children.borrow_mut().extend(moved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(html: &str, expect: Result<(), Tangle>) {
        assert_eq!(measure(html), expect, "{} bytes, {:?}…", html.len(), html.chars().take(60).collect::<String>());
    }

    #[test]
    fn a_page_may_nest_as_deep_as_the_limit() {
        check("", Ok(()));
        check(&"<div>".repeat(DEPTH_MAX), Ok(()));
        check(&"<div>".repeat(DEPTH_MAX + 1), Err(Tangle::Deep));
        check(&"<svg>".repeat(DEPTH_MAX + 1), Err(Tangle::Deep));
        check(&"<li>x".repeat(5_000), Ok(()));
        check(&"<p>x<br>".repeat(5_000), Ok(()));
        check(&format!("<table>{}</table>", "<tr><td>x<td>y".repeat(5_000)), Ok(()));
        check(&"<div></div>".repeat(5_000), Ok(()));
    }

    #[test]
    fn what_looks_closed_and_is_not_counts() {
        for deep in ["<div></x>", "<div><!--</div>-->", "<div title='</div>'>", "<p><object></p>", "<svg><div><path/>"] {
            assert!(measure(&deep.repeat(3_000)).is_err(), "{deep}");
        }
        check(&"<div/>".repeat(DEPTH_MAX + 1), Err(Tangle::Deep));
        check(&format!("<svg>{}</svg>", "<path/>".repeat(5_000)), Ok(()));
    }

    #[test]
    fn formatting_that_is_opened_again_and_again_ends() {
        let bold: String = (0..200).map(|n| format!("<b class={n}>")).collect();
        check(&format!("<p>{bold}{}", "<p>x".repeat(20_000)), Err(Tangle::Many));
        let bold: String = (0..300).map(|n| format!("<p><b class={n}></p>")).collect();
        check(&bold, Err(Tangle::Deep));
    }

    #[test]
    fn a_tag_without_end_ends() {
        check(&format!("<p{}", " a=1".repeat(40_000)), Err(Tangle::Long));
        check(&"<p class=x>text, and more \"text\" / of it\n".repeat(10_000), Ok(()));
    }
}
