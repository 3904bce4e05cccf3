//! No payload that was not signed here is a receipt or a seal; one that was signed here is, and at no other place.
#![no_main]

use std::borrow::Cow;

use self_kernel::capability::{Capability, CapabilityName, Kind};
use self_kernel::event::{Door, Event};
use self_kernel::payload::Payload;
use self_kernel::receipt::{Before, Secret, sign, verify};
use self_kernel::seal::{Chain, Seal};

fn event(seq: u64, payload: &Payload) -> Event<'_> {
    let (id, name, occurred_at) = ("".into(), "script.compiled".into(), "".into());
    Event { seq, id, name, occurred_at, via: Some(Door::Kernel), by: None, payload: Cow::Borrowed(payload.as_ref()) }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (secret, text) = (Secret::new([7; 32]), String::from_utf8_lossy(bytes));
    let before = Before { highest: 6, has_v3: false };
    if let Ok(payload) = Payload::read(&text) {
        assert!(verify(&secret, &event(7, &payload), before).is_none());
        assert!(payload.parse::<Seal>().is_none_or(|seal| !seal.is_signed(&secret, b"front")));
    }
    let note = Capability { kind: Kind::Command, name: CapabilityName::new(Kind::Command, "note").expect("a good name") };
    let receipt = Payload::of(&sign(&secret, &note, &text, "ada", 7, "00"));
    assert!(verify(&secret, &event(7, &receipt), before).is_some_and(|verified| verified.script() == text));
    assert!(verify(&secret, &event(8, &receipt), before).is_none());
    assert!(verify(&Secret::new([8; 32]), &event(7, &receipt), before).is_none());
    let mut chain = Chain::default();
    chain.take_line(bytes, true);
    assert!(Seal::sign(&secret, &chain, 7, bytes).is_signed(&secret, bytes));
});
