//! Checks whether I/O settings took effect: what the library itself reported while the program ran, and how many ranks really wrote.

use super::{
    io_evidence::{IoEvidence, Output},
    launch::LaunchRequest,
    launcher::MpiInstall,
};

/// Compares what was asked for with what the output shows.
pub fn check_io(install: &MpiInstall, request: &LaunchRequest, output: &Output<'_>) -> IoEvidence {
    let mut seen = IoEvidence::default();
    if !request.collective_io {
        return seen;
    }
    install.family.check_io(install, request, output, &mut seen);
    if let (Some(writers), Some(wanted)) = (output.writers, request.aggregators)
        && u64::from(wanted) != writers
    {
        seen.ignored.push(format!(
            "{wanted} aggregators requested, but {writers} ranks wrote"
        ));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mpi::launcher, transport::Transport};
    use cvc_core::campaign::{MpiFamily, MpiIo};
    use cvc_core::units::ByteSize;

    fn install(io: MpiIo) -> MpiInstall {
        MpiInstall {
            name: "m".into(),
            family: launcher(if io == MpiIo::Romio {
                MpiFamily::Mpich
            } else {
                MpiFamily::OpenMpi
            }),
            mpiexec: "/usr/bin/mpiexec".into(),
            version: "4".into(),
            device: None,
            io,
            romio_component: None,
            ompio_parameters: vec!["num_aggregators".into(), "bytes_per_agg".into()],
            env: Default::default(),
            args: vec![],
        }
    }

    fn request() -> LaunchRequest {
        LaunchRequest {
            mapping: "1Nx4P".parse().expect("mapping"),
            hosts: vec!["localhost".into()],
            cores_per_node: 2,
            aggregators: Some(2),
            cb_buffer: Some(ByteSize(1 << 20)),
            collective_io: true,
            run_dir: "/r".into(),
            tmp_dir: "/t".into(),
            transport: Transport::Local,
            interface: None,
            oversubscribe: true,
            export: vec![],
            marker: "r@/c".into(),
        }
    }

    fn check(io: MpiIo, stdout: &str, stderr: &str, writers: Option<u64>) -> IoEvidence {
        check_io(
            &install(io),
            &request(),
            &Output {
                stdout,
                stderr,
                writers,
            },
        )
    }

    /// As ROMIO 4.0.2 prints it.
    const HINTS: &str = "key = cb_buffer_size            value = 1048576   \nkey = romio_cb_read             value = enable    \n\
        key = romio_cb_write            value = enable    \nkey = cb_nodes                  value = 2         \n\
        key = cb_config_list            value = *:2       \nkey = romio_aggregator_list     value = 0 1       \n";

    #[test]
    fn hints_that_romio_took_pass_and_others_fail() {
        let seen = check(MpiIo::Romio, HINTS, "", Some(2));
        assert_eq!(
            (seen.aggregators, seen.cb_buffer, seen.ignored.len()),
            (Some(2), Some(1 << 20), 0),
            "{seen:?}"
        );
        let clipped = HINTS.replace(
            "cb_nodes                  value = 2",
            "cb_nodes                  value = 1",
        );
        let seen = check(MpiIo::Romio, &clipped, "", None);
        assert!(
            seen.ignored
                .iter()
                .any(|i| i.contains("cb_nodes = 2 requested, but ROMIO used 1")),
            "{seen:?}"
        );
        let seen = check(MpiIo::Romio, "no hints", "", None);
        assert_eq!(
            seen.unseen.len(),
            5,
            "every hint that was asked for and not printed: {seen:?}"
        );
    }

    #[test]
    fn ompio_is_judged_by_what_it_selected_and_by_who_wrote() {
        let message = "[vm:1] io:base:file_select: Selected io module ompio\n[vm:1] select: component vulcan selected\n";
        let seen = check(MpiIo::Ompio, "", message, Some(2));
        assert_eq!(
            (seen.aggregators, seen.ignored.len()),
            (Some(2), 0),
            "{seen:?}"
        );
        let seen = check(MpiIo::Ompio, "", message, Some(1));
        assert!(seen.ignored[0].contains("2 aggregators requested, but 1 ranks wrote"));
        let seen = check(
            MpiIo::Ompio,
            "",
            &message.replace("vulcan", "individual"),
            Some(2),
        );
        assert!(seen.ignored[0].contains("individual"));
    }
}
