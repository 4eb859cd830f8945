//! Traffic of memory by hardware counters of the memory controllers, which `perf` reads.

use glob::glob;
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Directory of the kernel's sources of counters.
const DEVICES: &str = "/sys/bus/event_source/devices";

/// Events of Intel's memory controllers: of servers, and of other machines.
const EVENTS: [(&str, [&str; 2]); 3] = [
    ("uncore_imc_[0-9]*", ["cas_count_read", "cas_count_write"]),
    ("uncore_imc_free_running*", ["data_read", "data_write"]),
    ("uncore_imc", ["data_reads", "data_writes"]),
];

/// Returns the events that count what memory reads and writes; empty if the machine does not show such counters, as most virtual machines.
pub(super) fn memory_events() -> Vec<String> {
    events_below(Path::new(DEVICES))
}

fn events_below(devices: &Path) -> Vec<String> {
    let of_device = |device: PathBuf, names: [&str; 2]| -> Vec<String> {
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        if !names
            .iter()
            .all(|event| device.join("events").join(event).is_file())
        {
            return Vec::new();
        }
        names.map(|event| format!("{name}/{event}/")).to_vec()
    };
    EVENTS
        .into_iter()
        .map(|(pattern, names)| {
            let pattern = devices.join(pattern).display().to_string();
            let found = glob(&pattern).into_iter().flatten().flatten();
            found.flat_map(|device| of_device(device, names)).collect()
        })
        .find(|events: &Vec<String>| !events.is_empty())
        .unwrap_or_default()
}

/// A counter's value and its unit, which is empty for numbers.
type Count = (f64, String);

/// Counts events on all processors for this time. `None` if `perf` is missing, is not permitted, or does not count one of the events.
pub(super) fn count(events: &[String], time: Duration) -> Option<Vec<Count>> {
    let mut perf = Command::new("perf");
    perf.args([
        "stat",
        "-a",
        "-x",
        ";",
        "-e",
        &events.join(","),
        "--",
        "sleep",
    ]);
    perf.arg(format!("{:.3}", time.as_secs_f64()));
    perf.env("LC_ALL", "C");
    let output = perf
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    counts(&String::from_utf8_lossy(&output.stderr), events.len())
}

/// Parses the output of `perf stat -x ;`: value, unit, event and further columns in each line.
fn counts(text: &str, expected: usize) -> Option<Vec<Count>> {
    let of_line = |line: &str| {
        let (value, rest) = line.split_once(';')?;
        let unit = rest.split(';').next()?.to_owned();
        Some((value.parse().ok()?, unit))
    };
    let all: Vec<Count> = text.lines().filter_map(of_line).collect();
    (all.len() == expected).then_some(all)
}

/// Returns the MiB that memory moved during this time, by these events of its controllers.
pub(super) fn moved_mib(events: &[String], time: Duration) -> Option<f64> {
    let all = count(events, time)?;
    let is_volume = all.iter().all(|(_, unit)| unit == "MiB");
    is_volume.then(|| all.iter().map(|(value, _)| value).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_testkit::{Tool, require};
    use std::fs;

    #[test]
    fn controllers_that_count_reads_and_writes_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(events_below(dir.path()).is_empty());
        for (device, event) in [
            ("uncore_imc_0", "cas_count_read"),
            ("uncore_imc_0", "cas_count_write"),
            ("uncore_imc_1", "cas_count_read"),
            ("cpu", "cache-misses"),
        ] {
            let events = dir.path().join(device).join("events");
            fs::create_dir_all(&events).expect("makes");
            fs::write(events.join(event), "event=0x04\n").expect("writes");
        }
        let found = events_below(dir.path());
        assert_eq!(
            found,
            [
                "uncore_imc_0/cas_count_read/",
                "uncore_imc_0/cas_count_write/"
            ]
        );
    }

    #[test]
    fn volumes_are_summed_and_events_that_are_not_counted_give_none() {
        let text = "12.50;MiB;uncore_imc_0/cas_count_read/;100;100.00;;\n7.25;MiB;uncore_imc_0/cas_count_write/;100;100.00;;\n";
        let all = counts(text, 2).expect("two");
        assert_eq!(all.iter().map(|(value, _)| value).sum::<f64>(), 19.75);
        assert_eq!(all[0].1, "MiB");
        assert_eq!(
            counts("<not supported>;;cache-misses;0;100.00;;\n", 1),
            None
        );
        assert_eq!(counts("", 1), None);
    }

    #[test]
    fn perf_counts_what_this_machine_has() {
        require!(Tool::Perf);
        let time = Duration::from_millis(200);
        let found = count(&["cpu-clock".to_owned()], time).expect("an event of the kernel");
        // milliseconds of all processors
        assert!(found[0].0 >= 150.0 && found[0].1 == "msec", "{found:?}");
        assert_eq!(count(&["no-such-event".to_owned()], time), None);
        assert_eq!(moved_mib(&["cpu-clock".to_owned()], time), None);
    }
}
