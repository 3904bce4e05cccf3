//! Any line is a record, blank or damaged; a record reads back as it was written, its payload is found in its line, and a seal's
//! chain takes it in the same whoever finds the payload.
#![no_main]

use self_kernel::record::{Line, write};
use self_kernel::seal::Chain;

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    let mut found = Chain::default();
    found.take_line(line, false);
    let Line::Record(record) = Line::of(line, false) else { return };
    let payload = record.payload_in(line);
    let mut told = Chain::default();
    told.take(line, payload.clone());
    assert_eq!(told, found);
    let event = record.at(7);
    assert!(payload.is_none_or(|payload| &line[payload] == event.payload.get().as_bytes()));
    let mut text = Vec::new();
    write(&mut text, &event);
    // A name, an id or a payload of another program may hold a newline or a lone surrogate, which is written as another.
    if text.iter().filter(|byte| **byte == b'\n').count() == 1 {
        let Line::Record(again) = Line::of(&text[..text.len() - 1], false) else { panic!("it does not read back") };
        let mut twice = Vec::new();
        write(&mut twice, &again.at(7));
        assert_eq!(twice, text);
    }
});
