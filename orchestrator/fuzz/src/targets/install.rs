//! Target for the events of ansible-playbook.

use cvc_sites::install::{TaskResult, playbook::PlaybookReader};

pub(crate) const WORDS: &[&str] = &[
    "{\"event\":\"failed\",\"host\":\"n1\",\"task\":\"t\",\"msg\":\"",
    "{\"event\":\"stats\",\"hosts\":{",
    "\"event\":\"unreachable\"",
    "\"event\":\"ok\"",
    "\"installed\":{",
    "\"failures\":4294967295",
    "\"at\":\"/x/roles/",
    "waiting for privilege escalation prompt",
    "Failed to connect to the host via ssh: ",
    "\\u0000",
    "é",
    "null",
    "[[[[",
];

/// Checks the parser of the lines of an installation.
pub(crate) fn ansible_events(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut reader = PlaybookReader::new("site", false, &["n1".to_owned(), "n2".to_owned()]);
    let mut failures = 0;
    for line in text.lines() {
        if let Some(event) = reader.line(line) {
            let json = serde_json::to_string(&event).expect("JSON");
            failures +=
                usize::from(json.contains(&format!("{:?}", TaskResult::Failed).to_lowercase()));
        }
    }
    let whole = reader.is_whole;
    let report = reader.finish();
    assert!(
        ["n1", "n2"]
            .iter()
            .all(|host| report.hosts.contains_key(*host))
    );
    assert!(
        whole
            || report.failed.is_empty()
            || failures > 0
            || text.contains("unreachable")
            || text.contains("failed")
    );
    // a host that failed is listed if the playbook ended normally
    if whole {
        assert_eq!(
            report.failed.len(),
            report
                .hosts
                .values()
                .filter(|counts| !counts.is_done())
                .count()
        );
    }
    let _ = (report.hint(), report.to_string());
}
