//! The relay, which sends the events of a spool to a controller.

use camino::Utf8PathBuf;
use cvc_agent::{Event, EventLog, Relay, RelayLine, RelayMessage, Request, Spool, read_relay_line};
use std::fs;

/// A spool without an agent.
struct Bench {
    _directory: tempfile::TempDir,
    root: Utf8PathBuf,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let root = Utf8PathBuf::from_path_buf(directory.path().to_owned()).expect("UTF-8");
        fs::create_dir_all(root.join("in")).expect("makes");
        Self {
            _directory: directory,
            root,
        }
    }

    fn events(&self) -> Utf8PathBuf {
        Spool::at(&self.root).events()
    }

    fn log(&self) -> EventLog {
        EventLog::open(&self.events()).expect("a log").0
    }
}

fn note(log: &mut EventLog, what: &str) {
    let what = what.to_owned();
    log.write(Event::Note { what }).expect("writes");
}

/// The numbers and notes of what a relay sends now.
fn sent(relay: &mut Relay) -> Vec<(u64, String)> {
    let mut sent = Vec::new();
    relay.send_new(&mut sent).expect("sends");
    sent.split_inclusive(|byte| *byte == b'\n')
        .map(|line| match read_relay_line(line) {
            RelayLine::Event(numbered) => match numbered.event {
                Event::Note { what } => (numbered.seq, what),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect()
}

fn notes(of: &[(u64, &str)]) -> Vec<(u64, String)> {
    let owned = |(seq, what): &(u64, &str)| (*seq, (*what).to_owned());
    of.iter().map(owned).collect()
}

#[test]
fn events_are_sent_once_and_from_the_one_that_was_heard_last() {
    let bench = Bench::new();
    let mut relay = Relay::new(&bench.root, 0);
    assert!(sent(&mut relay).is_empty(), "the agent has not started");
    let mut log = bench.log();
    for what in ["a", "b", "c"] {
        note(&mut log, what);
    }
    assert_eq!(sent(&mut relay), notes(&[(1, "a"), (2, "b"), (3, "c")]));
    assert!(sent(&mut relay).is_empty(), "there is nothing new");
    note(&mut log, "d");
    assert_eq!(sent(&mut relay), notes(&[(4, "d")]));
    // the controller that connects again has heard two of them
    let mut again = Relay::new(&bench.root, 2);
    assert_eq!(sent(&mut again), notes(&[(3, "c"), (4, "d")]));
    assert!(sent(&mut Relay::new(&bench.root, 4)).is_empty());
}

#[test]
fn a_line_is_sent_when_it_is_whole() {
    let bench = Bench::new();
    note(&mut bench.log(), "a");
    let whole = fs::read(bench.events()).expect("events");
    let (begin, end) = whole.split_at(whole.len() / 2);
    fs::write(bench.events(), begin).expect("writes");
    let mut relay = Relay::new(&bench.root, 0);
    assert!(sent(&mut relay).is_empty());
    fs::write(bench.events(), [begin, end].concat()).expect("writes");
    assert_eq!(sent(&mut relay), notes(&[(1, "a")]));
}

#[test]
fn a_damaged_line_is_left_out_and_its_number_is_missing() {
    let bench = Bench::new();
    let mut log = bench.log();
    for what in ["first", "second", "third"] {
        note(&mut log, what);
    }
    let text = fs::read_to_string(bench.events()).expect("events");
    fs::write(bench.events(), text.replace("second", "s3cond")).expect("writes");
    let mut relay = Relay::new(&bench.root, 0);
    assert_eq!(sent(&mut relay), notes(&[(1, "first"), (3, "third")]));
    // at the end it counts, so that the controller knows that it is missing
    fs::write(bench.events(), text.replace("third", "th1rd")).expect("writes");
    let mut relay = Relay::new(&bench.root, 0);
    assert_eq!(sent(&mut relay).len(), 2);
    let beat = relay.beat(|_| Some(true)).expect("beats");
    let Some(RelayMessage::Alive { agent, last, .. }) = beat else {
        panic!("{beat:?}");
    };
    assert_eq!((agent, last), (Some(true), 3));
    assert!(Spool::at(&bench.root).controller().exists());
    let soon = relay.beat(|_| Some(true)).expect("beats");
    assert!(soon.is_none(), "only now and then: {soon:?}");
}

#[test]
fn requests_are_written_into_the_spool_and_noise_is_not() {
    let bench = Bench::new();
    let spool = Spool::at(&bench.root);
    assert!(Relay::take(&spool, b"Last login: today").is_none());
    let line = serde_json::to_vec(&cvc_agent::Named {
        name: "close-1".into(),
        request: Request::Close,
    });
    let answer = Relay::take(&spool, &line.expect("JSON"));
    assert!(
        matches!(&answer, Some(RelayMessage::Written { name }) if name == "close-1"),
        "{answer:?}"
    );
    assert!(bench.root.join("in/close-1.json").exists());
    fs::remove_dir_all(bench.root.join("in")).expect("removes");
    let line = r#"{"name":"close-2","request":{"do":"close"}}"#;
    match Relay::take(&spool, line.as_bytes()) {
        Some(RelayMessage::Refused { name, problem }) => {
            assert!(
                name == "close-2" && problem.contains("close-2"),
                "{problem}"
            );
        }
        Some(RelayMessage::Written { .. } | RelayMessage::Alive { .. }) | None => {
            panic!("it cannot be written")
        }
    }
}

#[test]
fn lines_of_the_relay_are_distinguished_from_noise_and_damage() {
    let of = |line: &str| match read_relay_line(line.as_bytes()) {
        RelayLine::Event(_) => "event",
        RelayLine::Message(_) => "message",
        RelayLine::Damaged => "damaged",
        RelayLine::Noise => "noise",
    };
    assert_eq!(of("Welcome to n1\n"), "noise");
    assert_eq!(of("{\"seq\":12,\"at\":\n"), "damaged");
    assert_eq!(of("{\"other\":1}\n"), "noise");
}
