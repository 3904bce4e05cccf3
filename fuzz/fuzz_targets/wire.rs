//! Any bytes are read alike twice, and a quoted text holds nothing but prose.
#![no_main]

use self_kernel::wire::{Item, quote_material, read};

libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    assert_eq!(read(body), read(body));
    let quoted = quote_material(&String::from_utf8_lossy(body));
    let reading = read(quoted.as_bytes());
    assert_eq!(reading.notes, []);
    assert!(reading.items.iter().all(|item| matches!(item, Item::Prose(text) if *text == quoted)));
});
