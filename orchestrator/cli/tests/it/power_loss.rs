//! Tests of a loss of power at any moment of a campaign, with any subset of unsynced writes on the disk: the next `cvc run` finishes the campaign,
//! and finished runs do not change.
//!
//! `CVC_POWER_LOSS_STATES` sets how many states of the disk are tried, `CVC_POWER_LOSS_SEED` selects them.

use crate::common::scripted;
use cvc_testkit::{
    Campaign, Tool,
    power_loss::{Recording, State, Tree, read_tree, write_tree},
    require, wait_until,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(60);
const RUNS: usize = 2;
/// Default number of states: at each sync all writes, no writes, and a few other subsets.
const DEFAULT_STATES: usize = 120;
const DEFAULT_SEED: u64 = 1;
/// Number of threads, each with its own recording and directory.
const THREADS: usize = 4;

/// The directory of all campaigns, which the first session creates; everything below it may be lost.
const CAMPAIGNS: &str = "campaigns";

fn number_of(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {text}"))
    })
}

/// Returns a campaign, and the recorded file operations of its only session.
fn recorded(name: &str) -> (Campaign, Recording) {
    let mut c = scripted(
        name,
        "echo 'Time step 1'; echo SUCCESS",
        &format!("repeats = {RUNS}\nretries = 0"),
    );
    // store data about the machine for this campaign only
    let state = c.dir().join("state").display().to_string();
    c.env("XDG_STATE_HOME", &state);
    let recording = Recording::of(&c.command(&["run", "campaign.toml"]), c.dir(), CAMPAIGNS);
    c.assert_whole(RUNS);
    (c, recording)
}

fn file(c: &Campaign, name: &str) -> PathBuf {
    c.root().strip_prefix(c.dir()).expect("below it").join(name)
}

/// Returns the complete lines of a journal.
fn entries(c: &Campaign, files: &Tree) -> Vec<Value> {
    let text =
        String::from_utf8_lossy(files.content(&file(c, "journal.jsonl")).unwrap_or_default())
            .into_owned();
    text.split_inclusive('\n')
        .filter_map(|line| serde_json::from_str(line.strip_suffix('\n')?).ok())
        .collect()
}

/// Returns the runs that a journal records as successful.
fn finished(entries: &[Value]) -> BTreeSet<String> {
    let of_runs = entries.iter().filter(|entry| {
        entry["event"] == "run-finished" && entry["outcome"]["result"] == "succeeded"
    });
    of_runs
        .map(|entry| entry["run"].as_str().expect("a run").to_owned())
        .collect()
}

/// Continues one state of the disk to the end of the campaign. Returns what was lost, repeated or left behind.
fn problems(c: &Campaign, recording: &Recording, state: &State) -> Vec<String> {
    let run_of = |run: &str| file(c, "runs").join(run);
    let whole: BTreeMap<String, Tree> = finished(&entries(c, recording.last()))
        .into_iter()
        .map(|run| (run.clone(), recording.last().below(&run_of(&run))))
        .collect();
    let told = finished(&entries(c, &state.synced));
    // including runs that are complete although the journal does not record it yet
    let sealed = whole
        .iter()
        .filter(|(run, files)| state.synced.below(&run_of(run)) == **files)
        .map(|(run, _)| run.clone());
    let kept: BTreeSet<String> = told.union(&sealed.collect()).cloned().collect();

    if c.dir().join(CAMPAIGNS).exists() {
        fs::remove_dir_all(c.dir().join(CAMPAIGNS)).expect("removes");
    }
    write_tree(c.dir(), &state.files);
    let ended = c.run();
    let mut problems = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            problems.push(format!("{}:\n  {what}", state.what));
        }
    };
    expect(
        ended.code == Some(0),
        format!("code {:?}: {}", ended.code, ended.stderr),
    );
    let now = read_tree(c.dir(), CAMPAIGNS);
    let journal = file(c, "journal.jsonl");
    let begins = now
        .content(&journal)
        .unwrap_or_default()
        .starts_with(state.synced.content(&journal).unwrap_or_default());
    expect(begins, "entries that were synced are gone".to_owned());
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    for event in entries(c, &now)
        .iter()
        .filter(|entry| entry["event"] == "run-finished")
    {
        *done
            .entry(event["run"].as_str().expect("a run").to_owned())
            .or_default() += 1;
    }
    expect(
        done.len() == RUNS && done.values().all(|times| *times == 1),
        format!("runs and how often they ended: {done:?}"),
    );
    for run in kept {
        let (before, after) = (&whole[&run], now.below(&run_of(&run)));
        let differ: Vec<&PathBuf> = before
            .keys()
            .chain(after.keys())
            .filter(|path| before.get(*path) != after.get(*path))
            .collect();
        expect(
            differ.is_empty(),
            format!("finished run {run} has other files: {differ:?}"),
        );
    }
    if ended.code == Some(0) {
        // a shepherd may still be ending
        wait_until("the end of all processes", LIMIT, || {
            c.processes().is_empty()
        });
        c.assert_nothing_left();
    }
    let names = c.run_names();
    expect(
        names == done.into_keys().collect(),
        format!("below runs/: {names:?}"),
    );
    let is_hidden = |path: &&PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'))
    };
    let halves: Vec<&PathBuf> = now.keys().filter(is_hidden).collect();
    expect(
        halves.is_empty(),
        format!("files that were being written are left: {halves:?}"),
    );
    let checked = c.cvc(&["fsck", "campaign.toml"]);
    expect(
        checked.code == Some(0) && checked.stdout.contains("nothing is damaged"),
        format!("{checked:?}"),
    );
    problems
}

#[test]
fn a_campaign_survives_loss_of_power_at_any_moment() {
    require!(Tool::Mpich, Tool::Strace);
    let count =
        usize::try_from(number_of("CVC_POWER_LOSS_STATES").unwrap_or(DEFAULT_STATES as u64))
            .expect("a number");
    let seed = number_of("CVC_POWER_LOSS_SEED").unwrap_or(DEFAULT_SEED);
    let (tried, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (tried, found) = (&tried, &found);
            scope.spawn(move || {
                let (c, recording) = recorded(&format!("power-{number}"));
                let dull = |path: &Path| path.starts_with(file(&c, "logs"));
                for state in recording
                    .states(count, seed, dull)
                    .into_iter()
                    .skip(number)
                    .step_by(THREADS)
                {
                    let of_state = problems(&c, &recording, &state);
                    found.lock().expect("no panic").extend(of_state);
                    tried.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (tried, found) = (tried.into_inner(), found.into_inner().expect("no panic"));
    eprintln!("{tried} states of the disk, seed {seed}");
    assert!(
        found.is_empty(),
        "{} problems in {tried} states, seed {seed}:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn the_mark_beside_the_journal_is_never_ahead_of_what_is_on_disk() {
    require!(Tool::Mpich, Tool::Strace);
    let (c, recording) = recorded("mark");
    let mark = file(&c, "journal.mark");
    let mut marked = 0;
    for moment in recording.moments(&mark) {
        let Ok(text) =
            serde_json::from_slice::<Value>(moment.seen.content(&mark).unwrap_or_default())
        else {
            continue;
        };
        marked = text["entry"].as_u64().expect("a number");
        let on_disk = entries(&c, &moment.synced).len() as u64;
        assert!(
            marked <= on_disk,
            "the mark says {marked}, and {on_disk} entries are on disk"
        );
    }
    assert_eq!(marked, c.journal().len() as u64);
}
