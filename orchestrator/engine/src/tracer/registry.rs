//! The tracers that cvc knows.

use super::{contract::Tracer, darshan::Darshan, none::NoTracer, strace::Strace};
use cvc_core::campaign::TracerKind;

/// Every tracer, in the order in which the doctor tells of them.
pub fn all() -> [&'static dyn Tracer; 3] {
    [TracerKind::None, TracerKind::Strace, TracerKind::Darshan].map(tracer)
}

/// Returns the tracer of a kind of the campaign file. The match is exhaustive, so that a kind without one does not compile.
pub fn tracer(kind: TracerKind) -> &'static dyn Tracer {
    match kind {
        TracerKind::None => &NoTracer,
        TracerKind::Strace => &Strace,
        TracerKind::Darshan => &Darshan,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::launcher;
    use camino::Utf8Path;
    use cvc_core::campaign::MpiFamily;

    #[test]
    fn every_tracer_keeps_the_contract() {
        let (tool, work) = (Utf8Path::new("/opt/tracer/tool"), Utf8Path::new("/scratch/run"));
        for kind in [TracerKind::None, TracerKind::Strace, TracerKind::Darshan] {
            let member = tracer(kind);
            let name = member.name();
            assert_eq!(serde_json::to_value(kind).expect("serializes"), name, "the campaign file's word");
            assert!(all().iter().any(|m| m.name() == name), "{name} is not listed");
            for family in [MpiFamily::Mpich, MpiFamily::OpenMpi].map(launcher) {
                let added = member.instrument(tool, work, family);
                let words: Vec<&str> =
                    added.prefix.iter().chain(&added.launcher_args).chain(added.env.values()).map(String::as_str).collect();
                match member.trace() {
                    None => assert!(words.is_empty() && added.dirs.is_empty(), "{name} records nothing and adds {added:?}"),
                    Some(trace) => {
                        assert!(words.iter().any(|w| w.contains(tool.as_str())), "{name} uses what was found: {added:?}");
                        let place = work.join(trace);
                        assert!(words.iter().any(|w| w.starts_with(place.as_str())), "{name} records where it is looked for: {added:?}");
                        assert!(added.dirs.iter().all(|d| d.starts_with(work)), "{name}: {added:?}");
                    }
                }
                // either the whole command is traced, or the ranks alone by the launcher's own word
                assert!(added.prefix.is_empty() || added.launcher_args.is_empty(), "{name}: {added:?}");
                let by_rank = family.rank_env("X", tool.as_str()).len();
                assert!(added.launcher_args.is_empty() || added.launcher_args.len() == by_rank, "{name}: {added:?}");
            }
        }
        let traces: Vec<_> = all().iter().filter_map(|m| m.trace()).collect();
        assert!(traces.windows(2).all(|pair| pair[0] != pair[1]), "{traces:?}");
    }
}
