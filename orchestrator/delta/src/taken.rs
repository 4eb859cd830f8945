//! Determines when checkpoints were taken.

use crate::source::Source;
use serde::Serialize;
use std::{fs::File, io::Read};

/// Source of the times of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeSource {
    /// Recorded by cvc, or given by the caller.
    Given,
    /// The restart scripts that DMTCP writes with its images.
    Script,
    /// The modification times of the files; those of the copy, if the files were copied without their times.
    Files,
}

/// File times and times in scripts agree if the intervals between consecutive states differ by at most this, seconds. Scripts record whole seconds.
const AGREES_S: f64 = 1.5;
/// Maximum number of bytes of a script that are searched for its time.
const MAX_SCRIPT_BYTES: u64 = 256 << 10;

/// Returns the times of states, in seconds since an arbitrary moment, and their source. If all states have times in scripts, the source is the
/// scripts. If these agree with the file times, the file times are returned, because they have a finer resolution.
pub(crate) fn times(files_s: &[f64], scripts_s: &[Option<f64>]) -> (Vec<f64>, TimeSource) {
    let scripts_s: Option<Vec<f64>> = scripts_s.iter().copied().collect();
    let Some(scripts_s) = scripts_s else {
        return (files_s.to_vec(), TimeSource::Files);
    };
    let agree = files_s
        .windows(2)
        .zip(scripts_s.windows(2))
        .all(|(file, script)| ((file[1] - file[0]) - (script[1] - script[0])).abs() <= AGREES_S);
    let times = if agree { files_s.to_vec() } else { scripts_s };
    (times, TimeSource::Script)
}

/// Returns the time at which the checkpoint was requested, from the restart scripts in the state: seconds since 1970, in the local time of the system
/// that wrote them. `None` if no script has a time.
pub(crate) fn script_s(source: &Source) -> Option<f64> {
    let is_script = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        file.starts_with("dmtcp_restart_script") && file.ends_with(".sh")
    };
    let found = source.files.iter().filter(|file| is_script(&file.name));
    let times = found.filter_map(|file| {
        let mut text = Vec::new();
        let opened = File::open(&file.path).ok()?;
        opened.take(MAX_SCRIPT_BYTES).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find_map(|l| l.strip_prefix("ckpt_timestamp="));
        seconds(line?.trim().trim_matches('"'))
    });
    times.reduce(f64::max)
}

/// Parses a time such as `Thu Nov 26 14:03:24 2026`.
fn seconds(text: &str) -> Option<f64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, time, year] = words[..] else {
        return None;
    };
    let month = i64::try_from(MONTHS.iter().position(|m| *m == month)?).ok()? + 1;
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let clock: Vec<i64> = time
        .split(':')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [hour, minute, second] = clock[..] else {
        return None;
    };
    let is_time = (1..=31).contains(&day)
        && (1970..10_000).contains(&year)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    // days since 1970; the year begins in March here, so that the leap day is its last day
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 719_469;
    is_time.then(|| (((days * 24 + hour) * 60 + minute) * 60 + second) as f64)
}

#[cfg(test)]
mod tests {
    use super::{TimeSource, seconds, times};

    #[test]
    fn a_script_shows_when_its_checkpoint_was_taken() {
        assert_eq!(seconds("Thu Jan  1 00:00:00 1970"), Some(0.0));
        assert_eq!(seconds("Thu Nov 26 14:03:24 2026"), Some(1_795_701_804.0));
        assert_eq!(seconds("Thu Feb 29 23:59:59 2024"), Some(1_709_251_199.0));
        for wrong in [
            "",
            "Thu Nov 26 14:03 2026",
            "Thu Now 26 14:03:24 2026",
            "a b c d e",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_of_copies_give_way_to_those_of_scripts() {
        let scripts = [Some(100.0), Some(130.0), Some(160.0)];
        // the original file times: finer, with the same intervals
        let files = [102.4, 132.6, 162.3];
        assert_eq!(
            times(&files, &scripts),
            (files.to_vec(), TimeSource::Script)
        );
        let copied = [900.0, 900.01, 900.02];
        assert_eq!(
            times(&copied, &scripts),
            (vec![100.0, 130.0, 160.0], TimeSource::Script)
        );
        assert_eq!(times(&copied, &[None; 3]).1, TimeSource::Files);
    }
}
