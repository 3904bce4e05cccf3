//! Proofs: whether a receipt of the log is verified, and whether it is in force, in words.
//!
//! Never installs anything and never writes. What is in force is proven already by the fold; of another receipt the key is asked
//! again, for its place in the log. The invariant: nothing is called verified that the key did not prove.

use crate::event::{Door, Event};
use crate::kernel::{Key, View};
use crate::log::{Log, LogError};
use crate::quotation::on_one_line;
use crate::receipt::{Before, Form, Secret, Verified, verify};
use crate::standing::Installed;
use crate::state::State;
use crate::vocabulary::Word;

impl View {
    /// What is proven of a receipt, and whether it is in force; `None` for any other event.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn receipt_in_words(&self, log: &Log, event: &Event<'_>) -> Result<Option<String>, LogError> {
        if Word::of(&event.name) != Some(Word::ScriptCompiled) {
            return Ok(None);
        }
        if !matches!(event.via, None | Some(Door::Kernel)) {
            return Ok(Some("not the kernel's own: it did not come through its door, and installs nothing".to_owned()));
        }
        let Some(secret) = &self.secret else {
            return Ok(Some(match self.key {
                Key::Missing => "not proven: the key `.secret` is missing; nothing is installed by it".to_owned(),
                Key::Here | Key::Refused => "not proven: the key `.secret` cannot be used; nothing is installed by it".to_owned(),
            }));
        };
        let installed = self.state.capabilities().filter_map(|(_, standing)| standing.installed());
        if let Some(Installed { receipt, .. }) = { installed }.find(|installed| log.is_regular() && installed.seq == event.seq) {
            return Ok(Some(verified_in_words(&self.state, event.seq, receipt)));
        }
        Ok(Some(match verify(secret, event, before(log, secret, event.seq)?) {
            Some(receipt) => verified_in_words(&self.state, event.seq, &receipt),
            None => {
                "not verified: the key did not sign this for this place in the log, and nothing is installed by it".to_owned()
            }
        }))
    }
}

/// What stands in the log in front of the first event of a number, as far as the validity of a receipt depends on it. Where each
/// event's number is known to be its place, only receipts are read.
fn before(log: &Log, secret: &Secret, seq: u64) -> Result<Before, LogError> {
    let mut state = State::new(Some(secret.clone()));
    if log.is_regular() {
        let is_receipt = |name: &str| Word::of(name) == Some(Word::ScriptCompiled);
        log.picked(is_receipt, |other, _| {
            if other.seq < seq {
                state.apply(&other);
            }
        })?;
        return Ok(Before { highest: seq.saturating_sub(1), has_v3: state.before().has_v3 });
    }
    let mut reached = false;
    log.all(|other| {
        reached |= other.seq == seq;
        if !reached {
            state.apply(&other);
        }
    })?;
    Ok(state.before())
}

fn verified_in_words(state: &State, seq: u64, receipt: &Verified) -> String {
    let capability = on_one_line(&receipt.capability().to_string());
    let author = receipt.author().map_or_else(String::new, |author| format!(", written by {}", on_one_line(author)));
    let older = if receipt.form() == Form::V3 { "" } else { ", of an older form" };
    let standing = state.standing(receipt.capability());
    let force = match standing.map(|standing| standing.installed().map(|installed| installed.seq)) {
        Some(Some(newest)) if newest == seq => "in force".to_owned(),
        Some(Some(newest)) => format!("not in force: the receipt at seq {newest} is"),
        Some(None) => "not in force: the declaration it was signed for does not stand".to_owned(),
        None => "not in force: it was retired".to_owned(),
    };
    format!("verified{older}, {force}; for {capability}{author}")
}
