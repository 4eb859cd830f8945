//! From the campaign file's word for a checkpointer to what it stands for.

use super::checkpointer::Checkpointer;
use cvc_core::point::CheckpointerKind;

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
    use super::{
        super::checkpointer::{Restart, Tools},
        *,
    };
    use crate::{ckpt::dmtcp::DmtcpInstall, mpi::Missing, transport::Transport};
    use cvc_core::{
        campaign::{CheckpointSettings, SlurmLauncher},
        point::Moment,
    };

    fn settings(moment: Moment, restart_check: bool) -> CheckpointSettings {
        CheckpointSettings { moment, restart_check, baseline: false, timeout_s: 60.0 }
    }

    #[test]
    fn every_checkpointer_keeps_the_contract() {
        let here = Ok(DmtcpInstall { bin: "/opt/dmtcp/bin".into(), version: "4.0.0".into() });
        let absent = Err(Missing { what: "DMTCP is not installed".into(), hint: "install it".into() });
        for kind in CheckpointerKind::ALL {
            let member = checkpointer(*kind);
            let name = member.name();
            assert_eq!(serde_json::to_value(kind).expect("serializes"), name, "the campaign file's word");
            assert_eq!(member.missing(&Tools { dmtcp: &here }), None, "{name}: everything is there");
            for program in member.node_programs(&Tools { dmtcp: &here }) {
                assert!(program.is_absolute(), "{name}: {program}");
            }
            // what needs nothing on nodes misses nothing, and the other way round
            let needs = !member.node_programs(&Tools { dmtcp: &here }).is_empty();
            assert_eq!(member.missing(&Tools { dmtcp: &absent }).is_some(), needs, "{name}");
            assert_eq!(member.node_programs(&Tools { dmtcp: &absent }), Vec::<camino::Utf8PathBuf>::new(), "{name}");
            for transport in [Transport::Local, Transport::Ssh] {
                assert_eq!(member.transport(transport), transport, "{name}");
            }
            for moment in [Moment::AtS(vec![1.0]), Moment::AfterStep(2), Moment::SizeOnly, Moment::SizeOnlyAfterStep(2)] {
                for restart_check in [false, true] {
                    let course = member.course(&settings(moment.clone(), restart_check));
                    let place = format!("{name}, {moment:?}, restart check {restart_check}: {course:?}");
                    assert!(course.on_request || !course.killed, "only what cvc asks for tells when to kill: {place}");
                    assert!(course.killed || !course.cut_short, "{place}");
                    assert!(restart_check || course.restart == Restart::Nothing, "{place}");
                    assert_eq!(course.restart == Restart::OwnFiles, restart_check && member.has_own_files(), "{place}");
                    // images are of a program under way: one that went on would have changed what they depend on
                    assert!(course.restart != Restart::Images || course.killed, "{place}");
                }
            }
        }
        let slurm = Transport::Slurm(SlurmLauncher::Srun);
        assert_eq!(checkpointer(CheckpointerKind::None).transport(slurm), slurm);
        assert_eq!(checkpointer(CheckpointerKind::Dmtcp).transport(slurm), Transport::Ssh);
    }
}
