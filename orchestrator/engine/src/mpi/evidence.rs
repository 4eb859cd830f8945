//! Checks whether I/O settings took effect: by the reports of the library while the program ran, and by the number of ranks that actually wrote.

use super::{
    io_evidence::{IoEvidence, LaunchOutput},
    launch::LaunchRequest,
    launcher::MpiInstall,
};

/// Compares the requested settings with the settings that a run's output shows.
pub fn check_io(
    install: &MpiInstall,
    request: &LaunchRequest,
    output: &LaunchOutput<'_>,
) -> IoEvidence {
    let mut seen = IoEvidence::default();
    if !request.sets_io() {
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
    use cvc_core::io_settings::IoValue;
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
            hardware_threads: false,
            aggregators: Some(2),
            cb_buffer: Some(ByteSize(1 << 20)),
            io: vec![],
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
            &LaunchOutput {
                stdout,
                stderr,
                writers,
            },
        )
    }

    /// Output of ROMIO 4.0.2.
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
            "every hint that was requested and not printed: {seen:?}"
        );
    }

    #[test]
    fn settings_of_one_layer_are_verified_as_the_others() {
        let set = |layer, key, value: &str| IoValue {
            layer,
            key,
            value: value.into(),
        };
        let check = |io: MpiIo, values: Vec<IoValue>, stdout: &str, stderr: &str| {
            let request = LaunchRequest {
                aggregators: None,
                cb_buffer: None,
                // the program writes independently: data sieving applies to it
                collective_io: false,
                io: values,
                ..request()
            };
            let writers = None;
            let output = LaunchOutput {
                stdout,
                stderr,
                writers,
            };
            check_io(&install(io), &request, &output)
        };
        let sieving = || vec![set(MpiIo::Romio, "romio_ds_write", "disable")];
        let hint = "key = romio_ds_write            value = disable   \n";
        let seen = check(MpiIo::Romio, sieving(), hint, "");
        assert!(
            seen.ignored.is_empty() && seen.unseen.is_empty(),
            "{seen:?}"
        );
        assert!(
            seen.selected
                .contains(&"romio_ds_write = disable".to_owned()),
            "{seen:?}"
        );
        let seen = check(
            MpiIo::Romio,
            sieving(),
            &hint.replace("disable", "automatic"),
            "",
        );
        assert!(
            seen.ignored[0].contains("romio_ds_write = disable requested"),
            "{seen:?}"
        );
        assert_eq!(check(MpiIo::Romio, sieving(), "", "").unseen.len(), 1);

        let message = "[vm:1] io:base:file_select: Selected io module ompio\n[vm:1] select: component vulcan is not selected\n[vm:1] select: component dynamic selected\n";
        let fcoll = |of: &str| vec![set(MpiIo::Ompio, "fcoll", of)];
        let seen = check(MpiIo::Ompio, fcoll("dynamic"), "", message);
        assert_eq!(seen.selected, ["io ompio", "fcoll dynamic"]);
        assert!(
            seen.ignored.is_empty() && seen.unseen.is_empty(),
            "{seen:?}"
        );
        let seen = check(MpiIo::Ompio, fcoll("two_phase"), "", message);
        assert!(
            seen.ignored[0].contains("fcoll two_phase requested"),
            "{seen:?}"
        );
        let grouping = vec![set(MpiIo::Ompio, "io_ompio_grouping_option", "2")];
        let seen = check(MpiIo::Ompio, grouping, "", message);
        assert!(
            seen.ignored[0].contains("no parameter io_ompio_grouping_option"),
            "{seen:?}"
        );
        assert_eq!(seen.unobservable.len(), 1, "{seen:?}");
    }

    #[test]
    fn ompio_is_judged_by_its_selection_and_its_writers() {
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
