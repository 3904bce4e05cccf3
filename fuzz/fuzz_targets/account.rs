//! Any line of a record is taken in or refused, and never under a name of the kernel's; a log's line that is given is one that can
//! be learned, with its speaker and its payload; any text is a manifest or none, and one that was printed reads back.
#![no_main]

use self_kernel::account::{Deposit, Ledger, Manifest, Selector, given};
use self_kernel::payload::Payload;
use self_kernel::record::Line;
use self_kernel::vocabulary::Word;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut ledger = Ledger::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(deposit) = Deposit::read(line) {
            assert!(Word::of(deposit.name.as_str()).is_none());
            ledger.tell(&deposit);
        }
        let (Line::Record(record), Line::Record(again)) = (Line::read(line), Line::read(line)) else { continue };
        let event = again.at(7);
        if let Ok(left) = given(record.at(7), line) {
            let deposit = Deposit::read(&left).expect("what was given can be learned");
            if !deposit.is_mended {
                assert_eq!(deposit.by.as_deref().unwrap_or_default(), event.by.as_deref().unwrap_or_default());
                assert_eq!(Some(deposit.payload), Payload::read(event.payload.get()).ok());
            }
        }
        ledger.hold(&event);
    }
    ledger.start_over();
    let deposits = || bytes.split(|byte| *byte == b'\n').filter_map(|line| Deposit::read(line).ok());
    assert_eq!(ledger.events(), deposits().count() as u64);
    for deposit in deposits() {
        let occurrence = ledger.meet(&deposit);
        let _ = ledger.holds(occurrence);
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(manifest) = Manifest::read(&text) {
        let selector = Selector::read(manifest.selector().unwrap_or("x")).unwrap_or(Selector::Prefix("x".to_owned()));
        let printed = Manifest::print(&selector, manifest.events, &manifest.record_sha256);
        let again = Manifest::read(&printed).expect("what was printed reads back");
        assert_eq!(again.selector(), Some(&*selector.text()));
        assert_eq!((again.events, again.record_sha256), (manifest.events, manifest.record_sha256));
    }
});
