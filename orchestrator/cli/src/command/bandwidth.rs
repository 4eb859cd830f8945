//! `cvc bandwidth`: measures the bandwidth of memory, storage and network on this machine.

use crate::{
    args::BandwidthArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, note, versioned},
};
use cvc_core::units::{MIB, counted};
use cvc_probe::bandwidth::{
    BesideWriter, MemoryBandwidth, NetworkBandwidth, StorageBandwidth, TrafficSource,
    memory_bandwidth, memory_with_writer, receive_bandwidth, send_bandwidth, storage_bandwidth,
};
use cvc_probe::sentinel::memory_bytes_here;
use cvc_show::{Blocks, Table};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The output of `--json`.
#[derive(Serialize, Deserialize)]
pub struct Bandwidths {
    /// Name of the machine.
    #[serde(default)]
    pub host: Option<String>,
    /// Size of the machine's memory, MiB.
    #[serde(default)]
    pub memory_mib: Option<f64>,
    /// Memory bandwidth of all cores together.
    #[serde(default)]
    pub memory: Option<MemoryBandwidth>,
    /// Storage bandwidths, one row for each directory and number of writers.
    #[serde(default)]
    pub storage: Vec<StorageBandwidth>,
    /// Memory bandwidth while a writer uses the first directory.
    #[serde(default)]
    pub memory_with_writer: Option<BesideWriter>,
    /// Bandwidth to another node.
    #[serde(default)]
    pub network: Option<NetworkBandwidth>,
}

pub fn bandwidth(args: &BandwidthArgs) -> Result<ExitStatus, Failure> {
    let found = match args.listen {
        Some(at) => {
            let network = receive_bandwidth(at, &mut |at| note(format!("waiting at {at}")));
            Bandwidths {
                network: Some(network.map_err(|error| failed(format!("{at}: {error}")))?),
                ..Bandwidths::empty()
            }
        }
        None => measured(args)?,
    };
    output::answer(args.json, &versioned(&found), |out| found.show(out))?;
    Ok(ExitStatus::Done)
}

fn failed(message: String) -> Failure {
    Failure::Other {
        status: ExitStatus::Host,
        message,
        hint: None,
    }
}

fn measured(args: &BandwidthArgs) -> Result<Bandwidths, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let time = Duration::from_secs_f64(args.time);
    let mut writers: Vec<usize> = args.writers.iter().copied().map(usize::from).collect();
    if writers.is_empty() {
        writers = vec![1, cores];
    }
    writers.sort_unstable();
    writers.dedup();
    let mut found = Bandwidths::empty();
    found.memory_mib = memory_bytes_here().map(|bytes| bytes as f64 / MIB);
    note(format!("memory, with {cores} threads"));
    found.memory = Some(memory_bandwidth(cores, time));
    for dir in &args.storage {
        for count in &writers {
            note(format!("{dir}, {count} at a time"));
            let of = storage_bandwidth(dir.as_std_path(), *count, args.size)
                .map_err(|error| failed(error.to_string()))?;
            found.storage.push(of);
        }
    }
    if let Some(dir) = args.storage.first() {
        note(format!("memory alongside a writer to {dir}"));
        // leave one core to the writer
        let threads = cores.saturating_sub(1).max(1);
        let beside = memory_with_writer(dir.as_std_path(), threads, time)
            .map_err(|error| failed(error.to_string()))?;
        found.memory_with_writer = Some(beside);
    }
    if let Some(to) = &args.to {
        note(format!("the network to {to}"));
        let sent = send_bandwidth(to, time);
        found.network = Some(sent.map_err(|error| Failure::Other {
            status: ExitStatus::Host,
            message: format!("{to}: {error}"),
            hint: Some(
                "start `cvc bandwidth --listen 0.0.0.0:PORT` on the other node first".into(),
            ),
        })?);
    }
    Ok(found)
}

impl Bandwidths {
    fn empty() -> Self {
        Self {
            host: cvc_os::host_name(),
            memory_mib: None,
            memory: None,
            storage: Vec::new(),
            memory_with_writer: None,
            network: None,
        }
    }

    fn show(&self, out: &mut Blocks) {
        let rate = |mib_s: f64| format!("{mib_s:.0} MiB/s");
        let mut rows =
            Table::plain(["what", "at a time", "writes", "reads", "creates"]).right_from(1);
        for of in &self.storage {
            rows.row([
                format!("{} ({})", of.dir.display(), of.file_system),
                of.writers.to_string(),
                rate(of.write_mib_s),
                rate(of.read_mib_s),
                of.creates_s
                    .map_or_else(String::new, |rate| format!("{rate:.0} files/s")),
            ]);
        }
        if let Some(of) = &self.memory {
            out.say(format!(
                "Memory delivers {} to {} (triad); one core combines {} by XOR.",
                rate(of.triad_mib_s),
                counted(of.threads, "thread"),
                rate(of.xor_mib_s)
            ));
        }
        if let Some(of) = &self.network {
            out.say(format!(
                "The network delivers {} ({}).",
                rate(of.mib_s),
                of.peer
            ));
        }
        if let Some(of) = &self.memory_with_writer {
            let source = match (of.traffic_source, of.inferred_traffic) {
                (TrafficSource::Counted, Some(inferred)) => {
                    format!("by counters; {inferred:.1} inferred from lost bandwidth")
                }
                (TrafficSource::Counted, None) => "by counters".to_owned(),
                (TrafficSource::Inferred, _) => {
                    "inferred; includes lost processor time and caches".to_owned()
                }
            };
            out.say(format!(
                "Alongside a thread that writes {}, {} get {} of memory instead of {}: {:.1} bytes of traffic for each byte written ({source}).",
                rate(of.write_mib_s),
                counted(of.threads, "thread"),
                rate(of.beside_mib_s),
                rate(of.alone_mib_s),
                of.traffic
            ));
        }
        if !self.storage.is_empty() {
            out.gap();
            out.table(rows);
        }
        for of in self.storage.iter().filter(|of| of.in_memory) {
            out.say(format!(
                "{}: this file system is in memory; no device was measured",
                of.dir.display()
            ));
        }
    }
}
