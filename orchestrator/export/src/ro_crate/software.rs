//! The programs of the runs, as their facts tell them, each described once.

use super::entity::{fragment, to};
use crate::error::ExportError;
use cvc_core::point::{CheckpointerKind, Point};
use cvc_index::Index;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What the facts of all runs say of software.
pub(super) struct Software {
    /// For each run: MPI library, digest of the program, version of DMTCP.
    runs: BTreeMap<String, Facts>,
    /// The programs that were described, with their identifiers.
    programs: BTreeMap<(String, Facts), String>,
    /// The libraries that were described.
    libraries: BTreeSet<String>,
}

#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Facts {
    mpi: Option<String>,
    digest: Option<String>,
    dmtcp: Option<String>,
}

impl Software {
    pub(super) fn read(index: &Index) -> Result<Self, ExportError> {
        let mut runs: BTreeMap<String, Facts> = BTreeMap::new();
        index.each_fact(|fact| {
            let of = match fact.key.as_str() {
                "mpi" | "program_digest" | "dmtcp" => runs.entry(fact.run).or_default(),
                _ => return,
            };
            match fact.key.as_str() {
                "mpi" => of.mpi = Some(fact.value),
                "program_digest" => of.digest = Some(fact.value),
                _ => of.dmtcp = Some(fact.value),
            }
        })?;
        Ok(Self {
            runs,
            programs: BTreeMap::new(),
            libraries: BTreeSet::new(),
        })
    }

    /// The program of a run, by its identifier. It is described when it is first met.
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
        if facts.dmtcp.is_none() && point.checkpointer != CheckpointerKind::None {
            facts.dmtcp = Some(String::new());
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
        if let Some(version) = &facts.dmtcp {
            let version = (!version.is_empty()).then_some(version.as_str());
            needs.push(self.library("DMTCP", version, graph));
        }
        let id = format!("#program-{}", self.programs.len() + 1);
        let mut program = json!({
            "@id": id,
            "@type": "SoftwareApplication",
            "name": if point.app.is_empty() { "program" } else { &point.app },
            "softwareRequirements": needs,
        });
        if let Some(digest) = &facts.digest {
            // the program as it was run: there is no other version of it that cvc can know
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

/// `Open MPI 4.1.4, OMPIO` is Open MPI, and the rest its version.
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
