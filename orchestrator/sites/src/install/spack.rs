//! Writes `spack.yaml`: the packages that Spack has to build because neither the site nor the distribution provides them. It contains package specs
//! only; the recipes are Spack's own.

use serde_json::{Value, json};

/// A Spack spec and, for an MPI program, the library with which to build it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpackBuild {
    /// The spec, as for `spack install`.
    pub spec: String,
}

impl SpackBuild {
    /// Creates a build of a spec. A program is built with the MPI library of its points, unless the spec names a library.
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

/// Returns the environment. In Spack's view each package has a directory of its name. The directory of an MPI program has a subdirectory for each MPI
/// library, so that the builds with different libraries are separate.
pub fn environment(wanted: &[SpackBuild]) -> Value {
    let mut specs: Vec<&str> = Vec::new();
    for one in wanted {
        if !specs.contains(&one.spec.as_str()) {
            specs.push(&one.spec);
        }
    }
    json!({ "spack": {
        "specs": specs,
        // two MPI libraries need separate concretizations
        "concretizer": { "unify": "when_possible" },
        "view": { "cvc": { "root": "view", "link": "roots", "projections": { "^mpi": "{name}/{^mpi.name}", "all": "{name}" } } },
    } })
}
