//! Measures the times and the size of a checkpoint.

use super::{
    checkpoint::Checkpoint,
    dmtcp_run::DmtcpRun,
    install::{Events, images_by_host},
    merged::{Merged, Placed, merge},
    session_files::session,
};
use crate::{
    run::{Findings, Label, RestartNumber},
    transport::Transport,
};
use cvc_core::outcome::Cause;
use cvc_core::record::{Source, Unit, names};
use cvc_image::{Image, OwnerSums, OwnerZone, Part, Role, Zone};
use jiff::Timestamp;

/// Records a checkpoint's times and the sizes of its files. Fails the run if images are not on the nodes where the mapping puts their ranks.
pub(super) fn measure(of: &DmtcpRun<'_>, checkpoint: &Checkpoint, to: &mut Findings) {
    let label = ("ckpt", checkpoint.number.to_string());
    checkpoint_times(grows_on(of), checkpoint, &label, to);
    if let Some(events) = checkpoint.events.as_ref().filter(|_| of.is_forked()) {
        let (stop_s, source) = (
            seconds(events.start, events.written),
            Source::CheckpointerLog,
        );
        to.seconds(
            names::CKPT_STOP_S,
            stop_s,
            source,
            std::slice::from_ref(&label),
        );
    }
    if checkpoint.dirs.is_empty() {
        return;
    }
    let used = &of.run.used;
    let hosts = images_by_host(&checkpoint.script_text());
    let order: Vec<&str> = used.ranks.iter().map(|n| n.name.as_str()).collect();
    let merged = match merge(&checkpoint.dirs, &order, |image, seen_by| {
        of.node_of(image, seen_by, &hosts)
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
    let begin = checkpoint.begin();
    for placed in &merged.images {
        let labels = image_labels(placed, used.transport, &label);
        record_image(&labels, &placed.image.image, to);
        if let Some(at) = checkpoint.written.get(&placed.image.file) {
            let done_s = seconds(begin, *at);
            to.seconds(names::CKPT_IMAGE_DONE_S, done_s, Source::Kernel, &labels);
        }
    }
    completion(checkpoint, &label, to);
}

/// Records when the parts of a checkpoint's images were written.
fn completion(checkpoint: &Checkpoint, label: &Label, to: &mut Findings) {
    let begin = checkpoint.begin();
    let mut done_s: Vec<f64> = checkpoint
        .written
        .values()
        .map(|at| seconds(begin, *at))
        .collect();
    done_s.sort_by(f64::total_cmp);
    for (at, of_hundred) in [("p50", 50), ("p90", 90), ("p95", 95), ("last", 100)] {
        let place = (done_s.len() * of_hundred).div_ceil(100);
        if let Some(done_s) = place.checked_sub(1).and_then(|place| done_s.get(place)) {
            let labels = [label.clone(), ("at", at.to_owned())];
            to.seconds(names::CKPT_IMAGES_DONE_S, *done_s, Source::Kernel, &labels);
        }
    }
}

/// Records a checkpoint of a restarted program. Such a checkpoint is taken in addition to the checkpoints that the campaign requests.
pub(super) fn measure_again(
    of: &DmtcpRun<'_>,
    which: RestartNumber,
    checkpoint: &Checkpoint,
    to: &mut Findings,
) {
    let labels = [
        ("ckpt", checkpoint.number.to_string()),
        ("restart", which.number.to_string()),
    ];
    let source = match checkpoint.events {
        Some(_) => Source::CheckpointerLog,
        None => Source::Clock,
    };
    let latency_s = latency_s(grows_on(of), checkpoint);
    to.seconds(names::RESTART_CKPT_LATENCY_S, latency_s, source, &labels);
    if !checkpoint.dirs.is_empty() {
        let bytes = stored_bytes(of, checkpoint, false) as f64;
        let source = Source::FileSize;
        to.bytes(names::RESTART_CKPT_STORED_BYTES, bytes, source, &labels);
    }
}

/// Returns the size of a checkpoint's files, bytes. With `is_restored`, returns the uncompressed size, because files that are restored from deltas
/// are not compressed.
pub(super) fn stored_bytes(of: &DmtcpRun<'_>, checkpoint: &Checkpoint, is_restored: bool) -> u64 {
    if is_restored {
        let parts = checkpoint.parts(&of.layout.ckptdir, |node| session(of, node));
        return parts.iter().map(|part| part.content_bytes).sum();
    }
    let order: Vec<&str> = of.run.used.ranks.iter().map(|n| n.name.as_str()).collect();
    // if nodes see different sizes, the run fails elsewhere
    merge(&checkpoint.dirs, &order, |_, _| None).map_or(0, |merged| merged.stored_bytes)
}

/// Returns the duration of a checkpoint, seconds: by the coordinator's log or, without one, by cvc's clock.
fn latency_s(grows_on: bool, checkpoint: &Checkpoint) -> f64 {
    match &checkpoint.events {
        Some(events) => {
            let stored = stored_at(grows_on, checkpoint, events);
            seconds(events.start, stored)
        }
        None => checkpoint.request_to_stored_s,
    }
}

/// Returns whether files can still grow after every process has reported, because a compressor or a forked copy of the process writes them.
fn grows_on(of: &DmtcpRun<'_>) -> bool {
    of.is_forked() || of.run.plan.compression().program().is_some()
}

/// Returns the time when the last byte of a checkpoint was stored.
fn stored_at(grows_on: bool, checkpoint: &Checkpoint, events: &Events) -> Timestamp {
    if grows_on {
        events.written.max(checkpoint.last_write)
    } else {
        events.written
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

/// Records the duration of a checkpoint, by the coordinator's log if there is one.
fn checkpoint_times(grows_on: bool, checkpoint: &Checkpoint, label: &Label, to: &mut Findings) {
    let labels = std::slice::from_ref(label);
    let Some(events) = &checkpoint.events else {
        return to.seconds(
            names::CKPT_LATENCY_S,
            checkpoint.request_to_stored_s,
            Source::Clock,
            labels,
        );
    };
    let stored = stored_at(grows_on, checkpoint, events);
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

/// Records the number and the size of a checkpoint's files.
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

/// Records the sizes of an image's memory zones and their parts, where zones are assigned by the owner of the memory.
fn record_owners(base: &[Label], owner: &OwnerSums, to: &mut Findings) {
    // sentinels of an earlier version do not report owners
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

/// Returns the labels of an image: the checkpoint, the rank or launcher, the file, and the node if there are several.
fn image_labels(placed: &Placed<'_>, transport: Transport, checkpoint: &Label) -> Vec<Label> {
    let Placed { node, rank, image } = placed;
    let who = match image.role {
        // if the image's node is unknown, so is its rank
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
    use crate::run::OutputSizes;
    use camino::Utf8PathBuf;
    use cvc_core::ids::RunId;
    use std::collections::BTreeMap;

    /// Returns a checkpoint that begins at 0 s, is coordinated at 1 s, reported at 3 s and last written to at 4 s.
    fn checkpoint() -> Checkpoint {
        let at = |s| jiff::Timestamp::from_second(s).expect("a time");
        Checkpoint {
            number: 1,
            events: Some(Events {
                start: at(0),
                suspended: None,
                coordinated: at(1),
                written: at(3),
                complete: at(5),
            }),
            request_to_stored_s: 6.0,
            requested: at(-1),
            last_write: at(4),
            written: BTreeMap::new(),
            dirs: Vec::new(),
            peers: 4,
            asked: OutputSizes::default(),
            whole: OutputSizes::default(),
            script: Utf8PathBuf::new(),
            named: Vec::new(),
            at_s: 0.0,
        }
    }

    /// Returns the records of this checkpoint.
    fn recorded(grows_on: bool) -> Vec<(String, f64)> {
        let checkpoint = checkpoint();
        let mut findings = Findings::new(RunId::of(b"r"));
        checkpoint_times(
            grows_on,
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
    fn images_of_other_nodes_are_stored_when_their_last_file_is_complete() {
        let times = |latency: f64, storage: f64| {
            vec![
                (names::CKPT_LATENCY_S.to_owned(), latency),
                (names::CKPT_COORDINATION_S.to_owned(), 1.0),
                (names::CKPT_STORAGE_S.to_owned(), storage),
            ]
        };
        assert_eq!(recorded(false), times(3.0, 2.0));
        assert_eq!(recorded(true), times(4.0, 3.0));
    }

    #[test]
    fn the_completion_of_images_is_measured_by_their_number() {
        let at = |s| jiff::Timestamp::from_second(s).expect("a time");
        let written = (1..=20).map(|i| (format!("ckpt_{i}.dmtcp"), at(i)));
        let checkpoint = Checkpoint {
            events: None,
            requested: at(0),
            written: written.collect(),
            ..checkpoint()
        };
        let mut findings = Findings::new(RunId::of(b"r"));
        completion(&checkpoint, &("ckpt", "1".to_owned()), &mut findings);
        let found: Vec<(&str, f64)> = findings
            .records
            .iter()
            .map(|record| (record.labels["at"].as_str(), record.value))
            .collect();
        assert_eq!(
            found,
            [("p50", 10.0), ("p90", 18.0), ("p95", 19.0), ("last", 20.0)]
        );
    }
}
