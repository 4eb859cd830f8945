//! Targets for tables of observations.

use camino::Utf8Path;
use cvc_core::source::SourceText;
use cvc_index::csv;
use cvc_prediction::predict;

pub(crate) const WORDS: &[&str] = &[
    ",",
    "\"",
    "\"\"",
    "\n",
    "\r\n",
    "\r",
    "#",
    "\u{feff}",
    "app,class,mapping,mpi,dtapp_mib\n",
    "from,to,distance_s,changed_bytes,bytes\n",
    "1Nx4P",
    "4294967295Nx4294967295P",
    "openmpi",
    "NaN",
    "1e999",
    "-0",
    "gzip",
    "16MiB",
    "é",
];

/// Checks the reader of CSV tables.
pub(crate) fn csv(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let source = SourceText {
        path: "t.csv".into(),
        text: text.as_ref().into(),
    };
    for comment in [None, Some(b'#')] {
        let Ok(records) = csv::records(&source, comment) else {
            continue;
        };
        let mut line = 1;
        for record in &records {
            assert!(record.line >= line && !record.fields.is_empty());
            line = record.line;
            for field in &record.fields {
                // an unquoted field equals the text at its span
                let raw = &text[field.span.clone()];
                assert!(
                    raw.starts_with('"') || raw == field.text,
                    "{field:?} is {raw:?}"
                );
            }
        }
    }
    match predict::parse(Utf8Path::new("t.csv"), &text) {
        Ok(observations) => {
            for observation in observations {
                assert!(
                    observation
                        .quantities
                        .values()
                        .all(|value| value.is_finite() && *value >= 0.0),
                    "{observation:?}"
                );
                assert!(observation.setting.mapping.processes() > 0);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match cvc_prediction::delta::parse_pairs(Utf8Path::new("t.csv"), &text) {
        Ok(pairs) => {
            for pair in pairs {
                assert!(
                    pair.from < pair.to
                        && pair.distance_s > 0.0
                        && pair.distance_s.is_finite()
                        && (0.0..=pair.full_mib).contains(&pair.changed_mib),
                    "{pair:?}"
                );
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
