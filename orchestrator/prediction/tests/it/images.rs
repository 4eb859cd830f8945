//! Observations and forecasts from images alone: those of real runs among the tests of the image reader.

use crate::predict::forecast;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::quantity::Quantity;
use cvc_image::PlannedImage;
use cvc_prediction::images::planned_images;
use cvc_prediction::predict::{
    KnownNames, Observation, Question, ScheduleBudget, from_images, parse, to_csv,
};
use std::fs;

fn fixture(name: &str) -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../image/tests/fixtures/dmtcp")
        .join(name)
}

/// The observations of a directory with copies of these images.
fn observed(images: &[&str]) -> (Vec<Observation>, Vec<String>) {
    let dir = tempfile::tempdir().expect("a directory");
    for image in images {
        fs::copy(fixture(image), dir.path().join(image)).expect("copies");
    }
    let path = Utf8Path::from_path(dir.path()).expect("UTF-8");
    let found = from_images(path, &|_, _| ()).expect("reads");
    (found.observations, found.notes)
}

#[test]
fn an_image_says_program_class_ranks_and_library() {
    let (observations, notes) = observed(&["mpich-btA-np4-rank0.dmtcp.gz"]);
    let [bt] = observations.as_slice() else {
        panic!("{observations:?}");
    };
    assert_eq!(bt.label, "npb-bt.A 1Nx4P mpich-ch3");
    // the length that the fixture's own description has
    let bytes = 85_618_688.0_f64;
    assert_eq!(bt.value(Quantity::Image), Some(bytes / f64::from(1 << 20)));
    assert_eq!(bt.value(Quantity::Stored), None, "one of four ranks");
    assert!(
        notes.iter().any(|n| n.contains("images of 1 of 4 ranks")),
        "{notes:?}"
    );
}

#[test]
fn the_areas_of_predicted_images_add_up_to_the_files() {
    let (observations, _) = observed(&[
        "mpich-btA-np4-rank0.dmtcp.gz",
        "mpich-btA-np16-rank0.dmtcp.gz",
    ]);
    let forecasts = forecast(&observations, "2Nx32P", ScheduleBudget::default());
    let planned = planned_images(&forecasts).expect("images");
    assert_eq!(planned.images.len(), 64);
    let mib = f64::from(1 << 20);
    let size = |zone: Quantity| forecasts.first(zone).expect("a forecast").estimate.value * mib;
    let file = forecasts.files[0].size.value * mib;
    let PlannedImage::Plain(areas) = &planned.images[0] else {
        panic!("not compressed");
    };
    let all: u64 = areas.iter().map(|bytes| bytes + 4096).sum();
    assert!((all as f64 - file).abs() <= 3.0 * 4096.0, "{all} of {file}");
    assert!((areas.len() as f64 - size(Quantity::Headers) / 4096.0).abs() <= 1.0);
    // the data of the program are one area, and the libraries are many
    let libraries: u64 = areas[2..].iter().sum();
    assert!(
        (libraries as f64 - size(Quantity::Lb)).abs() <= 4096.0,
        "{areas:?}"
    );
    assert!(
        (areas[1] as f64 - size(Quantity::Shmem)).abs() <= 4096.0,
        "{areas:?}"
    );
    assert!(
        (areas[0] as f64 - size(Quantity::Dtapp)).abs() <= 4.0 * 4096.0,
        "{areas:?}"
    );

    let compressed = forecast(
        &observations,
        "npb-bt.A 4 mpich-ch3 gzip",
        ScheduleBudget::default(),
    );
    match planned_images(&compressed) {
        Ok(planned) => {
            assert!(matches!(planned.images[0], PlannedImage::Gzip(bytes) if bytes > 0))
        }
        Err(reason) => assert!(reason.to_string().contains("not predicted: ")),
    }
    let unknown = forecast(
        &observations,
        "kernel-stencil.S 4 mpich-ch3",
        ScheduleBudget::default(),
    );
    let reason = planned_images(&unknown)
        .expect_err("its data are unknown")
        .to_string();
    assert!(reason.contains("kernel-stencil"), "{reason}");
}

#[test]
fn two_numbers_of_processes_foretell_the_shared_memory_of_a_third() {
    let (observations, _) = observed(&[
        "mpich-btA-np4-rank0.dmtcp.gz",
        "mpich-btA-np16-rank0.dmtcp.gz",
    ]);
    assert_eq!(observations.len(), 2);
    let forecasts = forecast(&observations, "64", ScheduleBudget::default());
    // ch3:nemesis: n^2/16 + 63n/16 MiB for n ranks on a node
    let shared = forecasts.first(Quantity::Shmem).expect("a forecast");
    assert!((shared.estimate.value - 508.0).abs() < 5.0, "{shared:?}");
    let image = forecasts.first(Quantity::Image).expect("a forecast");
    assert!(image.estimate.value > shared.estimate.value, "{image:?}");
}

#[test]
fn the_table_of_images_is_read_back() {
    let (observations, _) = observed(&[
        "mpich-btA-np4-rank0.dmtcp.gz",
        "ompi-btA-np4-rank0.dmtcp.gz",
    ]);
    let table = to_csv(&observations);
    let read = parse(Utf8Path::new("table.csv"), &table).expect("reads back");
    assert_eq!(read.len(), 2);
    for (read, written) in read.iter().zip(&observations) {
        assert_eq!(read.setting, written.setting);
        assert_eq!(read.environment, written.environment);
        assert_eq!(read.quantities, written.quantities);
    }
}

#[test]
fn a_mapping_alone_asks_for_the_only_program() {
    let (observations, _) = observed(&["mpich-btA-np4-rank0.dmtcp.gz"]);
    let ask = |text: &str, observations: &[Observation]| {
        Question::parse(
            text,
            KnownNames {
                apps: &[],
                observations,
            },
        )
    };
    let label = |text: &str| ask(text, &observations).expect(text).label();
    assert_eq!(label("16"), "npb-bt.A 1Nx16P mpich-ch3");
    assert_eq!(label("4Nx16P gzip"), "npb-bt.A 4Nx16P mpich-ch3 gzip");
    let (several, _) = observed(&[
        "mpich-btA-np4-rank0.dmtcp.gz",
        "mpich-luA-np4-rank2.dmtcp.gz",
    ]);
    let error = ask("16", &several)
        .expect_err("several programs")
        .hint()
        .map(str::to_owned);
    assert!(error.expect("a hint").contains("`npb-lu.A 16 mpich-ch3`"));
}

#[test]
fn what_is_no_image_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = Utf8Path::from_path(dir.path()).expect("UTF-8");
    let nothing = from_images(path, &|_, _| ()).expect_err("is empty");
    assert!(nothing.to_string().contains("no image"), "{nothing}");
    fs::write(dir.path().join("other.dmtcp"), "no image").expect("writes");
    let other = from_images(path, &|_, _| ()).expect_err("is no image");
    assert!(other.to_string().contains("no image"), "{other}");
    fs::copy(
        fixture("mpich-btW-np4-mpiexec.dmtcp.gz"),
        dir.path().join("a.dmtcp.gz"),
    )
    .expect("copies");
    let launcher = from_images(path, &|_, _| ()).expect_err("is a launcher");
    assert!(
        launcher.to_string().contains("none of its 1 image"),
        "{launcher}"
    );
}
