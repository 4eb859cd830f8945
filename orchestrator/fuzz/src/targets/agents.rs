//! Targets for the lines between controllers and agents.

use cvc_agent::{Event, Named, RelayLine, RelayMessage, read_relay_line};

pub(crate) const EVENT_WORDS: &[&str] = &[
    "{\"seq\":",
    "\"event\":\"began\"",
    "\"event\":\"finished\"",
    "\"event\":\"node-leaving\"",
    "{\"relay\":\"alive\",\"agent\":null,\"silent_s\":-1}",
    "\"relay\":\"written\"",
    "\"sum\":\"0123456789abcdef\"}",
    "\"leaves_at\":\"2026-01-02T03:04:05Z\"",
    "null",
    "[[[[",
];

/// Checks the parser of lines from the relay: an agent's event, or a message of the relay itself.
pub(crate) fn relay_line(data: &[u8]) {
    match read_relay_line(data) {
        RelayLine::Event(numbered) => {
            let json = serde_json::to_vec(&numbered).expect("JSON");
            let RelayLine::Event(back) = read_relay_line(&json) else {
                panic!("its own JSON is no event")
            };
            // a time may change in its last digit
            let is_finished = matches!(numbered.event, Event::Finished { .. });
            assert!(is_finished || serde_json::to_vec(&back).expect("JSON") == json);
        }
        RelayLine::Message(message) => {
            let json = serde_json::to_vec(&message).expect("JSON");
            serde_json::from_slice::<RelayMessage>(&json).expect("reads its own JSON");
        }
        RelayLine::Damaged => assert!(data.starts_with(b"{\"seq\":")),
        RelayLine::Noise => {}
    }
}

pub(crate) const REQUEST_WORDS: &[&str] = &[
    "{\"name\":\"",
    "\"request\":",
    "\"do\":\"run\"",
    "\"do\":\"stop\"",
    "\"do\":\"close\"",
    "\"run\":\"",
    "\"mapping\":\"2Nx8P\"",
    "null",
    "[[[[",
];

/// Checks the parser of lines from a controller: a named request.
pub(crate) fn agent_request(data: &[u8]) {
    let Ok(named) = serde_json::from_slice::<Named>(data) else {
        return;
    };
    let json = serde_json::to_vec(&named).expect("JSON");
    let back: Named = serde_json::from_slice(&json).expect("reads its own JSON");
    assert_eq!(serde_json::to_vec(&back).expect("JSON"), json);
}
