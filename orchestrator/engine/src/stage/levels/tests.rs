//! Tests in which checkpoints are kept, flushed, lost and restored on this machine alone, which has no partner. The program's own tests use several
//! nodes.

use super::*;
use crate::{
    run::{Node, Nodes},
    transport::Transport,
};
use cvc_core::{
    campaign::{Directory, LEVELS, Place, Reach, StorageKind},
    ids::RunId,
    record::names,
};
use cvc_probe::sentinel::FileFound;
use std::{fs, os::unix::fs::MetadataExt};

/// A run on this machine, with one directory for the run and another that acts as shared storage.
struct Here {
    root: tempfile::TempDir,
    used: AllocatedNodes,
    plan: LevelPlan,
}

impl Here {
    fn new(marker: &str, settings: LevelSettings) -> Self {
        let Nodes { crew, head, .. } = Nodes::here();
        let ranks: Vec<Node> = vec![head.clone()];
        let place = Place {
            storage: "run".into(),
            directory: Directory::Below(LEVELS),
            reach: Reach::Node,
        };
        let here = Self {
            root: tempfile::tempdir().expect("a directory"),
            used: AllocatedNodes {
                crew,
                head,
                ranks,
                transport: Transport::Local,
                storage: StorageKind::NodeLocal,
                marker: marker.to_owned(),
                dirs: Vec::new(),
                file_system: None,
            },
            plan: LevelPlan {
                scheme: LevelScheme::Local,
                settings,
                place,
                flushed: None,
            },
        };
        for made in [here.work(), here.shared()] {
            fs::create_dir(made).expect("makes");
        }
        here
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        let path = self.root.path().join(name);
        Utf8PathBuf::from_path_buf(path).expect("UTF-8")
    }

    fn work(&self) -> Utf8PathBuf {
        self.path("work")
    }

    fn shared(&self) -> Utf8PathBuf {
        self.path("shared")
    }

    fn file(&self) -> Utf8PathBuf {
        self.work().join("state")
    }

    fn levels<'r>(&'r self, shared: &'r Utf8Path) -> Levels<'r> {
        Levels::new(&self.used, &self.work(), Some(shared), &self.plan)
    }

    /// Writes the program's checkpoint.
    fn taken(&self, number: u64) -> Taken {
        let path = self.file();
        fs::write(&path, format!("state {number}")).expect("writes");
        let found = fs::metadata(&path).expect("a file");
        let file = FileFound {
            path: path.into(),
            bytes: found.len(),
            modified_ns: found.mtime() * 1_000_000_000 + found.mtime_nsec(),
            inode: found.ino(),
            device: found.dev(),
        };
        let part = NodePart {
            node: "localhost".into(),
            files: CheckpointFiles::Own {
                work: self.work().into(),
                files: vec![file],
            },
            content_bytes: 0,
            also: Vec::new(),
        };
        Taken {
            number,
            at_s: 0.0,
            parts: vec![part],
        }
    }

    fn state(&self) -> String {
        fs::read_to_string(self.file()).expect("a state")
    }

    fn slots(&self) -> Vec<String> {
        let entries = self.work().join(LEVELS).read_dir_utf8().expect("lists");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_owned())
            .collect();
        names.sort();
        names
    }
}

/// Keeps a checkpoint in the same way as a run.
async fn keep(levels: &mut Levels<'_>, mut taken: Taken) {
    let held = levels.hold(&mut taken).await.expect("held");
    assert_eq!(held, Hold::Held);
    levels.after(&taken).await.expect("kept");
}

fn flush(every: u32, behind: bool) -> LevelSettings {
    LevelSettings {
        flush: Some(FlushSettings {
            to: "shared".into(),
            every,
            behind,
        }),
        ..LevelSettings::default()
    }
}

fn values(levels: &Levels<'_>, name: &str) -> Vec<f64> {
    let mut findings = Findings::new(RunId::of(b"r"));
    levels.measure(0, &mut findings);
    let of = findings.records.iter().filter(|r| r.name == name);
    of.map(|record| record.value).collect()
}

#[tokio::test]
async fn a_restart_gets_the_last_complete_checkpoint_and_not_a_later_part() {
    let here = Here::new("last", LevelSettings::default());
    let shared = here.shared();
    let mut levels = here.levels(&shared);
    for number in 1..=3 {
        keep(&mut levels, here.taken(number)).await;
        assert_eq!(here.slots(), [number.to_string()]);
    }
    // the fourth checkpoint is copied when the program ends: it is not complete
    let mut taken = here.taken(4);
    levels.hold(&mut taken).await.expect("held");
    assert_eq!(here.slots(), ["3", "4"]);
    assert_eq!(levels.before_restart().await.expect("restored"), None);
    assert_eq!(here.state(), "state 3");
    assert_eq!(values(&levels, names::LEVEL_SAFE_S).len(), 3);
    assert_eq!(values(&levels, names::LEVEL_RESTARTED_CKPT), [3.0]);
    assert!(values(&levels, names::LEVEL_SENT_BYTES).is_empty());
    levels.finish().await.expect("ends");
    assert!(!here.work().join(LEVELS).exists());
}

#[tokio::test]
async fn files_lost_on_the_node_come_from_shared_storage_or_are_refused() {
    for behind in [false, true] {
        let here = Here::new(&format!("flush-{behind}"), flush(2, behind));
        let shared = here.shared();
        let mut levels = here.levels(&shared);
        for number in 1..=3 {
            keep(&mut levels, here.taken(number)).await;
        }
        fs::remove_dir_all(here.work()).expect("the node is lost");
        fs::create_dir(here.work()).expect("another one takes its place");
        // a checkpoint before the last one: the restart must be informed
        assert_eq!(levels.before_restart().await.expect("restored"), Some(2));
        assert_eq!(here.state(), "state 2");
        assert_eq!(values(&levels, names::LEVEL_FLUSHED_BYTES), [7.0]);
        fs::remove_dir_all(shared.join("2")).expect("removes");
        fs::remove_dir_all(here.work()).expect("lost again");
        fs::create_dir(here.work()).expect("another one");
        let refused = levels.before_restart().await.expect_err("nothing is left");
        assert_eq!(refused.cause, Cause::Restart);
        assert!(
            refused.detail.contains("no node has a complete one"),
            "{}",
            refused.detail
        );
        levels.finish().await.expect("ends");
        assert!(!shared.exists());
    }
}

#[tokio::test]
async fn a_node_that_is_lost_during_a_flush_costs_the_flush_and_not_the_run() {
    let here = Here::new("unflushed", flush(1, true));
    let shared = here.shared();
    let mut levels = here.levels(&shared);
    keep(&mut levels, here.taken(1)).await;
    levels.settle().await;
    // the copy to be flushed is removed before it is read
    levels.kept[0].id = 7;
    let tables = vec![FileTable::default()];
    levels.flush(&tables).await.expect("it is behind");
    levels.kept[0].id = 1;
    assert_eq!(levels.before_restart().await.expect("restored"), None);
    assert_eq!(here.state(), "state 1");
    let mut findings = Findings::new(RunId::of(b"r"));
    levels.measure(0, &mut findings);
    assert!(
        findings.notes[0].contains("a flush did not finish"),
        "{:?}",
        findings.notes
    );
    levels.finish().await.expect("ends");
}

#[tokio::test]
async fn a_damaged_checkpoint_is_not_restarted() {
    let here = Here::new("damaged", LevelSettings::default());
    let shared = here.shared();
    let mut levels = here.levels(&shared);
    keep(&mut levels, here.taken(1)).await;
    fs::write(here.work().join(LEVELS).join("1/own/0"), "state 7").expect("damages");
    let refused = levels.before_restart().await.expect_err("damaged");
    assert!(
        refused
            .detail
            .contains("localhost has lost its files, and with `local`"),
        "{}",
        refused.detail
    );
    assert_eq!(here.state(), "state 1", "what the program had is untouched");
}

#[tokio::test]
async fn the_requested_number_stays_and_flushed_checkpoints_are_not_removed_meanwhile() {
    let settings = LevelSettings {
        keep: 2,
        ..flush(1, true)
    };
    let here = Here::new("keep", settings);
    let shared = here.shared();
    let mut levels = here.levels(&shared);
    for number in 1..=4 {
        keep(&mut levels, here.taken(number)).await;
    }
    assert_eq!(here.slots(), ["3", "4"]);
    levels.settle().await;
    assert_eq!(values(&levels, names::LEVEL_FLUSH_S).len(), 4);
    let left: Vec<_> = shared.read_dir_utf8().expect("lists").flatten().collect();
    assert_eq!(left.len(), 1, "one that counts: {left:?}");
    levels.finish().await.expect("ends");
}

#[tokio::test]
async fn dropped_work_is_repeated_and_counts_once() {
    let here = Here::new("dropped", LevelSettings::default());
    let shared = here.shared();
    let mut levels = here.levels(&shared);
    let mut taken = here.taken(1);
    levels.hold(&mut taken).await.expect("held");
    let soon = std::time::Duration::from_nanos(1);
    let dropped = tokio::time::timeout(soon, levels.after(&taken)).await;
    assert!(dropped.is_err(), "nothing is as fast as that");
    levels.after(&taken).await.expect("kept");
    levels.after(&taken).await.expect("again");
    assert_eq!(values(&levels, names::LEVEL_SAFE_S).len(), 1);
    levels.before_restart().await.expect("restored");
    assert_eq!(here.state(), "state 1");
}

#[tokio::test]
async fn the_next_attempt_continues_from_kept_checkpoints_and_keeps_them_until_its_own_counts() {
    let here = Here::new("resumed", LevelSettings::default());
    let shared = here.shared();
    let mut levels = here.levels(&shared);
    for number in 1..=2 {
        keep(&mut levels, here.taken(number)).await;
    }
    let kept = levels.keep().await.expect("a stage that keeps");
    let kept = kept.expect("a checkpoint");
    levels.settle().await;
    let numbers = |kept: &KeptOnNodes| -> Vec<(u64, u64)> {
        let all = kept.checkpoints.iter();
        all.map(|of| (of.id, of.ckpt)).collect()
    };
    assert_eq!(numbers(&kept), [(2, 2)]);
    assert_eq!(kept.checkpoints[0].bytes, 7);
    // the program had begun to write this file, which is incomplete
    fs::write(here.file(), "sta").expect("writes");
    let mut next = here.levels(&shared);
    let resumed = next.resume(&kept).await.expect("a stage that keeps");
    assert_eq!(resumed.expect("it is there"), kept.checkpoints[0]);
    assert_eq!(here.state(), "state 2");
    assert_eq!(values(&next, names::LEVEL_RESTARTED_CKPT), [2.0]);
    assert_eq!(here.slots(), ["3"], "stored again");
    // the program writes in place: the kept copy must not change
    fs::write(here.file(), "st").expect("writes");
    let again = next.keep().await.expect("a stage that keeps");
    assert_eq!(numbers(&again.expect("it is whole")), [(3, 2)]);
    next.before_restart().await.expect("restored");
    assert_eq!(here.state(), "state 2");
    // the first checkpoint of this attempt has the number of one of the previous attempt
    fs::remove_file(here.file()).expect("removes");
    keep(&mut next, here.taken(2)).await;
    assert_eq!(here.slots(), ["4"]);
    assert_eq!(values(&next, names::LEVEL_SAFE_S).len(), 1);
    next.finish().await.expect("ends");
}

#[tokio::test]
async fn an_attempt_cut_off_before_it_continues_leaves_kept_checkpoints() {
    let here = Here::new("broken-off", LevelSettings::default());
    let shared = here.shared();
    let mut levels = here.levels(&shared);
    keep(&mut levels, here.taken(1)).await;
    keep(&mut levels, here.taken(2)).await;
    let kept = levels.keep().await.expect("a stage that keeps");
    let kept = kept.expect("a checkpoint");
    let mut next = here.levels(&shared);
    next.earlier = Some(kept.clone());
    let again = next.keep().await.expect("a stage that keeps");
    assert_eq!(again.expect("it is there").nodes, kept.nodes);
    next.settle().await;
    assert_eq!(here.slots(), ["2"]);
}
