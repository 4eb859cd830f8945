//! Chooses the unsynced changes that are lost in a power loss.

use super::{
    history::{Change, History},
    tree::Tree,
};
use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
};

/// Number of random subsets of the unsynced changes tried for each sync.
const RANDOM: usize = 40;

/// The files after a power loss.
#[derive(Debug)]
pub struct State {
    /// Description of the moment and the lost changes, for messages.
    pub what: String,
    /// The remaining files.
    pub files: Tree,
    /// The files that were synced, which cannot be lost.
    pub synced: Tree,
}

/// The time between two syncs, at any moment of which unsynced changes may be lost.
struct Window {
    when: String,
    /// Changes that are on disk.
    synced: BTreeSet<usize>,
    /// Unsynced changes, in order.
    pending: Vec<usize>,
}

/// A subset of a window's unsynced changes that remains after the power loss.
struct Part {
    what: String,
    kept: BTreeSet<usize>,
    /// The number of a write that remains only in part, and the number of its bytes that remain.
    cut: Option<(usize, usize)>,
}

/// Chooses states. For each sync, the states with all and with none of the unsynced changes come first. Then follow states with other subsets of
/// these changes, one for each sync in turn.
pub(super) fn choose(
    history: &History,
    count: usize,
    seed: u64,
    dull: impl Fn(&Path) -> bool,
) -> Vec<State> {
    let mut random = fastrand::Rng::with_seed(seed);
    let windows = windows(history);
    let mut queues: Vec<(Vec<Part>, Vec<Part>)> = windows
        .iter()
        .map(|window| parts(history, window, &mut random, &dull))
        .collect();
    let mut order: Vec<(usize, Part)> = Vec::new();
    for (at, (first, _)) in queues.iter_mut().enumerate() {
        order.extend(first.drain(..).map(|part| (at, part)));
    }
    while queues.iter().any(|(_, rest)| !rest.is_empty()) {
        order.extend(
            queues
                .iter_mut()
                .enumerate()
                .filter_map(|(at, (_, rest))| Some((at, rest.pop()?))),
        );
    }
    let mut states: Vec<State> = Vec::new();
    // for each distinct set of files, the maximum number of synced changes: the later moment guarantees more
    let mut seen: HashMap<u64, (usize, usize)> = HashMap::new();
    for (at, part) in order {
        let window = &windows[at];
        let files = tree(history, window, &part);
        let mut hasher = DefaultHasher::new();
        files.hash(&mut hasher);
        let place = match seen.get(&hasher.finish()) {
            Some((_, synced)) if *synced >= window.synced.len() => continue,
            Some((place, _)) => *place,
            None if states.len() == count => break,
            None => states.len(),
        };
        seen.insert(hasher.finish(), (place, window.synced.len()));
        let state = State {
            what: format!("{}: {}", window.when, part.what),
            files,
            synced: Tree::after(history, |step| window.synced.contains(&step)),
        };
        if place < states.len() {
            states[place] = state
        } else {
            states.push(state)
        }
    }
    states
}

fn windows(history: &History) -> Vec<Window> {
    let syncs = &history.syncs;
    let steps = history.steps.len();
    (0..=syncs.len())
        .map(|number| {
            let synced: BTreeSet<usize> = syncs[..number]
                .iter()
                .flat_map(|sync| sync.covers.iter().copied())
                .collect();
            let (end, when) = match syncs.get(number) {
                Some(sync) => (
                    sync.at,
                    format!("before sync {} ({}) ends", number + 1, sync.what),
                ),
                None => (steps, "at the end".to_owned()),
            };
            Window {
                when,
                pending: (0..end).filter(|step| !synced.contains(step)).collect(),
                synced,
            }
        })
        .collect()
}

/// Returns the subsets of a window's changes: those to be tried first, and all others.
fn parts(
    history: &History,
    window: &Window,
    random: &mut fastrand::Rng,
    dull: &impl Fn(&Path) -> bool,
) -> (Vec<Part>, Vec<Part>) {
    let steps = &history.steps;
    let all: BTreeSet<usize> = window.pending.iter().copied().collect();
    let named = |what: &str, kept: BTreeSet<usize>| Part {
        what: what.to_owned(),
        kept,
        cut: None,
    };
    let first = vec![
        named("everything is there", all.clone()),
        named("nothing else is there", BTreeSet::new()),
    ];
    let is_name = |step: &usize| steps[*step].change.content_of().is_none();
    let mut rest = vec![named(
        "all names, and no content",
        all.iter().copied().filter(is_name).collect(),
    )];
    for (count, step) in window
        .pending
        .iter()
        .enumerate()
        .filter(|(_, step)| !dull(&steps[**step].path))
    {
        let change = describe(history, *step);
        let mut but = all.clone();
        but.remove(step);
        rest.push(Part {
            what: format!("all but {change}"),
            kept: but,
            cut: None,
        });
        rest.push(Part {
            what: format!("only {change}"),
            kept: [*step].into(),
            cut: None,
        });
        rest.push(Part {
            what: format!("all up to {change}"),
            kept: window.pending[..=count].iter().copied().collect(),
            cut: None,
        });
        if let Change::Write { bytes, .. } = &steps[*step].change
            && bytes.len() > 1
        {
            let left = random.usize(1..bytes.len());
            rest.push(Part {
                what: format!("all, of {change} {left} bytes"),
                kept: all.clone(),
                cut: Some((*step, left)),
            });
        }
    }
    for number in 0..if all.len() > 2 { RANDOM } else { 0 } {
        let share = [0.2, 0.5, 0.8][random.usize(..3)];
        let kept: BTreeSet<usize> = all
            .iter()
            .copied()
            .filter(|_| random.f64() < share)
            .collect();
        rest.push(Part {
            what: format!(
                "random part {number} of {} changes, {} are left",
                all.len(),
                kept.len()
            ),
            kept,
            cut: None,
        });
    }
    random.shuffle(&mut rest);
    (first, rest)
}

fn describe(history: &History, step: usize) -> String {
    let step = &history.steps[step];
    let what = match &step.change {
        Change::Name { .. } => "the new name".to_owned(),
        Change::Unname { .. } => "the removal".to_owned(),
        Change::Rename { from, .. } => format!("the rename from {}", from.1.to_string_lossy()),
        Change::Write { at, bytes, .. } => {
            format!("the write of bytes {at} to {}", at + bytes.len())
        }
        Change::Cut { length, .. } => format!("the cut to {length} bytes"),
    };
    format!("{what} ({})", step.path.display())
}

fn tree(history: &History, window: &Window, part: &Part) -> Tree {
    let mut files = super::history::Files::default();
    for (at, step) in history.steps.iter().enumerate() {
        match (&step.change, part.cut) {
            (
                Change::Write {
                    inode,
                    at: from,
                    bytes,
                },
                Some((cut, left)),
            ) if cut == at => {
                files.apply(&Change::Write {
                    inode: *inode,
                    at: *from,
                    bytes: bytes[..left].to_owned(),
                });
            }
            (change, _) if window.synced.contains(&at) || part.kept.contains(&at) => {
                files.apply(change)
            }
            _ => {}
        }
    }
    Tree::of(history, &files)
}
