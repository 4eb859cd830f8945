//! Whether I/O settings took effect: what the library itself said while the program ran, and how many ranks really wrote.

use super::{LaunchRequest, MpiInstall, mpich};
use cvc_core::campaign::MpiIo;
use std::collections::BTreeSet;

/// What was seen of the I/O settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoEvidence {
    /// Aggregators that the library used, by its own word or by the writers that the program counted.
    pub aggregators: Option<u64>,
    /// Collective buffer that it used, bytes, by its own word.
    pub cb_buffer: Option<u64>,
    /// What the library selected, for the facts of the run.
    pub selected: Vec<String>,
    /// Settings that the library contradicted: the run fails.
    pub ignored: Vec<String>,
    /// Settings of which the library said nothing: the run fails if it ran to its end.
    pub unseen: Vec<String>,
    /// Settings that the library accepts and never reports, so that nobody can see what it made of them.
    pub unobservable: Vec<String>,
}

/// All values that ROMIO printed for a hint (`key = cb_nodes   value = 2`).
fn romio_values<'a>(output: &'a str, key: &str) -> BTreeSet<&'a str> {
    output
        .lines()
        .filter_map(|line| {
            let (name, value) = line.trim().strip_prefix("key = ")?.split_once("value = ")?;
            (name.trim() == key).then_some(value.trim())
        })
        .collect()
}

/// Compares what was asked for with what the output shows. `writers`: the figure that the program printed, if it counts them.
pub fn check_io(install: &MpiInstall, request: &LaunchRequest, stdout: &str, stderr: &str, writers: Option<u64>) -> IoEvidence {
    let mut seen = IoEvidence::default();
    if !request.collective_io {
        return seen;
    }
    match install.io {
        MpiIo::Romio => {
            for (key, wanted) in mpich::hints(request) {
                let values = romio_values(stdout, key);
                if values.is_empty() {
                    seen.unseen.push(format!("{key} = {wanted}: ROMIO printed no such hint, so no file was opened with it"));
                } else if values.iter().any(|v| *v != wanted) {
                    let values: Vec<_> = values.into_iter().collect();
                    seen.ignored.push(format!("{key} = {wanted} was asked for, ROMIO used {}", values.join(" and ")));
                }
            }
            let one = |key| romio_values(stdout, key).first().and_then(|v| v.parse().ok());
            seen.aggregators = one("cb_nodes");
            seen.cb_buffer = one("cb_buffer_size");
            seen.selected.extend(romio_values(stdout, "romio_aggregator_list").iter().map(|l| format!("aggregators on ranks {l}")));
        }
        MpiIo::Ompio => {
            let after = |mark: &str| -> BTreeSet<String> {
                stderr.lines().filter_map(|l| Some(l.split_once(mark)?.1.split_whitespace().next()?.to_owned())).collect()
            };
            let io = after("Selected io module ");
            let fcoll: BTreeSet<String> =
                stderr.lines().filter_map(|l| l.split_once("select: component ")?.1.strip_suffix(" selected").map(str::to_owned)).collect();
            seen.selected.extend(io.iter().map(|c| format!("io {c}")).chain(fcoll.iter().map(|c| format!("fcoll {c}"))));
            if request.aggregators.is_some() || request.cb_buffer.is_some() {
                if io.is_empty() {
                    seen.unseen.push("OMPIO did not say that it opened a file".into());
                } else if io.iter().any(|c| c != "ompio") {
                    seen.ignored.push(format!("io ompio was asked for, Open MPI selected {}", Vec::from_iter(io.clone()).join(" and ")));
                }
                if fcoll.is_empty() && !io.is_empty() {
                    seen.unseen.push("OMPIO did not say which fcoll component it selected".into());
                } else if !fcoll.is_empty() && !fcoll.contains("vulcan") {
                    seen.ignored.push(format!("fcoll vulcan was asked for, Open MPI selected {}", Vec::from_iter(fcoll).join(" and ")));
                }
            }
            // a parameter that this version does not have is accepted without a word
            let asked = [("num_aggregators", request.aggregators.is_some()), ("bytes_per_agg", request.cb_buffer.is_some())];
            for (name, _) in asked.iter().filter(|(name, asked)| *asked && !install.ompio_parameters.iter().any(|p| p == name)) {
                seen.ignored.push(format!("this Open MPI has no parameter io_ompio_{name} (ompi_info --param io ompio --level 9)"));
            }
            if let Some(buffer) = request.cb_buffer {
                seen.unobservable.push(format!("io_ompio_bytes_per_agg = {}: OMPIO does not tell what it used", buffer.0));
            }
            if let (Some(aggregators), None) = (request.aggregators, writers) {
                seen.unobservable.push(format!(
                    "io_ompio_num_aggregators = {aggregators}: this program does not count its writers, OMPIO does not tell"
                ));
            }
        }
    }
    if let Some(writers) = writers {
        // OMPIO tells no number of its own: the ranks that wrote are the evidence
        if install.io == MpiIo::Ompio {
            seen.aggregators = Some(writers);
        }
        if let Some(wanted) = request.aggregators
            && u64::from(wanted) != writers
        {
            seen.ignored.push(format!("{wanted} aggregators were asked for, {writers} ranks wrote"));
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::Reach;
    use cvc_core::{campaign::MpiFamily, units::ByteSize};

    fn install(io: MpiIo) -> MpiInstall {
        MpiInstall {
            name: "m".into(),
            family: if io == MpiIo::Romio { MpiFamily::Mpich } else { MpiFamily::OpenMpi },
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
            dmtcp: false,
            run_dir: "/r".into(),
            tmp_dir: "/t".into(),
            reach: Reach::Local,
            interface: None,
            oversubscribe: true,
            export: vec![],
            marker: "r@/c".into(),
        }
    }

    /// As ROMIO 4.0.2 prints it.
    const HINTS: &str = "key = cb_buffer_size            value = 1048576   \nkey = romio_cb_read             value = enable    \n\
        key = romio_cb_write            value = enable    \nkey = cb_nodes                  value = 2         \n\
        key = cb_config_list            value = *:2       \nkey = romio_aggregator_list     value = 0 1       \n";

    #[test]
    fn hints_that_romio_took_pass_and_others_fail() {
        let seen = check_io(&install(MpiIo::Romio), &request(), HINTS, "", Some(2));
        assert_eq!((seen.aggregators, seen.cb_buffer, seen.ignored.len()), (Some(2), Some(1 << 20), 0), "{seen:?}");
        let clipped = HINTS.replace("cb_nodes                  value = 2", "cb_nodes                  value = 1");
        let seen = check_io(&install(MpiIo::Romio), &request(), &clipped, "", None);
        assert!(seen.ignored.iter().any(|i| i.contains("cb_nodes = 2 was asked for, ROMIO used 1")), "{seen:?}");
        let seen = check_io(&install(MpiIo::Romio), &request(), "no hints", "", None);
        assert_eq!(seen.unseen.len(), 5, "every hint that was asked for and not printed: {seen:?}");
    }

    #[test]
    fn ompio_is_judged_by_what_it_selected_and_by_who_wrote() {
        let said = "[vm:1] io:base:file_select: Selected io module ompio\n[vm:1] select: component vulcan selected\n";
        let seen = check_io(&install(MpiIo::Ompio), &request(), "", said, Some(2));
        assert_eq!((seen.aggregators, seen.ignored.len()), (Some(2), 0), "{seen:?}");
        let seen = check_io(&install(MpiIo::Ompio), &request(), "", said, Some(1));
        assert!(seen.ignored[0].contains("2 aggregators were asked for, 1 ranks wrote"));
        let seen = check_io(&install(MpiIo::Ompio), &request(), "", &said.replace("vulcan", "individual"), Some(2));
        assert!(seen.ignored[0].contains("individual"));
    }
}
