//! Maps the name of a checkpointer in the campaign file to the checkpointer.

use super::contract::Checkpointer;
use cvc_core::point::CheckpointerKind;

/// Returns all checkpointers, in the order in which `cvc doctor` lists them.
pub fn all() -> impl Iterator<Item = &'static dyn Checkpointer> {
    CheckpointerKind::ALL.iter().copied().map(checkpointer)
}

macro_rules! define_checkpointer {
    ($($(#[$doc:meta])* $name:ident $word:literal => $module:ident::$member:ident,)+) => {
        /// Returns the checkpointer with this kind in the campaign file.
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
    use cvc_core::campaign::{CheckpointPlan, CheckpointSettings, SlurmLauncher};
    use cvc_core::point::{Moment, Point};

    fn plan(checkpointer: CheckpointerKind, moment: Moment, restart_check: bool) -> CheckpointPlan {
        let settings = CheckpointSettings {
            moment,
            restart_check,
            restarts: 1,
            baseline: false,
            own_series: false,
            timeout_s: 60.0,
            deltas: None,
            levels: None,
            resume: false,
        };
        let point = Point {
            checkpointer,
            ..Point::default()
        };
        CheckpointPlan::of(&settings, None, &point)
    }

    /// Checks the part of the contract that needs no run; tests of the whole program cover runs.
    #[test]
    fn every_checkpointer_keeps_the_contract() {
        let here = Install {
            bin: "/opt/checkpointer/bin".into(),
            version: Some("4.0.0".into()),
            forks: false,
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
            // other crates repeat these facts
            assert_eq!(member.software().is_some(), kind.is_driven(), "{name}");
            if let Some(driven) = kind.driven() {
                assert_eq!(member.title(), driven.title);
                let programs = member.node_programs(&here);
                assert!(
                    programs.contains(&here.program(driven.launcher).into()),
                    "{name}"
                );
            }
            for program in member.node_programs(&here) {
                assert!(
                    program.starts_with(&here.bin),
                    "{name} uses what was found: {program}"
                );
            }
            // these directories are removed or kept by their names
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
                    let course = member.course(&plan(*kind, moment.clone(), restart_check));
                    let place =
                        format!("{name}, {moment:?}, restart check {restart_check}: {course:?}");
                    assert_eq!(course.on_request, kind.is_driven(), "{place}");
                    assert!(
                        course.on_request || !course.killed,
                        "only requested checkpoints have a moment to kill at: {place}"
                    );
                    assert!(course.killed || !course.cut_short, "{place}");
                    assert!(restart_check || !course.restarted, "{place}");
                    // images require that the program was killed: a program that continued would have changed the files on which they depend
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
