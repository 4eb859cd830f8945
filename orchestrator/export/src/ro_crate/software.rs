//! The programs of the runs, from the facts of the runs; each program is described once.

use super::entity::{fragment, to};
use crate::error::ExportError;
use cvc_core::point::{CheckpointerKind, Point};
use cvc_index::Index;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Facts of all runs about their software.
pub(super) struct SoftwareEntity {
    /// For each run: MPI library, digest of the program, and checkpointer.
    runs: BTreeMap<String, Facts>,
    /// Identifiers of the programs already described.
    programs: BTreeMap<(String, Facts), String>,
    /// Libraries already described.
    libraries: BTreeSet<String>,
}

#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Facts {
    mpi: Option<String>,
    digest: Option<String>,
    /// Title of the checkpointer, and its version if known.
    checkpointer: Option<(&'static str, Option<String>)>,
}

impl SoftwareEntity {
    pub(super) fn read(index: &Index) -> Result<Self, ExportError> {
        let mut runs: BTreeMap<String, Facts> = BTreeMap::new();
        index.each_fact(|fact| {
            let driven = CheckpointerKind::driven_of_word(&fact.key);
            match (fact.key.as_str(), driven) {
                ("mpi", _) => runs.entry(fact.run).or_default().mpi = Some(fact.value),
                ("program_digest", _) => {
                    runs.entry(fact.run).or_default().digest = Some(fact.value)
                }
                (_, Some(driven)) => {
                    let version = (!fact.value.is_empty()).then_some(fact.value);
                    runs.entry(fact.run).or_default().checkpointer = Some((driven.title, version))
                }
                _ => {}
            }
        })?;
        Ok(Self {
            runs,
            programs: BTreeMap::new(),
            libraries: BTreeSet::new(),
        })
    }

    /// Returns the identifier of a run's program; describes the program at its first use.
    pub(super) fn instrument(
        &mut self,
        run: &str,
        point: &Point,
        graph: &mut Vec<Value>,
    ) -> String {
        let mut facts = self.runs.get(run).cloned().unwrap_or_default();
        if facts.mpi.is_none() && !point.mpi.is_empty() {
            facts.mpi = Some(point.mpi.clone());
        }
        if facts.checkpointer.is_none() {
            let driven = point.checkpointer.driven();
            facts.checkpointer = driven.map(|driven| (driven.title, None));
        }
        let key = (point.app.clone(), facts.clone());
        if let Some(id) = self.programs.get(&key) {
            return id.clone();
        }
        let mut needs = Vec::new();
        if let Some(mpi) = &facts.mpi {
            let (name, version) = name_and_version(mpi);
            needs.push(self.library(&name, version, graph));
        }
        if let Some((title, version)) = &facts.checkpointer {
            needs.push(self.library(title, version.as_deref(), graph));
        }
        let id = format!("#program-{}", self.programs.len() + 1);
        let mut program = json!({
            "@id": id,
            "@type": "SoftwareApplication",
            "name": if point.app.is_empty() { "program" } else { &point.app },
            "softwareRequirements": needs,
        });
        if let Some(digest) = &facts.digest {
            // the digest is the only version information about the program
            program["softwareVersion"] = json!(format!("BLAKE3 {digest}"));
            program["identifier"] = json!(digest);
        }
        graph.push(program);
        self.programs.insert(key, id.clone());
        id
    }

    fn library(&mut self, name: &str, version: Option<&str>, graph: &mut Vec<Value>) -> Value {
        let id = format!(
            "#software-{}",
            fragment(&format!("{name}-{}", version.unwrap_or("unknown")))
        );
        if self.libraries.insert(id.clone()) {
            let mut library = json!({
                "@id": id, "@type": "SoftwareApplication", "name": name,
            });
            if let Some(version) = version {
                library["softwareVersion"] = json!(version);
            }
            graph.push(library);
        }
        to(&id)
    }
}

/// Splits a text such as `Open MPI 4.1.4, OMPIO` into name and version.
fn name_and_version(text: &str) -> (String, Option<&str>) {
    match text.find(|c: char| c.is_ascii_digit()) {
        Some(at) if at > 0 && text[..at].ends_with(' ') => {
            (text[..at].trim().to_owned(), Some(&text[at..]))
        }
        _ => (text.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::name_and_version;

    #[test]
    fn versions_begin_with_the_first_number_after_a_space() {
        let open = name_and_version("Open MPI 4.1.4, OMPIO");
        assert_eq!(open, ("Open MPI".to_owned(), Some("4.1.4, OMPIO")));
        assert_eq!(name_and_version("mpich"), ("mpich".to_owned(), None));
        assert_eq!(name_and_version("4.1"), ("4.1".to_owned(), None));
    }
}
