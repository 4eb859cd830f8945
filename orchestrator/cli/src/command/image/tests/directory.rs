//! Tests of the command on checkpoint directories.

use super::common;
use crate::{
    args::image::ImageArgs,
    command::image::run::{Caller, run},
    image_error::ImageCommandError,
};
use clap::Parser;
use cvc_image::{ImageErrorKind, ReadDirOptions, Role, read_dir, read_dir_with};
use std::{
    fs, io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

/// Creates the files of DMTCP for a job of two ranks, with one broken and one unfinished image.
fn checkpoint() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let copy = |fixture: &str, name: &str| {
        fs::copy(common::fixture(fixture), dir.path().join(name)).unwrap()
    };
    copy(
        "mpich-btA-np4-rank0-from-gzip",
        "ckpt_bt.A.4_98ff-42000-2f1307f1a2b.dmtcp",
    );
    copy(
        "mpich-luA-np4-rank2",
        "ckpt_lu_A-4_98ff-44000-2f1307f1a2c.dmtcp",
    );
    copy(
        "mpich-btA-np4-hydra_pmi_proxy",
        "ckpt_hydra_pmi_proxy_98ff-41000-2f1307f1a2d.dmtcp",
    );
    copy(
        "mpich-btW-np4-mpiexec",
        "ckpt_mpiexec.hydra_98ff-40000-2f1307f1a2e.dmtcp",
    );
    // v3: the program's name is only in the file name.
    copy(
        "v3-single-process",
        "ckpt_my_prog-1_98ff-50000-2f1307f1a2f.dmtcp",
    );
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
    fs::write(dir.path().join("dmtcp_restart_script.sh"), "#!/bin/sh\n").unwrap();
    let files = dir.path().join("ckpt_bt.A.4_98ff-42000-2f1307f1a2b_files");
    fs::create_dir(&files).unwrap();
    fs::write(
        files.join("fd-info.txt"),
        "seg_99001:/dev/shm/seg:with:colons\nno colon\ngone_1:/tmp/gone\n../x:/etc/passwd\n",
    )
    .unwrap();
    fs::write(files.join("seg_99001"), vec![0; 5000]).unwrap();
    fs::create_dir(dir.path().join("ckpt_gone_98ff-46000-2f1307f1a32_files")).unwrap();
    dir
}

#[test]
fn a_table_of_saved_files_that_is_no_file_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    for (image, is_pipe) in [("ckpt_a_1-2-3_files", false), ("ckpt_a_1-4-3_files", true)] {
        let info = dir.path().join(image).join("fd-info.txt");
        fs::create_dir(dir.path().join(image)).unwrap();
        if is_pipe {
            nix::unistd::mkfifo(&info, nix::sys::stat::Mode::S_IRWXU).unwrap();
        } else {
            fs::create_dir(&info).unwrap();
        }
    }
    let read = read_dir(dir.path()).unwrap();
    assert!(read.files_dirs.len() == 2 && read.files_dirs.iter().all(|d| d.saved.is_empty()));
}

#[test]
fn a_directory_is_read_image_by_image() {
    let dir = checkpoint();
    let read = read_dir(dir.path()).unwrap();
    let seen: Vec<_> = read
        .images
        .iter()
        .map(|i| (i.role, i.vpid.unwrap(), i.program.as_str()))
        .collect();
    // the vpid comes from the header of an image, if there is one
    let ranks: Vec<_> = seen
        .iter()
        .filter(|(role, ..)| *role == Role::Rank)
        .map(|(_, _, program)| *program)
        .collect();
    assert_eq!(ranks, ["bt.A.4", "lu.A.4", "my_prog-1"]);
    let launchers: Vec<_> = seen
        .iter()
        .filter(|(role, ..)| *role == Role::Launcher)
        .map(|(_, _, program)| *program)
        .collect();
    assert_eq!(launchers, ["mpiexec.hydra", "hydra_pmi_proxy"]);
    assert!(seen.is_sorted_by_key(|(role, vpid, _)| (*role, *vpid)));

    assert_eq!(read.broken.len(), 1);
    assert!(matches!(
        read.broken[0].error.kind,
        ImageErrorKind::NotAnImage { .. }
    ));
    assert_eq!(
        (read.broken[0].role, read.broken[0].file_bytes),
        (Role::Rank, 4)
    );
    assert_eq!(
        (read.temporary.len(), read.temporary[0].file_bytes),
        (1, 100)
    );

    let files = &read.files_dirs[0];
    assert_eq!((files.files, files.has_image), (2, true));
    let info = fs::metadata(files.path.join("fd-info.txt")).unwrap().len();
    assert_eq!(files.bytes, 5000 + info);
    let saved: Vec<_> = files
        .saved
        .iter()
        .map(|f| (f.saved_name.as_str(), f.original.as_str(), f.bytes))
        .collect();
    assert_eq!(
        saved,
        [
            ("seg_99001", "/dev/shm/seg:with:colons", Some(5000)),
            ("gone_1", "/tmp/gone", None),
            ("../x", "/etc/passwd", None)
        ]
    );
    assert!(!read.files_dirs[1].has_image);

    let totals = &read.totals;
    assert_eq!(
        (
            totals.rank.images,
            totals.launcher.images,
            totals.broken_images,
            totals.files_dirs.dirs
        ),
        (3, 2, 1, 2)
    );
    let on_disk: u64 = read.images.iter().map(|i| i.image.file_bytes).sum();
    assert_eq!(totals.stored_bytes, on_disk + 4 + 5000 + info);
    assert_eq!(totals.rank.file_bytes + totals.launcher.file_bytes, on_disk);
    let dtapp: u64 = read
        .images
        .iter()
        .filter(|i| i.role == Role::Rank)
        .map(|i| i.image.zones.structural.stored.dtapp)
        .sum();
    assert_eq!(totals.rank.zones.structural.stored.dtapp, dtapp);
}

#[test]
fn the_result_does_not_depend_on_the_threads() {
    let dir = checkpoint();
    let json = |threads| {
        let options = ReadDirOptions {
            threads: NonZeroUsize::new(threads),
        };
        serde_json::to_string(&read_dir_with(dir.path(), options).unwrap()).unwrap()
    };
    assert_eq!(json(1), json(3));
    assert_eq!(json(1), json(64));
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: ImageArgs,
}

fn run_with(path: &Path, flags: &[&str]) -> (String, Result<(), ImageCommandError>) {
    let arguments = ["image".into(), path.to_owned()]
        .into_iter()
        .chain(flags.iter().map(PathBuf::from));
    let args = Cli::try_parse_from(arguments).unwrap().args;
    let mut out = Vec::new();
    let result = run(&args, Caller::default(), &mut out);
    (String::from_utf8(out).unwrap(), result)
}

#[test]
fn the_command_on_a_file() {
    let path = common::fixture("v3-single-process");
    let (text, result) = run_with(&path, &[]);
    result.unwrap();
    for expected in [
        "zones by owner, MiB",
        "\nDTAPP ",
        "\n  allocated ",
        "\nSHMEM ",
        "\nREST ",
        "library-memory of a small program, no MPI library",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    assert_eq!(text.matches("zones by").count(), 1, "one table:\n{text}");
    let (text, result) = run_with(&path, &["--rules", "both"]);
    result.unwrap();
    for expected in [
        "DMTCP 3.2, area layout C",
        "zones by the literal and the structural rules, which agree on every region",
        "SHMEM/lib-bss",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    assert_eq!(text.matches("\nDTAPP ").count(), 1, "one table:\n{text}");
    let (text, _) = run_with(&path, &["--rules", "literal"]);
    assert!(text.contains("literal") && !text.contains("structural"));
    let (text, _) = run_with(&path, &["--listing"]);
    assert_eq!(
        text,
        fs::read_to_string(common::fixtures().join("v3-single-process.listing.txt")).unwrap()
    );
    let (text, _) = run_with(&path, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["zones"]["literal"]["stored"]["LB"], 6_848_512);
    let owner = &json["zones"]["owner"]["stored"];
    assert_eq!(
        owner["DTAPP"].as_u64(),
        ["static", "heap", "allocated"]
            .iter()
            .map(|part| owner["parts"][part].as_u64())
            .sum::<Option<u64>>()
    );
    assert!(
        owner["parts"]["allocated"].as_u64().unwrap() >= 64 << 20,
        "{owner}"
    );
    assert_eq!(json["baseline"]["library"], "none");
    assert_eq!(json["header"]["endOfStack"], 140_725_631_324_160_u64);
}

#[test]
fn the_command_says_where_the_rules_differ() {
    let (text, result) = run_with(
        &common::fixture("mpich-btA-np4-rank0"),
        &["--rules", "both"],
    );
    result.unwrap();
    assert!(text.contains("which agree on every region"));
    // No [heap]: the literal rule counts the library as application data.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image.dmtcp");
    let areas = [
        common::file(0x5000_0000_0000, 4096, 5, "/home/u/prog"),
        common::file(0x7f00_0000_0000, 1 << 20, 5, "/usr/lib/libm.so.6"),
    ];
    fs::write(&path, common::image(common::Kind::V4, &areas)).unwrap();
    let (text, _) = run_with(&path, &["--rules", "both"]);
    assert!(
        text.contains("differ on 1 region(s), 1.00 MiB of data; the first is 0x7f0000000000 /usr/lib/libm.so.6: DTAPP by the literal"),
        "{text}"
    );
}

#[test]
fn the_command_on_a_directory() {
    let dir = checkpoint();
    let (text, result) = run_with(dir.path(), &[]);
    let error = result.unwrap_err();
    assert!(
        matches!(error, ImageCommandError::BrokenImages { images: 6, .. }),
        "{error:?}"
    );
    let message = error.to_string();
    assert!(
        message.contains("1 of 6 image(s)")
            && message.contains("ckpt_bt.A.4_98ff-43000")
            && message.contains("hint:"),
        "{message}"
    );
    for expected in [
        "mpiexec.hydra",
        "my_prog-1",
        "total stored",
        "all ranks",
        "all launchers",
        "broken",
        "unfinished",
        "saved",
        "its image is not here",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    let (text, _) = run_with(dir.path(), &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["images"].as_array().unwrap().len(), 5);
    assert_eq!(
        json["images"][0]["zones"]["literal"]["virtual"]["LB"]
            .as_u64()
            .map(|n| n > 0),
        Some(true)
    );
    assert!(
        json["broken"][0]["error"]
            .as_str()
            .unwrap()
            .contains("not a checkpoint image")
    );
    assert!(
        matches!(run_with(dir.path(), &["--listing"]).1, Err(ImageCommandError::ListingOfDirectory(path)) if path == dir.path())
    );
}

#[test]
fn a_directory_without_images() {
    let dir = tempfile::tempdir().unwrap();
    let error = run_with(dir.path(), &[]).1.unwrap_err();
    assert!(
        matches!(error, ImageCommandError::NoImages { .. })
            && error.to_string().contains("--ckptdir")
    );
    let missing = run_with(&dir.path().join("nowhere"), &[]).1.unwrap_err();
    assert!(missing.to_string().contains("nowhere"));
}

/// Creates two checkpoints like those of a campaign, one with a broken part, and an image that belongs to no campaign.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let copy = |fixture: &str, path: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(common::fixture(fixture), path).unwrap();
    };
    copy(
        "mpich-btA-np4-rank0-from-gzip",
        "work/r1/ckpt/ckpt_bt.A.4_98ff-42000-2f1307f1a2b.dmtcp",
    );
    copy(
        "mpich-btW-np4-mpiexec",
        "work/r1/ckpt/ckpt_mpiexec.hydra_98ff-40000-2f1307f1a2e.dmtcp",
    );
    copy(
        "mpich-luA-np4-rank2",
        "work/r2/ckpt/ckpt_98ff-40000-1_00001/ckpt_lu_A-4_98ff-44000-2f1307f1a2c.dmtcp",
    );
    fs::write(
        dir.path().join("work/r2/ckpt/ckpt_a_98ff-1-2.dmtcp.temp"),
        "x",
    )
    .unwrap();
    let files = dir
        .path()
        .join("work/r2/ckpt/ckpt_98ff-40000-1_00001/ckpt_lu_A-4_98ff-44000-2f1307f1a2c_files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("seg_99001"), vec![0; 5000]).unwrap();
    copy(
        "v3-single-process",
        "ckpt_my_prog-1_98ff-50000-2f1307f1a2f.dmtcp",
    );
    dir
}

#[test]
fn all_images_below_a_directory_are_shown_by_size_with_sums() {
    let dir = tree();
    let json = |flags: &[&str]| -> serde_json::Value {
        let (text, result) = run_with(dir.path(), &[&["-r", "--json"], flags].concat());
        result.unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let all = json(&[]);
    let sizes: Vec<u64> = all["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["file_bytes"].as_u64().unwrap())
        .collect();
    assert!(
        sizes.len() == 4 && sizes.is_sorted_by(|a, b| a >= b),
        "{sizes:?}"
    );
    assert_eq!(
        all["totals"]["stored_bytes"],
        sizes.iter().sum::<u64>() + 5000
    );
    let of_directory = |name: &str| {
        all["directories"]
            .as_array()
            .unwrap()
            .iter()
            .find(|d| d["directory"] == name)
            .cloned()
            .unwrap()
    };
    assert_eq!(
        (
            of_directory("work/r1/ckpt")["images"].as_u64(),
            of_directory(".")["images"].as_u64()
        ),
        (Some(2), Some(1))
    );
    let second = of_directory("work/r2/ckpt/ckpt_98ff-40000-1_00001");
    assert_eq!(
        second["stored_bytes"].as_u64(),
        second["rank_bytes"].as_u64().map(|b| b + 5000)
    );
    assert_eq!(
        all["temporary"][0]["path"],
        "work/r2/ckpt/ckpt_a_98ff-1-2.dmtcp.temp"
    );
    // the sums do not depend on the number of images shown
    let one = json(&["--top", "1"]);
    assert_eq!(
        (
            one["images"].as_array().unwrap().len(),
            one["images_left_out"].as_u64()
        ),
        (1, Some(3))
    );
    assert_eq!(
        (&one["images"][0], &one["totals"], &one["directories"]),
        (&all["images"][0], &all["totals"], &all["directories"])
    );
    let by_name: Vec<String> = json(&["--sort", "name"])["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["path"].to_string())
        .collect();
    assert!(by_name.is_sorted(), "{by_name:?}");
    let (text, result) = run_with(dir.path(), &["--top", "1"]);
    result.unwrap();
    for expected in [
        "images, largest first",
        "and 3 more; the sums are of all",
        "on disk by directory",
        "unfinished",
        "on disk, 4 image(s)",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    // a directory with images is itself a checkpoint, unless all images below it are requested
    assert!(run_with(dir.path(), &[]).0.contains("all ranks"));
    assert!(
        run_with(&dir.path().join("work"), &[])
            .0
            .contains("r1/ckpt/ckpt_bt.A.4")
    );
    fs::write(
        dir.path().join("work/r1/ckpt/ckpt_c_98ff-1-3.dmtcp"),
        "oops",
    )
    .unwrap();
    let (text, result) = run_with(&dir.path().join("work"), &[]);
    let error = result.unwrap_err();
    assert!(
        matches!(error, ImageCommandError::BrokenTree { .. })
            && error.to_string().contains("1 image(s) below"),
        "{error}"
    );
    assert!(
        text.contains("broken     r1/ckpt/ckpt_c_98ff-1-3.dmtcp")
            && text.contains("on disk, 4 image(s)"),
        "{text}"
    );
}

#[test]
fn a_directory_named_like_an_image_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("ckpt_dir_6.dmtcp")).unwrap();
    // no image exists, so the directory is reported as an error
    let error = run_with(dir.path(), &[]).1.unwrap_err();
    assert!(
        matches!(error, ImageCommandError::NoImages { .. })
            && error.to_string().contains("ckpt_dir_6.dmtcp"),
        "{error}"
    );
    fs::copy(
        common::fixture("v3-single-process"),
        dir.path()
            .join("ckpt_my_prog-1_98ff-50000-2f1307f1a2f.dmtcp"),
    )
    .unwrap();
    fs::create_dir(dir.path().join("ckpt_a_98ff-1-2.dmtcp.temp")).unwrap();
    fs::create_dir(dir.path().join("ckpt_98ff-40000-1_00001")).unwrap();
    let (text, result) = run_with(dir.path(), &[]);
    result.unwrap();
    assert!(
        text.contains("directory  ckpt_dir_6.dmtcp/ is named like an image"),
        "{text}"
    );
    assert!(!text.contains("00001"), "{text}");
    let (text, _) = run_with(dir.path(), &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        json["named_like_images"],
        serde_json::json!(["ckpt_a_98ff-1-2.dmtcp.temp", "ckpt_dir_6.dmtcp"])
    );
    assert_eq!(json["totals"]["rank"]["images"], 1);
}

/// A writer that fails with this error, as for a closed pipe or a full disk.
struct Refusing(io::ErrorKind);

impl io::Write for Refusing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for flag in ["--json", "--listing", "--rules=both"] {
        let args = Cli::try_parse_from([
            "image".into(),
            common::fixture("v3-single-process"),
            flag.into(),
        ])
        .unwrap()
        .args;
        run(
            &args,
            Caller::default(),
            &mut Refusing(io::ErrorKind::BrokenPipe),
        )
        .unwrap();
        let full = run(
            &args,
            Caller::default(),
            &mut Refusing(io::ErrorKind::StorageFull),
        )
        .unwrap_err();
        assert!(matches!(full, ImageCommandError::Output(_)), "{flag}");
    }
}

#[test]
fn tables_get_as_narrow_as_a_terminal() {
    let root = tempfile::tempdir().unwrap();
    let below = root
        .path()
        .join("campaigns/a-long-name/work/0123456789abcdef/ckpt");
    fs::create_dir_all(&below).unwrap();
    for (fixture, name) in [
        (
            "mpich-btA-np4-rank0-from-gzip",
            "ckpt_bt.A.4_98ff-42000-2f1307f1a2b.dmtcp",
        ),
        (
            "mpich-btA-np4-rank0",
            "ckpt_bt.A.4_98ff-43000-2f1307f1a2c.dmtcp",
        ),
    ] {
        fs::copy(common::fixture(fixture), below.join(name)).unwrap();
    }
    let shown = |path: &Path, width: Option<usize>| {
        let args = Cli::parse_from([Path::new("image"), path]).args;
        let caller = Caller {
            width,
            ..Caller::default()
        };
        let mut out = Vec::new();
        run(&args, caller, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let widest = |text: &str| {
        // skip the first line, which is the requested path
        let table = text.lines().skip(1).filter(|l| !l.contains("all in "));
        table.map(|l| l.chars().count()).max().unwrap()
    };
    let whole = shown(root.path(), None);
    assert!(whole.contains(
        "a-long-name/work/0123456789abcdef/ckpt/ckpt_bt.A.4_98ff-42000-2f1307f1a2b.dmtcp"
    ));
    let narrow = shown(root.path(), Some(80));
    assert!(widest(&narrow) <= 80, "{narrow}");
    assert_eq!(
        narrow
            .matches("all in campaigns/a-long-name/work/0123456789abcdef/ckpt/")
            .count(),
        1
    );
    for name in [
        "bt.A.4_98ff-42000-2f1307f1a2b ",
        "bt.A.4_98ff-43000-2f1307f1a2c ",
    ] {
        assert!(narrow.contains(name), "{name}: {narrow}");
    }
    // the numbers are unchanged
    for number in ["25.04", "98.45"] {
        assert!(
            whole.contains(number) == narrow.contains(number),
            "{number}: {narrow}"
        );
    }
    let narrow = shown(&below, Some(80));
    assert!(widest(&narrow) <= 80, "{narrow}");
    assert!(
        narrow.contains("plain") && !narrow.contains("overhead"),
        "{narrow}"
    );
    assert!(shown(&below, Some(200)).contains("uncompressed"));
}

/// Returns the output of the command with these arguments.
fn printed(arguments: &[&Path]) -> Result<String, ImageCommandError> {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        image: ImageArgs,
    }
    let line = Line::parse_from([Path::new("image")].iter().chain(arguments));
    let mut out = Vec::new();
    run(&line.image, Caller::default(), &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn two_images_stand_side_by_side_with_what_only_one_of_them_has() {
    let of = |name: &str| common::fixture(name);
    let (aggregator, other) = (
        of("mpich-btioA-full-np4-aggregator"),
        of("mpich-btioA-full-np4-rank1"),
    );
    let text = printed(&[&aggregator, Path::new("--against"), &other]).unwrap();
    insta::assert_snapshot!(text.replace(aggregator.parent().unwrap().to_str().unwrap(), "DIR"));
    let json = printed(&[
        &aggregator,
        Path::new("--json"),
        Path::new("--against"),
        &other,
    ])
    .unwrap();
    let both: serde_json::Value = serde_json::from_str(&json).unwrap();
    let sum = |of: usize| -> u64 {
        let areas = both["areas"].as_array().unwrap().iter();
        areas.map(|area| area["stored"][of].as_u64().unwrap()).sum()
    };
    assert_eq!(Some(sum(0)), both["first"]["data_bytes"].as_u64());
    assert_eq!(Some(sum(1)), both["second"]["data_bytes"].as_u64());
    let directory = aggregator.parent().unwrap();
    let error = printed(&[directory, Path::new("--against"), &other])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("--against compares two images") && error.contains("hint:"),
        "{error}"
    );
}

#[test]
fn files_that_are_larger_than_the_others_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (i, fixture) in ["aggregator", "rank1", "rank1", "rank1"].iter().enumerate() {
        let name = format!("ckpt_bt_98ff-4200{i}-2f1307f1a2{i}.dmtcp");
        fs::copy(
            common::fixture(&format!("mpich-btioA-full-np4-{fixture}")),
            dir.path().join(name),
        )
        .unwrap();
    }
    let text = printed(&[dir.path()]).unwrap();
    assert!(text.contains("MiB larger than the others"), "{text}");
    assert!(
        text.contains("1 of 4 files is") && text.contains("vpid 42000"),
        "{text}"
    );
}
