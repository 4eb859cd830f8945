//! Maps the name of a tracer in the campaign file to the tracer.

use super::contract::Tracer;
use cvc_core::point::TracerKind;

/// Returns all tracers, in the order in which `cvc doctor` lists them.
pub fn all() -> impl Iterator<Item = &'static dyn Tracer> {
    TracerKind::ALL.iter().copied().map(tracer)
}

macro_rules! define_tracer {
    ($($(#[$doc:meta])* $name:ident $word:literal => $module:ident::$member:ident,)+) => {
        /// Returns the tracer with this kind in the campaign file.
        pub fn tracer(kind: TracerKind) -> &'static dyn Tracer {
            match kind {
                $(TracerKind::$name => &super::$module::$member,)+
            }
        }
    };
}
cvc_core::tracers!(define_tracer);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::launcher;
    use camino::Utf8Path;
    use cvc_core::campaign::MpiFamily;

    #[test]
    fn every_tracer_keeps_the_contract() {
        let (tool, work) = (
            Utf8Path::new("/opt/tracer/tool"),
            Utf8Path::new("/scratch/run"),
        );
        for kind in TracerKind::ALL {
            let member = tracer(*kind);
            let name = member.name();
            assert_eq!(
                serde_json::to_value(kind).expect("serializes"),
                name,
                "the campaign file's word"
            );
            assert!(all().any(|m| m.name() == name), "{name} is not listed");
            for family in MpiFamily::ALL.iter().copied().map(launcher) {
                let added = member.instrument(tool, work, family);
                let words: Vec<&str> = added
                    .prefix
                    .iter()
                    .chain(added.rank_env.values())
                    .chain(added.env.values())
                    .map(String::as_str)
                    .collect();
                match member.trace() {
                    None => assert!(
                        words.is_empty() && added.dirs.is_empty(),
                        "{name} records nothing and adds {added:?}"
                    ),
                    Some(trace) => {
                        assert!(
                            words.iter().any(|w| w.contains(tool.as_str())),
                            "{name} uses what was found: {added:?}"
                        );
                        let place = work.join(trace);
                        assert!(
                            words.iter().any(|w| w.starts_with(place.as_str())),
                            "{name} records where it is looked for: {added:?}"
                        );
                        assert!(
                            added.dirs.iter().all(|d| d.starts_with(work)),
                            "{name}: {added:?}"
                        );
                    }
                }
                // either the whole command or the ranks alone are traced
                assert!(
                    added.prefix.is_empty() || added.rank_env.is_empty(),
                    "{name}: {added:?}"
                );
            }
        }
        let traces: Vec<_> = all().filter_map(|m| m.trace()).collect();
        assert!(
            traces.windows(2).all(|pair| pair[0] != pair[1]),
            "{traces:?}"
        );
    }
}
