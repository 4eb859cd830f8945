//! Converts images and directories to JSON and back: an agent must obtain exactly what its sentinel read.

use crate::common;
use cvc_image::{CheckpointDir, Image, Layout, read_dir, read_image};
use std::fs;

#[test]
fn every_fixture_comes_back_from_json_as_it_was() {
    let mut layouts = std::collections::HashSet::new();
    for name in common::fixture_names() {
        let image = read_image(&common::fixture(&name)).unwrap();
        let text = serde_json::to_string(&image).unwrap();
        let mut back: Image = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(serde_json::to_string(&back).unwrap(), text, "{name}");
        if image.format.area_layout != Layout::C {
            // `region_end` is not in JSON, because it is needed only while an image is read
            for (region, as_read) in back.regions.iter_mut().zip(&image.regions) {
                region.region_end = as_read.region_end;
            }
        }
        assert!(back == image, "{name}");
        layouts.insert(image.format.area_layout);
    }
    assert_eq!(layouts.len(), 3, "a fixture of each layout");
}

#[test]
fn a_directory_with_all_that_can_be_in_one_comes_back_too() {
    let dir = tempfile::tempdir().unwrap();
    for (i, name) in common::fixture_names().iter().enumerate() {
        fs::copy(
            common::fixture(name),
            dir.path()
                .join(format!("ckpt_{name}_98ff-4{i:04}-2f1307f1a2b.dmtcp")),
        )
        .unwrap();
    }
    fs::write(
        dir.path().join("ckpt_bt.A.4_98ff-43000-2f1307f1a30.dmtcp"),
        b"oops",
    )
    .unwrap();
    fs::write(
        dir.path()
            .join("ckpt_bt.A.4_98ff-45000-2f1307f1a31.dmtcp.temp"),
        [1; 100],
    )
    .unwrap();
    let files = dir.path().join("ckpt_gone_98ff-46000-2f1307f1a32_files");
    fs::create_dir(&files).unwrap();
    fs::write(
        files.join("fd-info.txt"),
        "seg_99001:/dev/shm/seg:with:colons\ngone_1:/tmp/gone\n",
    )
    .unwrap();
    fs::write(files.join("seg_99001"), vec![0; 5000]).unwrap();

    let read = read_dir(dir.path()).unwrap();
    let text = serde_json::to_string(&read).unwrap();
    let back: CheckpointDir = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
    assert_eq!(
        (back.path, back.totals, back.temporary, back.files_dirs),
        (read.path, read.totals, read.temporary, read.files_dirs)
    );
    assert_eq!(
        back.broken[0].error.to_string(),
        read.broken[0].error.to_string()
    );
    assert_eq!(back.images.len(), common::fixture_names().len());
    for (back, read) in back.images.iter().zip(&read.images) {
        assert_eq!(
            (&back.file, &back.program, back.vpid, back.hostid, back.role),
            (&read.file, &read.program, read.vpid, read.hostid, read.role)
        );
        assert_eq!(
            (&back.image.sub_zones, &back.image.zones),
            (&read.image.sub_zones, &read.image.zones)
        );
    }
}

#[test]
fn json_that_is_no_image_is_refused_with_what_is_wrong() {
    let image = read_image(&common::fixture("mpich-btA-np4-rank0")).unwrap();
    let text = serde_json::to_string(&image).unwrap();
    for (from, to, complaint) in [
        ("\"start\":\"0x", "\"start\":\"x", "not an address"),
        ("DTAPP/exe", "DTAPP/exec", "unknown sub-zone"),
        ("DTAPP/exe", "DTAPP", "unknown sub-zone"),
        (
            "DMTCP_CHECKPOINT_IMAGE_v4.0",
            "DMTCP_CHECKPOINT_IMAGE_v9.0",
            "did not match",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let error = serde_json::from_str::<Image>(&text.replacen(from, to, 1))
            .unwrap_err()
            .to_string();
        assert!(error.contains(complaint), "{error}");
    }
}
