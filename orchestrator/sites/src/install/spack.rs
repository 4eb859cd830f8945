//! Writes `spack.yaml`: what Spack has to build because neither the site nor the distribution has it. It has package specs only; the
//! recipes are Spack's own.

use serde_json::{Value, json};

/// One spec and, for an MPI program, the library to build it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// As for `spack install`.
    pub spec: String,
}

impl Wanted {
    /// A spec; a program gets the MPI library of its points unless it names one itself.
    pub fn new(spec: &str, mpi: Option<&str>) -> Self {
        let spec = spec.trim();
        match mpi {
            Some(mpi) if !spec.contains('^') => Self {
                spec: format!("{spec} ^{mpi}"),
            },
            Some(_) | None => Self {
                spec: spec.to_owned(),
            },
        }
    }
}

/// The environment. Each package gets a place in the view by its name, and MPI programs one below it for each library, so that two builds
/// of one program stay apart.
pub fn environment(wanted: &[Wanted]) -> Value {
    let mut specs: Vec<&str> = Vec::new();
    for one in wanted {
        if !specs.contains(&one.spec.as_str()) {
            specs.push(&one.spec);
        }
    }
    json!({ "spack": {
        "specs": specs,
        // two MPI libraries are two solutions
        "concretizer": { "unify": "when_possible" },
        "view": { "cvc": { "root": "view", "link": "roots", "projections": { "^mpi": "{name}/{^mpi.name}", "all": "{name}" } } },
    } })
}
