//! Simulated nodes: threads of this process, each with a separate directory, and the streams between them.

use super::*;
use crate::sentinel::FileFound;
use crate::sentinel::levels::{KeptPart, Movement, PortRequest, StreamTarget, StreamToken};
use proptest::prelude::*;
use std::{net::Ipv4Addr, os::unix::fs::MetadataExt};

const LIMIT_S: f64 = 30.0;

/// A node: its directory, and the checkpoints that it keeps.
struct Node {
    dir: tempfile::TempDir,
    levels: NodeLevels,
}

impl Node {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            levels: NodeLevels::default(),
        }
    }

    fn kept(&self) -> PathBuf {
        self.dir.path().join(".cvc-levels")
    }

    fn work(&mut self, work: &LevelWork) -> Result<LevelDone, LevelProblem> {
        let kept = self.kept();
        self.levels.work(&kept, work)
    }

    fn do_well(&mut self, work: &LevelWork) -> LevelDone {
        self.work(work)
            .unwrap_or_else(|problem| panic!("{work:?}: {problem:?}"))
    }

    /// Writes files with these contents and keeps them as a checkpoint.
    fn hold(&mut self, id: u64, contents: &[Vec<u8>]) -> FileTable {
        let from = self.write(contents);
        let also = Vec::new();
        self.do_well(&LevelWork::Hold { id, from, also }).table
    }

    fn write(&self, contents: &[Vec<u8>]) -> CheckpointFiles {
        let file = |(number, content): (usize, &Vec<u8>)| {
            let path = self.dir.path().join(format!("ckpt.{number}"));
            fs::write(&path, content).expect("writes");
            let found = fs::metadata(&path).expect("a file");
            FileFound {
                path,
                bytes: found.len(),
                modified_ns: found.mtime() * 1_000_000_000 + found.mtime_nsec(),
                inode: found.ino(),
                device: found.dev(),
            }
        };
        CheckpointFiles::Own {
            work: self.dir.path().into(),
            files: contents.iter().enumerate().map(file).collect(),
        }
    }

    fn read(&self) -> Vec<Vec<u8>> {
        let read = |number| fs::read(self.dir.path().join(format!("ckpt.{number}")));
        (0..).map_while(|number| read(number).ok()).collect()
    }

    /// Removes all kept checkpoints of the node.
    fn lose(&mut self) {
        for entry in fs::read_dir(self.dir.path()).expect("a directory") {
            let path = entry.expect("an entry").path();
            let removed = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.expect("removes");
        }
        self.levels = NodeLevels::default();
    }
}

fn token(number: usize) -> StreamToken {
    StreamToken::new([number as u8; 32])
}

/// Opens ports, and lets all nodes carry out their flows concurrently.
fn carry_out(
    nodes: &mut [Node],
    id: u64,
    movement: &Movement,
) -> Vec<Result<LevelDone, LevelProblem>> {
    let mut targets = HashMap::new();
    for (number, link) in movement.links().iter().enumerate() {
        let request = PortRequest {
            name: link.name.clone(),
            address: Ipv4Addr::LOCALHOST.into(),
            token: token(number),
        };
        let done = nodes[link.to].do_well(&LevelWork::Listen(vec![request]));
        let target = StreamTarget {
            address: done.ports[0],
            token: token(number),
        };
        targets.insert(link.name.clone(), target);
    }
    std::thread::scope(|scope| {
        let targets = &targets;
        let works: Vec<_> = nodes
            .iter_mut()
            .enumerate()
            .map(|(number, node)| {
                let flows = movement.flows(number, |name| targets.get(name).cloned());
                let work = LevelWork::Move {
                    id,
                    flows,
                    limit_s: LIMIT_S,
                };
                scope.spawn(move || node.work(&work))
            })
            .collect();
        works
            .into_iter()
            .map(|work| work.join().expect("ends"))
            .collect()
    })
}

fn manifest(id: u64, tables: &[FileTable]) -> LevelManifest {
    let name = |n: usize| format!("n{n}");
    LevelManifest {
        id,
        ckpt: id,
        nodes: (0..tables.len()).map(name).collect(),
        tables: tables
            .iter()
            .enumerate()
            .map(|(n, table)| (name(n), table.clone()))
            .collect(),
    }
}

/// Returns a different content for each node; a length may be 0.
fn contents(lengths: &[usize]) -> Vec<Vec<u8>> {
    let content = |(seed, length): (usize, &usize)| {
        (0..*length)
            .map(|at| (at * 31 + seed * 7 + length) as u8)
            .collect()
    };
    lengths.iter().enumerate().map(content).collect()
}

fn all(nodes: &[Vec<usize>]) -> Vec<Vec<Vec<u8>>> {
    nodes.iter().map(|lengths| contents(lengths)).collect()
}

/// Creates nodes that keep these files, and adds parity.
fn with_parity(data: &[Vec<Vec<u8>>]) -> (Vec<Node>, Vec<FileTable>) {
    let mut nodes: Vec<Node> = data.iter().map(|_| Node::new()).collect();
    let tables: Vec<FileTable> = nodes
        .iter_mut()
        .zip(data)
        .map(|(node, data)| node.hold(1, data))
        .collect();
    let bytes: Vec<u64> = tables.iter().map(FileTable::bytes).collect();
    let mut movement = Movement::default();
    movement.parity(&(0..nodes.len()).collect::<Vec<_>>(), &bytes);
    for done in carry_out(&mut nodes, 1, &movement) {
        done.expect("parity");
    }
    for node in &mut nodes {
        node.do_well(&LevelWork::Commit(manifest(1, &tables)));
    }
    (nodes, tables)
}

#[test]
fn files_of_a_lost_node_come_back_from_its_partner() {
    let data = all(&[vec![3000, 0, 5], vec![1], vec![2_500_000]]);
    let mut nodes: Vec<Node> = data.iter().map(|_| Node::new()).collect();
    let tables: Vec<FileTable> = nodes
        .iter_mut()
        .zip(&data)
        .map(|(node, data)| node.hold(1, data))
        .collect();
    let mut movement = Movement::default();
    for (from, table) in tables.iter().enumerate() {
        let kept = KeptPart::Of(format!("n{from}"));
        movement.copy(from, KeptPart::Own, (from + 1) % 3, kept, table.clone());
    }
    let sent: u64 = carry_out(&mut nodes, 1, &movement)
        .into_iter()
        .map(|done| done.expect("copied").bytes)
        .sum();
    assert_eq!(sent, 3005 + 1 + 2_500_000);
    nodes[2].lose();
    let mut back = Movement::default();
    back.copy(
        0,
        KeptPart::Of("n2".into()),
        2,
        KeptPart::Own,
        tables[2].clone(),
    );
    for done in carry_out(&mut nodes, 1, &back) {
        done.expect("copied back");
    }
    let from = nodes[2].kept().join("1/own");
    let place = LevelWork::Place {
        from,
        table: tables[2].clone(),
        clear: Vec::new(),
        as_copies: false,
    };
    assert_eq!(nodes[2].do_well(&place).bytes, 2_500_000);
    assert_eq!(nodes[2].read(), data[2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_one_node_of_a_group_comes_back_from_parity(
        lengths in prop::collection::vec(prop::collection::vec(0_usize..5000, 1..4), 2..6),
        lost in any::<prop::sample::Index>(),
    ) {
        let data = all(&lengths);
        let (mut nodes, tables) = with_parity(&data);
        let lost = lost.index(nodes.len());
        nodes[lost].lose();
        let bytes: Vec<u64> = tables.iter().map(FileTable::bytes).collect();
        let mut movement = Movement::default();
        movement.rebuild(&(0..nodes.len()).collect::<Vec<_>>(), &bytes, lost, tables[lost].clone());
        for done in carry_out(&mut nodes, 1, &movement) {
            done.expect("rebuilt");
        }
        let from = nodes[lost].kept().join("1/own");
        let place = LevelWork::Place { from, table: tables[lost].clone(), clear: Vec::new(), as_copies: false };
        nodes[lost].do_well(&place);
        prop_assert_eq!(nodes[lost].read(), data[lost].clone());
    }
}

#[test]
fn parity_is_as_long_as_a_segment_and_what_was_damaged_is_not_rebuilt() {
    let data = all(&[vec![30_000], vec![10], vec![20_000], vec![0]]);
    let (mut nodes, tables) = with_parity(&data);
    let parity = nodes[3].kept().join("1/parity/0");
    assert_eq!(fs::metadata(&parity).expect("parity").len(), 10_000);
    let mut damaged = fs::read(&parity).expect("reads");
    damaged[17] ^= 1;
    fs::write(&parity, damaged).expect("writes");
    nodes[0].lose();
    let bytes: Vec<u64> = tables.iter().map(FileTable::bytes).collect();
    let mut movement = Movement::default();
    movement.rebuild(&[0, 1, 2, 3], &bytes, 0, tables[0].clone());
    let done = carry_out(&mut nodes, 1, &movement);
    let problem = done[0].as_ref().expect_err("another digest");
    assert!(
        problem.is_damaged && problem.why.contains("BLAKE3 digest of the content differs"),
        "{problem:?}"
    );
}

#[test]
fn a_checkpoint_counts_once_its_manifest_is_there_and_no_longer_when_it_is_removed() {
    let mut node = Node::new();
    let scan = |node: &mut Node| -> Vec<u64> {
        let found = node.do_well(&LevelWork::Scan).manifests;
        found.into_iter().map(|manifest| manifest.id).collect()
    };
    let table = node.hold(1, &contents(&[100]));
    assert!(scan(&mut node).is_empty(), "only kept");
    node.do_well(&LevelWork::Commit(manifest(
        1,
        std::slice::from_ref(&table),
    )));
    let second = node.hold(2, &contents(&[200]));
    // the interruption is in the middle of the second checkpoint: the first one is intact
    assert_eq!(scan(&mut node), [1]);
    node.do_well(&LevelWork::Commit(manifest(2, &[second])));
    assert_eq!(scan(&mut node), [2, 1]);
    // a truncated manifest counts as none
    fs::write(node.kept().join("2/manifest.json"), "{\"id\":2").expect("writes");
    assert_eq!(scan(&mut node), [1]);
    node.do_well(&LevelWork::Release(vec![1]));
    assert!(!node.kept().join("2").exists() && node.kept().join("1").exists());
    node.do_well(&LevelWork::Finish);
    assert!(scan(&mut node).is_empty() && !node.kept().exists());
}

#[test]
fn a_move_whose_sender_is_gone_fails_and_leaves_no_file() {
    let mut nodes = vec![Node::new(), Node::new()];
    let table = nodes[0].hold(1, &contents(&[50]));
    let mut movement = Movement::default();
    movement.copy(0, KeptPart::Own, 1, KeptPart::Of("n0".into()), table);
    // node 0 loses its files before it receives the request
    fs::remove_file(nodes[0].kept().join("1/own/0")).expect("removes");
    let done = carry_out(&mut nodes, 1, &movement);
    let (sender, receiver) = (
        done[0].as_ref().expect_err("no file"),
        done[1].as_ref().expect_err("no data"),
    );
    assert!(
        sender.is_damaged && !receiver.is_damaged,
        "{sender:?} {receiver:?}"
    );
    assert!(!nodes[1].kept().join("1/of-n0/0").exists());
}

#[test]
fn what_is_held_already_is_not_copied_again_and_a_changed_file_is_refused() {
    let mut node = Node::new();
    let from = node.write(&contents(&[10]));
    let hold = LevelWork::Hold {
        id: 1,
        from,
        also: Vec::new(),
    };
    let first = node.do_well(&hold);
    let copy = node.kept().join("1/own/0");
    let made = fs::metadata(&copy).expect("a copy").ino();
    assert_eq!(node.do_well(&hold).table, first.table);
    assert_eq!(fs::metadata(&copy).expect("a copy").ino(), made);
    let LevelWork::Hold { from, .. } = hold else {
        unreachable!()
    };
    fs::write(node.dir.path().join("ckpt.0"), "other").expect("writes");
    let again = LevelWork::Hold {
        id: 2,
        from,
        also: Vec::new(),
    };
    assert!(
        node.work(&again)
            .expect_err("changed")
            .why
            .contains("was changed")
    );
}

#[test]
fn images_get_a_second_name_and_session_files_are_put_back_as_they_were() {
    let mut node = Node::new();
    let (ckpt, session) = (
        node.dir.path().join("ckpt"),
        node.dir.path().join("session"),
    );
    fs::create_dir_all(ckpt.join("ckpt_a_files")).expect("makes");
    fs::create_dir_all(session.join("below")).expect("makes");
    for (path, text) in [
        (ckpt.join("ckpt_a.dmtcp"), "image"),
        (ckpt.join("ckpt_a_files/x_1"), "saved"),
        (session.join("below/key"), "key"),
        (ckpt.join("dmtcp_restart_script_1.sh"), "script"),
    ] {
        fs::write(path, text).expect("writes");
    }
    std::os::unix::fs::symlink("below/key", session.join("link")).expect("a link");
    nix::unistd::mkfifo(
        &session.join("pipe"),
        nix::sys::stat::Mode::from_bits_truncate(0o600),
    )
    .expect("a pipe");
    let socket = std::os::unix::net::UnixListener::bind(session.join("socket")).expect("a socket");
    let from = CheckpointFiles::Dir(ckpt.clone());
    let table = node
        .do_well(&LevelWork::Hold {
            id: 1,
            from,
            also: vec![session.clone(), "/nowhere".into()],
        })
        .table;
    assert_eq!(
        fs::metadata(ckpt.join("ckpt_a.dmtcp"))
            .expect("an image")
            .nlink(),
        2
    );
    drop(socket);
    // the scripts are also restored on a node that has lost them
    fs::remove_file(ckpt.join("dmtcp_restart_script_1.sh")).expect("removes");
    // the next checkpoint, interrupted: only a part of its files exists
    fs::remove_file(ckpt.join("ckpt_a.dmtcp")).expect("removes");
    fs::write(ckpt.join("ckpt_a.dmtcp"), "half").expect("writes");
    fs::write(ckpt.join("ckpt_b.dmtcp"), "half").expect("writes");
    fs::remove_dir_all(&session).expect("removes");
    let from = node.kept().join("1/own");
    node.do_well(&LevelWork::Place {
        from,
        table,
        clear: vec![ckpt.clone()],
        as_copies: false,
    });
    assert_eq!(
        fs::read_to_string(ckpt.join("ckpt_a.dmtcp")).expect("an image"),
        "image"
    );
    assert_eq!(
        fs::read_to_string(ckpt.join("ckpt_a_files/x_1")).expect("saved"),
        "saved"
    );
    assert!(!ckpt.join("ckpt_b.dmtcp").exists() && ckpt.join("dmtcp_restart_script_1.sh").exists());
    assert_eq!(
        fs::read_to_string(session.join("link")).expect("a link"),
        "key"
    );
    use std::os::unix::fs::FileTypeExt;
    let kind = |name: &str| {
        fs::symlink_metadata(session.join(name))
            .expect("is there")
            .file_type()
    };
    assert!(kind("pipe").is_fifo() && kind("socket").is_socket());
}

#[test]
fn what_was_flushed_is_put_back_from_there() {
    let mut node = Node::new();
    let shared = tempfile::tempdir().expect("a directory");
    let data = contents(&[100, 20_000]);
    let table = node.hold(1, &data);
    let to = shared.path().join("1/n0");
    assert_eq!(
        node.do_well(&LevelWork::Flush {
            id: 1,
            to: to.clone()
        })
        .bytes,
        20_100
    );
    node.lose();
    node.do_well(&LevelWork::Place {
        from: to,
        table,
        clear: Vec::new(),
        as_copies: false,
    });
    assert_eq!(node.read(), data);
}

/// Steps of a checkpoint: 3 nodes keep their files, one step copies, 3 nodes write their manifests, 3 nodes remove the previous checkpoint.
const STEPS: usize = 10;

/// Carries out the first `steps` steps of a checkpoint that each node also copies to the next node. `tables` are of the nodes that have kept their
/// files by then.
fn begin_checkpoint(nodes: &mut [Node], id: u64, steps: usize) {
    let mut tables = Vec::new();
    for step in 0..steps {
        match step {
            0..3 => {
                let data = vec![vec![id as u8; 1000 + step], vec![id as u8; 10]];
                tables.push(nodes[step].hold(id, &data));
            }
            3 => {
                let mut movement = Movement::default();
                for (from, table) in tables.iter().enumerate() {
                    let kept = KeptPart::Of(format!("n{from}"));
                    movement.copy(from, KeptPart::Own, (from + 1) % 3, kept, table.clone());
                }
                for done in carry_out(nodes, id, &movement) {
                    done.expect("copied");
                }
            }
            4..7 => {
                nodes[step - 4].do_well(&LevelWork::Commit(manifest(id, &tables)));
            }
            _ => {
                nodes[step - 7].do_well(&LevelWork::Release(vec![id]));
            }
        }
    }
}

/// Restores the newest checkpoint that has a manifest on all nodes. Returns its number and the first byte of every file.
fn restart(nodes: &mut [Node]) -> (u64, Vec<u8>) {
    let found: Vec<Vec<LevelManifest>> = nodes
        .iter_mut()
        .map(|node| node.do_well(&LevelWork::Scan).manifests)
        .collect();
    let is_everywhere = |id: u64| {
        found
            .iter()
            .all(|of| of.iter().any(|manifest| manifest.id == id))
    };
    let newest = found[0].iter().find(|manifest| is_everywhere(manifest.id));
    let newest = newest.expect("one that counts").clone();
    for (number, node) in nodes.iter_mut().enumerate() {
        node.do_well(&LevelWork::Place {
            from: node.kept().join(newest.id.to_string()).join("own"),
            table: newest.tables[&format!("n{number}")].clone(),
            clear: Vec::new(),
            as_copies: false,
        });
    }
    let contents = nodes.iter().flat_map(Node::read);
    (newest.id, contents.map(|content| content[0]).collect())
}

#[test]
fn a_cut_after_any_step_leaves_one_checkpoint_and_never_parts_of_two() {
    for cut in 0..=STEPS {
        let mut nodes = [Node::new(), Node::new(), Node::new()];
        begin_checkpoint(&mut nodes, 1, STEPS);
        begin_checkpoint(&mut nodes, 2, cut);
        let (id, contents) = restart(&mut nodes);
        // after the seventh step all manifests exist
        assert_eq!(id, if cut < 7 { 1 } else { 2 }, "{cut}");
        assert_eq!(contents, [id as u8; 6], "{cut}");
    }
}

#[test]
fn an_adopted_checkpoint_stays_although_its_writer_changes_the_copies() {
    let data = all(&[vec![5000, 10]]);
    let mut nodes: Vec<Node> = data.iter().map(|_| Node::new()).collect();
    let node = &mut nodes[0];
    let table = node.hold(1, &data[0]);
    let own = |id: u64| node.kept().join(id.to_string()).join("own");
    let (first, second) = (own(1), own(2));
    node.do_well(&LevelWork::Place {
        from: first.clone(),
        table: table.clone(),
        clear: Vec::new(),
        as_copies: true,
    });
    node.do_well(&LevelWork::Adopt {
        id: 2,
        from: first,
        table: table.clone(),
    });
    node.do_well(&LevelWork::Release(vec![2]));
    // change the files in place, as a program does that reuses one file for all its checkpoints
    for kept in &table.0 {
        let mut file = fs::OpenOptions::new().write(true).open(&kept.path);
        let file = file.as_mut().expect("a file");
        std::io::Write::write_all(file, b"the next").expect("writes");
    }
    assert_ne!(node.read(), data[0]);
    node.do_well(&LevelWork::Place {
        from: second,
        table,
        clear: Vec::new(),
        as_copies: false,
    });
    assert_eq!(node.read(), data[0]);
}
