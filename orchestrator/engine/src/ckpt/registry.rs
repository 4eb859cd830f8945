//! From the campaign file's word for a checkpointer to what it stands for.

use super::contract::Checkpointer;
use cvc_core::point::CheckpointerKind;

/// Returns all checkpointers, in the order in which the doctor lists them.
pub fn all() -> impl Iterator<Item = &'static dyn Checkpointer> {
    CheckpointerKind::ALL.iter().copied().map(checkpointer)
}

macro_rules! define_checkpointer {
    ($($(#[$doc:meta])* $name:ident $word:literal => $module:ident::$member:ident,)+) => {
        /// Returns the checkpointer of a kind of the campaign file.
        pub fn checkpointer(kind: CheckpointerKind) -> &'static dyn Checkpointer {
            match kind {
                $(CheckpointerKind::$name => &super::$module::$member,)+
            }
        }
    };
}
cvc_core::checkpointers!(define_checkpointer);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ckpt::Install, transport::Transport};
    use cvc_core::campaign::{CheckpointSettings, SlurmLauncher};
    use cvc_core::point::Moment;

    fn settings(moment: Moment, restart_check: bool) -> CheckpointSettings {
        CheckpointSettings {
            moment,
            restart_check,
            baseline: false,
            own_series: false,
            timeout_s: 60.0,
            deltas: None,
        }
    }

    /// What needs no run; whole runs of all of them are a test of the program.
    #[test]
    fn every_checkpointer_keeps_the_contract() {
        let here = Install {
            bin: "/opt/checkpointer/bin".into(),
            version: Some("4.0.0".into()),
        };
        for kind in CheckpointerKind::ALL {
            let member = checkpointer(*kind);
            let name = member.name();
            assert_eq!(
                serde_json::to_value(kind).expect("serializes"),
                name,
                "the campaign file's word"
            );
            assert!(
                !member.title().is_empty() && all().any(|m| m.name() == name),
                "{name} is not listed"
            );
            for program in member.node_programs(&here) {
                assert!(
                    program.starts_with(&here.bin),
                    "{name} uses what was found: {program}"
                );
            }
            // they are removed or kept by their names
            assert!(
                member
                    .dirs()
                    .iter()
                    .all(|dir| !dir.is_empty() && !dir.contains('/')),
                "{name}: {:?}",
                member.dirs()
            );
            for transport in [Transport::Local, Transport::Ssh] {
                assert_eq!(member.transport(transport), transport, "{name}");
            }
            assert_ne!(
                member.transport(Transport::Slurm(SlurmLauncher::Srun)),
                Transport::Local,
                "{name}"
            );
            for moment in [
                Moment::AtS(vec![1.0]),
                Moment::AfterStep(2),
                Moment::SizeOnly,
                Moment::SizeOnlyAfterStep(2),
                Moment::Series {
                    every_s: 1.0,
                    count: 2,
                    compare: true,
                },
            ] {
                for restart_check in [false, true] {
                    let course = member.course(&settings(moment.clone(), restart_check));
                    let place =
                        format!("{name}, {moment:?}, restart check {restart_check}: {course:?}");
                    assert_eq!(course.on_request, kind.is_driven(), "{place}");
                    assert!(
                        course.on_request || !course.killed,
                        "only what cvc asks for tells when to kill: {place}"
                    );
                    assert!(course.killed || !course.cut_short, "{place}");
                    assert!(restart_check || !course.restarted, "{place}");
                    // images are of a program under way: one that went on would have changed what they depend on
                    assert!(
                        !course.restarted || course.killed != kind.has_own_files(),
                        "{place}"
                    );
                    assert!(
                        !course.on_request || !member.dirs().is_empty(),
                        "what is asked for lies somewhere: {place}"
                    );
                }
            }
        }
    }
}
