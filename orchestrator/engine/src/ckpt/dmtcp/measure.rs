//! Measures a checkpoint: its times, and what was stored.

use super::{
    checkpoint::Checkpoint,
    dmtcp_run::{DmtcpRun, node_of},
    install::images_by_host,
    merged::{Merged, Placed, merge},
};
use crate::{
    run::{Findings, Label, text},
    transport::Transport,
};
use cvc_core::outcome::Cause;
use cvc_core::point::Compression;
use cvc_core::record::{Source, Unit, names};
use cvc_image::{Image, OwnerSums, OwnerZone, Part, Role, Zone};

/// Measures a checkpoint: its times, and what was stored, which must be where the mapping puts ranks.
pub(super) fn measure(of: &DmtcpRun<'_>, checkpoint: &Checkpoint, to: &mut Findings) {
    let label = ("ckpt", checkpoint.number.to_string());
    checkpoint_times(of.run.point.compression, checkpoint, &label, to);
    if checkpoint.dirs.is_empty() {
        return;
    }
    let used = &of.run.used;
    let hosts = images_by_host(&text(&of.restart_script()));
    let order: Vec<&str> = used.ranks.iter().map(|n| n.name.as_str()).collect();
    let merged = match merge(&checkpoint.dirs, &order, |image, seen_by| {
        node_of(used, image, seen_by, &hosts)
    }) {
        Ok(merged) => merged,
        Err(differs) => {
            return to.fail(
                Cause::Checkpoint,
                format!("nodes do not see the same checkpoint: {differs}"),
            );
        }
    };
    if let Err(wrong) = merged.is_mapped(&of.run.point.mapping, &order) {
        to.fail(Cause::Misplaced, wrong.to_string());
    }
    checkpoint_sizes(&merged, checkpoint.peers, &label, to);
    for placed in &merged.images {
        record_image(
            &image_labels(placed, used.transport, &label),
            &placed.image.image,
            to,
        );
    }
}

/// Records how long a checkpoint took, by the coordinator's log where there is one.
fn checkpoint_times(
    compression: Compression,
    checkpoint: &Checkpoint,
    label: &Label,
    to: &mut Findings,
) {
    let labels = std::slice::from_ref(label);
    let Some(events) = &checkpoint.events else {
        return to.seconds(
            names::CKPT_LATENCY_S,
            checkpoint.request_to_stored_s,
            Source::Clock,
            labels,
        );
    };
    let seconds =
        |from: jiff::Timestamp, to: jiff::Timestamp| to.duration_since(from).as_secs_f64().max(0.0);
    // with a compressor the files can still grow after every process has reported
    let stored = if compression.program().is_some() {
        events.written.max(checkpoint.last_write)
    } else {
        events.written
    };
    let times = [
        (names::CKPT_LATENCY_S, seconds(events.start, stored)),
        (
            names::CKPT_COORDINATION_S,
            seconds(events.start, events.coordinated),
        ),
        (names::CKPT_STORAGE_S, seconds(events.coordinated, stored)),
    ];
    for (name, value) in times {
        to.record(
            name,
            value,
            Unit::Seconds,
            Source::CheckpointerLog,
            Some("coordinator.log"),
            labels,
        );
    }
}

/// Records how many files a checkpoint has and what they take.
fn checkpoint_sizes(merged: &Merged<'_>, peers: u32, label: &Label, to: &mut Findings) {
    let of_role = |role: Role| {
        let files = merged
            .images
            .iter()
            .filter(|p| p.image.role == role)
            .map(|p| p.image.image.file_bytes);
        (files.clone().count() as f64, files.sum::<u64>() as f64)
    };
    let aux = (
        merged.files_dirs.files as f64,
        merged.files_dirs.bytes as f64,
    );
    for (kind, (files, bytes)) in [
        ("rank", of_role(Role::Rank)),
        ("launcher", of_role(Role::Launcher)),
        ("aux", aux),
    ] {
        let labels = [label.clone(), ("kind", kind.to_owned())];
        to.count(names::CKPT_FILES, files, Source::FileSize, &labels);
        to.bytes(names::CKPT_BYTES, bytes, Source::FileSize, &labels);
    }
    let labels = std::slice::from_ref(label);
    to.bytes(
        names::CKPT_STORED_BYTES,
        merged.stored_bytes as f64,
        Source::FileSize,
        labels,
    );
    to.count(
        "ckpt_peers",
        f64::from(peers),
        Source::CheckpointerLog,
        labels,
    );
}

fn record_image(base: &[Label], image: &Image, to: &mut Findings) {
    to.bytes(
        names::IMAGE_BYTES,
        image.uncompressed_bytes as f64,
        Source::Image,
        base,
    );
    to.bytes(
        names::FILE_BYTES,
        image.file_bytes as f64,
        Source::FileSize,
        base,
    );
    to.count(
        names::AREA_HEADERS,
        image.area_headers as f64,
        Source::Image,
        base,
    );
    let rules = [
        ("structural", &image.zones.structural),
        ("literal", &image.zones.literal),
    ];
    for (rule, sums) in rules {
        for zone in Zone::ALL {
            let mut labels = base.to_vec();
            labels.extend([
                ("zone", zone.as_str().to_owned()),
                ("rule", rule.to_owned()),
            ]);
            to.bytes(
                names::ZONE_BYTES,
                sums.stored.get(zone) as f64,
                Source::Image,
                &labels,
            );
            to.bytes(
                names::ZONE_RANGE_BYTES,
                sums.accessible.get(zone) as f64,
                Source::Image,
                &labels,
            );
        }
    }
    record_owners(base, &image.zones.owner, to);
    if let Some(in_file) = &image.in_file {
        let zones = OwnerZone::ALL.map(|zone| (zone.as_str(), in_file.owner.zone(zone)));
        for (zone, bytes) in zones.into_iter().chain([("HEADERS", in_file.headers)]) {
            let mut labels = base.to_vec();
            labels.extend([("zone", zone.to_owned()), ("rule", "owner".to_owned())]);
            to.bytes(names::ZONE_FILE_BYTES, bytes as f64, Source::Image, &labels);
        }
    }
    for sub in &image.sub_zones {
        let mut labels = base.to_vec();
        labels.extend([
            ("zone", sub.zone.as_str().to_owned()),
            ("sub", sub.sub.as_str().to_owned()),
        ]);
        to.bytes(
            names::SUB_ZONE_BYTES,
            sub.stored as f64,
            Source::Image,
            &labels,
        );
        to.bytes(
            names::SUB_ZONE_RANGE_BYTES,
            sub.accessible as f64,
            Source::Image,
            &labels,
        );
    }
}

/// Records zones and their parts by the owner rules.
fn record_owners(base: &[Label], owner: &OwnerSums, to: &mut Findings) {
    // a sentinel of an earlier version does not tell them
    if *owner == OwnerSums::default() {
        return;
    }
    for zone in OwnerZone::ALL {
        let mut labels = base.to_vec();
        labels.extend([
            ("zone", zone.as_str().to_owned()),
            ("rule", "owner".to_owned()),
        ]);
        to.bytes(
            names::ZONE_BYTES,
            owner.stored.zone(zone) as f64,
            Source::Image,
            &labels,
        );
        to.bytes(
            names::ZONE_RANGE_BYTES,
            owner.accessible.zone(zone) as f64,
            Source::Image,
            &labels,
        );
    }
    for part in Part::ALL {
        let mut labels = base.to_vec();
        labels.extend([
            ("zone", part.zone().as_str().to_owned()),
            ("kind", part.as_str().to_owned()),
            ("rule", "owner".to_owned()),
        ]);
        to.bytes(
            names::PART_BYTES,
            owner.stored.get(part) as f64,
            Source::Image,
            &labels,
        );
    }
}

/// Whose image it is: the checkpoint, the rank or the launcher, the file, and between nodes the node.
fn image_labels(placed: &Placed<'_>, transport: Transport, checkpoint: &Label) -> Vec<Label> {
    let Placed { node, rank, image } = placed;
    let who = match image.role {
        // an image of unknown node is of unknown rank
        Role::Rank => (
            "rank",
            rank.map_or_else(|| "unknown".to_owned(), |rank| rank.to_string()),
        ),
        Role::Launcher => ("role", image.program.clone()),
    };
    let mut labels = vec![checkpoint.clone(), who, ("image", image.file.clone())];
    if transport != Transport::Local {
        labels.push(("node", node.unwrap_or("unknown").to_owned()));
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckpt::dmtcp::install::Events;
    use cvc_core::ids::RunId;

    /// What is recorded of a checkpoint that begins at 0 s, is coordinated at 1 s, reported at 3 s and last written to at 4 s.
    fn recorded(compression: Compression) -> Vec<(String, f64)> {
        let at = |s| jiff::Timestamp::from_second(s).expect("a time");
        let checkpoint = Checkpoint {
            number: 1,
            events: Some(Events {
                start: at(0),
                suspended: None,
                coordinated: at(1),
                written: at(3),
                complete: at(5),
            }),
            request_to_stored_s: 6.0,
            last_write: at(4),
            dirs: Vec::new(),
            peers: 4,
            printed_bytes: 0,
        };
        let mut findings = Findings::new(RunId::of(b"r"));
        checkpoint_times(
            compression,
            &checkpoint,
            &("ckpt", "1".to_owned()),
            &mut findings,
        );
        findings
            .records
            .into_iter()
            .map(|record| (record.name, record.value))
            .collect()
    }

    #[test]
    fn with_gzip_a_checkpoint_is_stored_when_its_last_file_is_whole() {
        let times = |latency: f64, storage: f64| {
            vec![
                (names::CKPT_LATENCY_S.to_owned(), latency),
                (names::CKPT_COORDINATION_S.to_owned(), 1.0),
                (names::CKPT_STORAGE_S.to_owned(), storage),
            ]
        };
        assert_eq!(recorded(Compression::None), times(3.0, 2.0));
        for compressed in [Compression::Gzip, Compression::Pigz] {
            assert_eq!(recorded(compressed), times(4.0, 3.0));
        }
    }
}
