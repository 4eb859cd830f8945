//! Models of I/O from sources other than the tracer `trace-mpi-io`.

use cvc_image::{PlannedImage, ReadOptions, read_image_with};
use cvc_trace::phases::{
    IoModel, Marks, PhaseOp, ReplayOptions, checkpoint_model, planned_checkpoint, replay_program,
    trace_model,
};
use flate2::read::GzDecoder;
use std::{fs, io::Read, path::Path};

/// Writes a real DMTCP image of its original length, with its data replaced by zeros.
fn image(name: &str, dir: &Path) -> std::path::PathBuf {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../image/tests/fixtures/dmtcp")
        .join(format!("{name}.dmtcp.gz"));
    let mut content = Vec::new();
    GzDecoder::new(fs::File::open(fixture).expect("a fixture"))
        .read_to_end(&mut content)
        .expect("gzip");
    let path = dir.join(format!("{name}.dmtcp"));
    fs::write(&path, content).expect("writes");
    path
}

fn ops(model: &IoModel) -> impl Iterator<Item = (u64, &PhaseOp)> {
    let loops = model.phases.iter().flat_map(|f| &f.loops);
    loops.flat_map(|l| l.ops.iter().map(move |op| (l.rounds, op)))
}

/// Returns offset and bytes of each write of a process, as a replay makes them.
fn writes_of(model: &IoModel, rank: u32) -> Vec<(i64, i64)> {
    let mut writes = Vec::new();
    for part in model.phases.iter().flat_map(|f| &f.loops) {
        for round in 0..part.rounds as i64 {
            for op in &part.ops {
                let ranks = op.ranks.list(model.processes);
                let Some(i) = ranks.iter().position(|r| *r == rank) else {
                    continue;
                };
                let from = op.first.get(i) + round * op.per_round.get(i);
                for piece in &op.at {
                    piece.each(&mut |at| writes.push((from + at, op.request_bytes.get(i))));
                }
            }
        }
    }
    writes
}

/// Returns offset and bytes of each write of an image: two headers, the header and data of each area, and an end marker.
fn written(image: &Path) -> Vec<(i64, i64)> {
    let image = read_image_with(image, ReadOptions { areas: true }).expect("an image");
    let areas = image.areas.iter().flat_map(|area| [4096, area.data_bytes]);
    let sizes = [4096, 4096].into_iter().chain(areas).chain([4096]);
    let mut at = 0;
    let each = sizes.filter(|bytes| *bytes > 0).map(|bytes| {
        at += bytes as i64;
        (at - bytes as i64, bytes as i64)
    });
    each.collect()
}

#[test]
fn the_writes_of_a_checkpoint_follow_from_its_image() {
    let dir = tempfile::tempdir().expect("a directory");
    let images = ["mpich-btW-np1-rank0", "mpich-btA-np4-rank0"].map(|n| image(n, dir.path()));
    let bytes: u64 = images
        .iter()
        .map(|path| fs::metadata(path).expect("an image").len())
        .sum();
    let model = checkpoint_model(&images).expect("a model");
    assert_eq!((model.processes, model.phase_count()), (2, 1));
    assert_eq!(model.weight_bytes(), bytes);
    for (rank, path) in images.iter().enumerate() {
        assert_eq!(writes_of(&model, rank as u32), written(path), "{path:?}");
    }
    assert!(ops(&model).all(|(_, op)| op.is_posix && op.op == "write"));
    let options = ReplayOptions {
        only_relevant: false,
        most_phases: None,
        think: 0.0,
    };
    assert_eq!(options.bytes(&model), bytes);
    let program = replay_program(&model, options).expect("a program");
    assert!(program.starts_with("cvc-replay 1 2\nfile 0 own - posix\nphase 1 1 1 "));
    assert!(program.ends_with("end\n"));
}

#[test]
fn the_writes_of_a_planned_checkpoint_are_those_of_its_images() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = image("mpich-btA-np4-rank0", dir.path());
    let real = read_image_with(&path, ReadOptions { areas: true }).expect("an image");
    let areas: Vec<u64> = real.areas.iter().map(|area| area.data_bytes).collect();
    let planned = PlannedImage::Plain(areas);
    let model = planned_checkpoint(&[planned.clone(), planned.clone()]).expect("a model");
    let copy = dir.path().join("copy.dmtcp");
    fs::copy(&path, &copy).expect("copies");
    let of_images = checkpoint_model(&[&path, &copy]).expect("a model");
    assert_eq!(
        (model.phases, model.files),
        (of_images.phases, of_images.files)
    );
    let model = planned_checkpoint(&[planned.clone(), planned]).expect("a model");
    assert!(!model.files[0].is_shared);
    assert_eq!(writes_of(&model, 1), written(&path));
    let gzip = PlannedImage::Gzip((256 << 10) + 7);
    let model = planned_checkpoint(&[gzip]).expect("a model");
    assert_eq!(writes_of(&model, 0), [(0, 256 << 10), (256 << 10, 7)]);
    assert!(planned_checkpoint(&[]).is_err());
}

#[test]
fn pauses_separate_the_phases_of_a_darshan_log() {
    let log = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/darshan")
            .join(name)
    };
    let model = trace_model(&[log("mpich-btioS-full-np4.darshan")], None).expect("a model");
    // class S of BT-IO: 12^3 points of 5 variables, written 12 times by 4 processes, and read again
    let volume = 12 * 12 * 12 * 5 * 8;
    let phases: Vec<(u32, u32, u64)> = model
        .phases
        .iter()
        .map(|f| (f.first, f.count, f.weight_bytes))
        .collect();
    assert_eq!(phases, [(1, 12, volume), (13, 1, 12 * volume)]);
    let formulas: Vec<&str> = ops(&model).map(|(_, op)| op.formula.as_str()).collect();
    assert_eq!(formulas, ["first(idP) + rs*np*(ph - 1)", "first(idP)"]);
    assert!(matches!(model.marks, Marks::Gaps { gap_s } if gap_s > 0.001));
    assert!(
        model.remarks.iter().any(|r| r.contains("no communication")),
        "{:?}",
        model.remarks
    );
    // no pause is longer than the run
    let whole = trace_model(&[log("mpich-btioS-full-np4.darshan")], Some(u64::MAX));
    let whole = whole.expect("a model");
    assert_eq!(whole.phase_count(), 1, "{:?}", whole.phases.len());
    let without = trace_model(&[log("own-dxt0.darshan")], None).expect_err("no places");
    assert!(
        without.to_string().contains("DXT_ENABLE_IO_TRACE"),
        "{without}"
    );
}
