//! Conditions of a node that may disturb measurements: kernel settings, and the activity of other programs.

use super::facts::{read, value};
use nix::unistd::{SysconfVar, sysconf};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

/// Settings and activity of a node. Values that the kernel does not report are missing, never guessed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Settings of the kernel that affect times.
    pub settings: NodeSettings,
    /// Counters at the time of the request.
    pub activity: NodeActivity,
}

/// Settings of a node's kernel that affect times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSettings {
    /// The kernel's clock source: `tsc`, `kvm-clock`, `hpet`, …
    pub clock_source: Option<String>,
    /// Policy by which the kernel chooses the frequency of the first processor: `performance`, `powersave`, `schedutil`, …
    pub governor: Option<String>,
    /// Whether processors may exceed their nominal frequency: `on` or `off`.
    pub boost: Option<String>,
    /// Whether several hardware threads share a core: `on` or `off`.
    pub smt: Option<String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub thp: Option<String>,
    /// Whether the kernel moves pages between NUMA nodes: `on` or `off`.
    pub numa_balancing: Option<String>,
    /// Number of NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// Number of processors that are online.
    pub processors: Option<u32>,
    /// Percentage of memory that may be dirty before writers must wait for the disk; `None` if the limit is in bytes.
    pub dirty_ratio: Option<u32>,
    /// Percentage of memory that may be dirty before the kernel begins to write; `None` if the limit is in bytes.
    pub dirty_background_ratio: Option<u32>,
    /// Tendency of the kernel to swap, 0 to 200.
    pub swappiness: Option<u32>,
}

impl NodeSettings {
    /// Returns the settings that make measured times scatter or wrong, each as (setting with its value, how to change it).
    #[must_use]
    pub fn doubts(&self) -> Vec<(String, &'static str)> {
        let balances = self
            .numa_balancing
            .as_deref()
            .filter(|_| self.numa_nodes.is_none_or(|nodes| nodes > 1));
        let settings = [
            ("clock source", self.clock_source.as_deref()),
            ("governor", self.governor.as_deref()),
            ("NUMA balancing", balances),
        ];
        settings
            .into_iter()
            .filter_map(|(setting, value)| {
                Some((format!("{setting} {}", value?), doubt(setting, value?)?))
            })
            .collect()
    }
}

/// Returns how to change a setting whose value makes measured times scatter or wrong; `None` if the value does not.
#[must_use]
pub fn doubt(setting: &str, value: &str) -> Option<&'static str> {
    /// Clock sources that programs read without a system call.
    const FAST_CLOCKS: [&str; 4] = [
        "tsc",
        "kvm-clock",
        "arch_sys_counter",
        "hyperv_clocksource_tsc_page",
    ];
    match setting {
        "clock source" if !FAST_CLOCKS.contains(&value) => Some(
            "reading the time is slow: boot with clocksource=tsc, if the kernel does not call the tsc unstable",
        ),
        "governor" if value != "performance" => Some(
            "the frequency follows the load, and times with it: cpupower frequency-set --governor performance",
        ),
        "NUMA balancing" if value == "on" => Some(
            "the kernel moves pages while programs run: sysctl kernel.numa_balancing=0, or bind processes to their nodes",
        ),
        _ => None,
    }
}

/// Counters of a node since its kernel started. The difference between two readings is the activity in the time between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeActivity {
    /// Time since the start of the kernel, seconds.
    pub uptime_s: Option<f64>,
    /// Identifier that changes with every start of the kernel. Containers on one machine share it.
    pub boot_id: Option<String>,
    /// Number of tasks that run or wait for a processor at this moment, without the task that reads the number.
    pub runnable: Option<u32>,
    /// Busy time summed over all processors, seconds.
    pub busy_s: Option<f64>,
    /// Time that the hypervisor gave to other machines while a processor had work, summed over all processors, seconds.
    pub steal_s: Option<f64>,
    /// Time in which a task waited for a processor, seconds.
    pub cpu_pressure_s: Option<f64>,
    /// Time in which a task waited for a disk, seconds.
    pub io_pressure_s: Option<f64>,
    /// Time in which a task waited for memory, seconds.
    pub memory_pressure_s: Option<f64>,
    /// Bytes read from and written to swap.
    pub swapped_bytes: Option<u64>,
}

/// Reads the conditions of this node.
pub(super) fn conditions() -> Conditions {
    Conditions {
        settings: settings(Path::new("/")),
        activity: activity(Path::new("/")),
    }
}

fn text(root: &Path, path: &str) -> Option<String> {
    read(&root.join(path).to_string_lossy())
}

fn number<T: std::str::FromStr>(root: &Path, path: &str) -> Option<T> {
    text(root, path)?.parse().ok()
}

fn switch(root: &Path, path: &str) -> Option<String> {
    number::<u32>(root, path).map(|value| if value == 0 { "off" } else { "on" }.to_owned())
}

fn settings(root: &Path) -> NodeSettings {
    let cpu = |file: &str| format!("sys/devices/system/cpu/{file}");
    // of dirty_ratio and dirty_bytes, the kernel shows the unused one as 0
    let ratio =
        |file: &str| number(root, &format!("proc/sys/vm/{file}")).filter(|percent| *percent > 0);
    // Intel's driver has the inverse switch, `no_turbo`
    let no_turbo = || {
        switch(root, &cpu("intel_pstate/no_turbo"))
            .map(|off| if off == "on" { "off" } else { "on" }.to_owned())
    };
    NodeSettings {
        clock_source: text(
            root,
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        governor: text(root, &cpu("cpu0/cpufreq/scaling_governor")),
        boost: switch(root, &cpu("cpufreq/boost")).or_else(no_turbo),
        smt: switch(root, &cpu("smt/active")),
        thp: text(root, "sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|words| chosen(&words)),
        numa_balancing: switch(root, "proc/sys/kernel/numa_balancing"),
        numa_nodes: numa_nodes(root),
        processors: text(root, "proc/stat")
            .map(|stat| processors(&stat))
            .filter(|count| *count > 0),
        dirty_ratio: ratio("dirty_ratio"),
        dirty_background_ratio: ratio("dirty_background_ratio"),
        swappiness: number(root, "proc/sys/vm/swappiness"),
    }
}

/// Returns the word in brackets, which is the active choice.
fn chosen(words: &str) -> Option<String> {
    words
        .split_whitespace()
        .find_map(|word| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned()))
}

fn numa_nodes(root: &Path) -> Option<u32> {
    let entries = fs::read_dir(root.join("sys/devices/system/node")).ok()?;
    let is_node = |name: &str| {
        name.strip_prefix("node")
            .is_some_and(|rest| rest.parse::<u32>().is_ok())
    };
    let count = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_node))
        .count();
    u32::try_from(count).ok().filter(|count| *count > 0)
}

/// Returns the number of processors in `/proc/stat`, which has a line for each after the total.
fn processors(stat: &str) -> u32 {
    let is_processor = |line: &&str| {
        line.strip_prefix("cpu")
            .and_then(|rest| rest.chars().next())
            .is_some_and(|next| next.is_ascii_digit())
    };
    u32::try_from(stat.lines().filter(is_processor).count()).unwrap_or(u32::MAX)
}

fn activity(root: &Path) -> NodeActivity {
    let tick_s = system(SysconfVar::CLK_TCK).map(|per_second| 1.0 / per_second);
    let times = text(root, "proc/stat").as_deref().and_then(times);
    let seconds = |ticks: u64| tick_s.map(|tick_s| ticks as f64 * tick_s);
    let pressure = |what: &str| {
        text(root, &format!("proc/pressure/{what}"))
            .as_deref()
            .and_then(waited_s)
    };
    NodeActivity {
        uptime_s: text(root, "proc/uptime")
            .and_then(|uptime| uptime.split_whitespace().next()?.parse().ok()),
        boot_id: text(root, "proc/sys/kernel/random/boot_id"),
        runnable: text(root, "proc/loadavg").as_deref().and_then(runnable),
        busy_s: times.and_then(|(busy, _)| seconds(busy)),
        steal_s: times.and_then(|(_, steal)| seconds(steal)),
        cpu_pressure_s: pressure("cpu"),
        io_pressure_s: pressure("io"),
        memory_pressure_s: pressure("memory"),
        swapped_bytes: text(root, "proc/vmstat").as_deref().and_then(swapped_bytes),
    }
}

fn system(variable: SysconfVar) -> Option<f64> {
    sysconf(variable)
        .ok()
        .flatten()
        .filter(|value| *value > 0)
        .map(|value| value as f64)
}

/// Returns the ticks of work and of steal, summed over all processors, from the first line of `/proc/stat`: user, nice, system, idle, iowait, irq,
/// softirq, steal. The columns after these have guest time, which is part of the user time already.
fn times(stat: &str) -> Option<(u64, u64)> {
    let ticks: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let [user, nice, kernel, _, _, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some((user + nice + kernel + irq + softirq, steal))
}

/// Returns the number of tasks that run or wait for a processor, from `/proc/loadavg`, without this program.
fn runnable(loadavg: &str) -> Option<u32> {
    let (runnable, _) = loadavg.split_whitespace().nth(3)?.split_once('/')?;
    Some(runnable.parse::<u32>().ok()?.saturating_sub(1))
}

/// Returns the seconds in which a task waited, from a file of `/proc/pressure`, whose total is in microseconds.
fn waited_s(pressure: &str) -> Option<f64> {
    let some = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    let total: u64 = some
        .split_whitespace()
        .find_map(|word| word.strip_prefix("total="))?
        .parse()
        .ok()?;
    Some(total as f64 * 1e-6)
}

fn swapped_bytes(vmstat: &str) -> Option<u64> {
    let pages = |key: &str| value(vmstat, key, ' ')?.parse::<u64>().ok();
    let page_bytes = system(SysconfVar::PAGE_SIZE)? as u64;
    Some((pages("pswpin")? + pages("pswpout")?) * page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, content).expect("written");
        }
        root
    }

    #[test]
    fn settings_are_those_that_the_kernel_has_chosen() {
        let root = tree(&[
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "tsc\n",
            ),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "powersave\n",
            ),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ("sys/devices/system/cpu/smt/active", "1\n"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
            ("sys/devices/system/node/node0/cpulist", "0-3\n"),
            ("sys/devices/system/node/node1/cpulist", "4-7\n"),
            ("sys/devices/system/node/has_cpu", "0-1\n"),
            (
                "proc/stat",
                "cpu  1 2 3 4 5 6 7 8 9 0\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 0 1 2 3 4 5 6 7 0 0\nintr 5\n",
            ),
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("proc/sys/vm/dirty_background_ratio", "0\n"),
        ]);
        let settings = settings(root.path());
        let some = |word: &str| Some(word.to_owned());
        let expected = NodeSettings {
            clock_source: some("tsc"),
            governor: some("powersave"),
            boost: some("on"),
            smt: some("on"),
            thp: some("madvise"),
            numa_nodes: Some(2),
            processors: Some(2),
            dirty_ratio: Some(20),
            ..NodeSettings::default()
        };
        assert_eq!(settings, expected);
        let doubts: Vec<String> = settings
            .doubts()
            .into_iter()
            .map(|(what, _)| what)
            .collect();
        assert_eq!(doubts, ["governor powersave"]);
        let balanced = |nodes: u32| NodeSettings {
            numa_balancing: some("on"),
            numa_nodes: Some(nodes),
            ..NodeSettings::default()
        };
        assert_eq!(
            (balanced(1).doubts().len(), balanced(2).doubts().len()),
            (0, 1),
            "one node has nothing to balance"
        );
    }

    #[test]
    fn counters_are_in_seconds_and_bytes() {
        let root = tree(&[
            (
                "proc/stat",
                "cpu  100 20 30 999 50 4 6 8 90 0\ncpu0 100 20 30 999 50 4 6 8 90 0\n",
            ),
            ("proc/uptime", "12.50 20.00\n"),
            ("proc/loadavg", "0.20 0.18 0.12 3/80 11206\n"),
            (
                "proc/pressure/cpu",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=7\n",
            ),
            (
                "proc/pressure/io",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=what\n",
            ),
            ("proc/vmstat", "nr_free_pages 5\npswpin 2\npswpout 3\n"),
        ]);
        let seen = activity(root.path());
        let tick_s = 1.0 / system(SysconfVar::CLK_TCK).expect("ticks");
        let page_bytes = system(SysconfVar::PAGE_SIZE).expect("pages") as u64;
        assert_eq!(
            (seen.busy_s, seen.steal_s),
            (Some(160.0 * tick_s), Some(8.0 * tick_s))
        );
        assert_eq!(
            (seen.uptime_s, seen.cpu_pressure_s, seen.runnable),
            (Some(12.5), Some(1.5), Some(2))
        );
        assert_eq!(
            (seen.io_pressure_s, seen.memory_pressure_s),
            (None, None),
            "what cannot be read is missing"
        );
        assert_eq!(seen.swapped_bytes, Some(5 * page_bytes));
    }

    #[test]
    fn this_machine_has_conditions_that_survive_the_line() {
        let conditions = conditions();
        assert!(
            conditions
                .settings
                .processors
                .is_some_and(|count| count >= 1)
        );
        assert!(
            conditions
                .activity
                .busy_s
                .is_some_and(|busy_s| busy_s > 0.0)
        );
        let text = serde_json::to_string(&conditions).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Conditions>(&text).expect("the same"),
            conditions
        );
    }
}
