//! Parses Slurm's reports about jobs, in the formats of its different versions.

use super::{
    clock::SlurmClock,
    state::{JobStage, JobState},
};
use cvc_core::nodelist::{self, NodeListError};
use serde_json::Value;
use std::fmt;

/// Identifier of a job.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct JobId {
    /// Job number.
    pub number: u64,
    /// Cluster name, if sbatch prints one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cluster: Option<String>,
}

impl JobId {
    /// Creates the identifier of a job on the default cluster.
    pub fn new(number: u64) -> Self {
        Self {
            number,
            cluster: None,
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// How a job's script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobExit {
    /// Exit code of the script.
    pub code: i32,
    /// The signal that ended the script, or 0.
    pub signal: i32,
}

/// A job, as Slurm reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobInfo {
    /// Job number.
    pub id: JobId,
    /// Name of the job.
    pub name: String,
    /// User of the job, if reported.
    pub user: Option<String>,
    /// State of the job.
    pub state: JobState,
    /// Slurm's reason why the job waits; `None` if it does not wait.
    pub reason: Option<String>,
    /// Nodes of the job, in Slurm's order.
    pub nodes: Vec<String>,
    /// Start time; for a waiting job, Slurm's current estimate.
    pub start: Option<jiff::Timestamp>,
    /// End time; for a running job, the time at which it must end.
    pub end: Option<jiff::Timestamp>,
    /// How the job's script ended, if it has ended and Slurm reports it.
    pub exit: Option<JobExit>,
    /// Number of times that the job was requeued, if Slurm reports it.
    pub restarts: Option<u32>,
    /// Time limit, seconds; `None` if there is none.
    pub time_limit_s: Option<f64>,
}

impl JobInfo {
    /// Returns the stage of the job.
    pub fn stage(&self) -> JobStage {
        self.state.stage()
    }
}

/// An answer of a Slurm tool that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer is not JSON, or is incomplete.
    #[error("its JSON cannot be read: {0}")]
    Json(String),
    /// The answer reports errors, so it may be incomplete.
    #[error("it reports: {0}")]
    Reported(String),
    /// A field is missing or has an unexpected form.
    #[error("{0}")]
    Field(String),
    /// A list of nodes cannot be parsed.
    #[error(transparent)]
    Nodes(#[from] NodeListError),
}

fn text<'a>(job: &'a Value, key: &str) -> Option<&'a str> {
    job.get(key)?.as_str().filter(|t| !t.is_empty())
}

/// Parses a number. Slurm writes it as a plain number or, since 23.02, as `{ "set": true, "infinite": false, "number": 5 }`. Returns `None` if the
/// number is not set, or infinite.
fn number(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::Object(fields) => {
            let is = |key: &str| fields.get(key).and_then(Value::as_bool);
            if is("set") == Some(false) || is("infinite") == Some(true) {
                return None;
            }
            fields.get("number")?.as_i64()
        }
        other => other.as_i64(),
    }
}

/// Parses a time in seconds since 1970. Returns `None` for 0, which means that the time is unknown.
fn moment(value: Option<&Value>) -> Option<jiff::Timestamp> {
    number(value)
        .filter(|s| *s > 0)
        .and_then(|s| jiff::Timestamp::from_second(s).ok())
}

/// Returns how a script ended. Up to Slurm 22.05 the field is a wait status. In later versions it contains the code, the signal, and whether the
/// script has ended.
fn exit_of(value: Option<&Value>) -> Option<JobExit> {
    match value? {
        Value::Object(fields)
            if fields.contains_key("return_code") || fields.contains_key("signal") =>
        {
            let code = number(fields.get("return_code"))?;
            let signal = fields.get("signal");
            let signal = number(signal.and_then(|s| s.get("id").or_else(|| s.get("signal_id"))))
                .unwrap_or(0);
            Some(JobExit {
                code: i32::try_from(code).ok()?,
                signal: i32::try_from(signal).ok()?,
            })
        }
        other => {
            let status = number(Some(other))?;
            Some(JobExit {
                code: i32::try_from(status >> 8 & 0xff).ok()?,
                signal: i32::try_from(status & 0x7f).ok()?,
            })
        }
    }
}

fn state_of(value: Option<&Value>) -> Option<JobState> {
    match value? {
        Value::String(word) => Some(JobState::read(word)),
        Value::Array(words) => Some(JobState::from_words(words.iter().filter_map(Value::as_str))),
        _ => None,
    }
}

/// Parses the output of `squeue --json`, of any version that has this option.
pub fn read_squeue_json(answer: &str) -> Result<Vec<JobInfo>, AnswerError> {
    let whole: Value =
        serde_json::from_str(answer).map_err(|e| AnswerError::Json(e.to_string()))?;
    if let Some(errors) = whole
        .get("errors")
        .and_then(Value::as_array)
        .filter(|e| !e.is_empty())
    {
        let one = |e: &Value| {
            text(e, "description")
                .or_else(|| text(e, "error"))
                .map_or_else(|| e.to_string(), str::to_owned)
        };
        return Err(AnswerError::Reported(
            errors.iter().map(one).collect::<Vec<_>>().join("; "),
        ));
    }
    let jobs = whole
        .get("jobs")
        .and_then(Value::as_array)
        .ok_or_else(|| AnswerError::Field("it has no list `jobs`".into()))?;
    jobs.iter().map(json_job).collect()
}

fn json_job(job: &Value) -> Result<JobInfo, AnswerError> {
    let id = number(job.get("job_id"))
        .and_then(|n| u64::try_from(n).ok())
        .ok_or_else(|| missing("job_id", None))?;
    let state = state_of(job.get("job_state")).ok_or_else(|| missing("job_state", Some(id)))?;
    let ended = matches!(state.stage(), JobStage::Ended(_));
    Ok(JobInfo {
        id: JobId::new(id),
        name: text(job, "name").unwrap_or_default().to_owned(),
        user: text(job, "user_name").map(str::to_owned),
        reason: text(job, "state_reason").and_then(reason),
        nodes: nodelist::expand(text(job, "nodes").unwrap_or_default())?,
        start: moment(job.get("start_time")),
        end: moment(job.get("end_time")),
        exit: exit_of(job.get("exit_code")).filter(|_| ended),
        restarts: number(job.get("restart_cnt")).and_then(|n| u32::try_from(n).ok()),
        time_limit_s: number(job.get("time_limit")).map(|minutes| minutes as f64 * 60.0),
        state,
    })
}

fn missing(field: &str, job: Option<u64>) -> AnswerError {
    let job = job
        .map(|id| format!("job {id}"))
        .unwrap_or_else(|| "a job".into());
    AnswerError::Field(format!("{job} has no `{field}` that can be read"))
}

fn reason(word: &str) -> Option<String> {
    (!matches!(word, "None" | "(null)" | "")).then(|| word.to_owned())
}

/// Format for `squeue -h -o`, whose output [`read_squeue_text`] parses. The name is last, because it may contain any character.
pub const SQUEUE_FORMAT: &str = "%A|%T|%N|%S|%e|%l|%r|%j";

/// Parses the output of `squeue -h -o` with [`SQUEUE_FORMAT`].
pub fn read_squeue_text(answer: &str, clock: &SlurmClock) -> Result<Vec<JobInfo>, AnswerError> {
    let line = |line: &str| -> Result<JobInfo, AnswerError> {
        let fields: Vec<&str> = line.splitn(8, '|').collect();
        let &[id, state, nodes, start, end, limit, why, name] = fields.as_slice() else {
            return Err(AnswerError::Field(format!(
                "`{line}` does not have the eight requested fields"
            )));
        };
        Ok(JobInfo {
            id: job_id(id)?,
            name: name.to_owned(),
            user: None,
            state: JobState::read(state),
            reason: reason(why),
            nodes: nodelist::expand(null(nodes))?,
            start: clock.read(start),
            end: clock.read(end),
            exit: None,
            restarts: None,
            time_limit_s: duration_s(limit),
        })
    };
    answer
        .lines()
        .filter(|l| !l.trim().is_empty())
        .map(line)
        .collect()
}

/// Format for `sacct -X -n --parsable2 -o`, whose output [`read_sacct`] parses.
pub const SACCT_FORMAT: &str = "JobIDRaw,State,NodeList,Start,End,Timelimit,ExitCode,JobName";

/// Format for `sacct -c`, which has fewer fields, for [`read_sacct`].
pub const SACCT_COMPLETION_FORMAT: &str =
    "JobID,State,NodeList,Start,End,ExitCode,ExitCode,JobName";

/// Parses the output of `sacct -n --parsable2 -o` with [`SACCT_FORMAT`] or [`SACCT_COMPLETION_FORMAT`].
pub fn read_sacct(answer: &str, clock: &SlurmClock) -> Result<Vec<JobInfo>, AnswerError> {
    let line = |line: &str| -> Result<JobInfo, AnswerError> {
        let fields: Vec<&str> = line.splitn(8, '|').collect();
        let &[id, state, nodes, start, end, limit, exit, name] = fields.as_slice() else {
            return Err(AnswerError::Field(format!(
                "`{line}` does not have the eight requested fields"
            )));
        };
        let state = JobState::read(state);
        Ok(JobInfo {
            id: job_id(id)?,
            name: name.to_owned(),
            user: None,
            reason: None,
            nodes: nodelist::expand(if nodes == "None assigned" {
                ""
            } else {
                null(nodes)
            })?,
            start: clock.read(start),
            end: clock.read(end),
            exit: matches!(state.stage(), JobStage::Ended(_))
                .then(|| exit_pair(exit))
                .flatten(),
            restarts: None,
            time_limit_s: duration_s(limit),
            state,
        })
    };
    // omit job steps (`7.batch`)
    let jobs = answer.lines().filter(|l| {
        !l.trim().is_empty() && !l.split('|').next().is_some_and(|id| id.contains('.'))
    });
    jobs.map(line).collect()
}

/// Parses the output of `scontrol show job -o`.
pub fn read_scontrol(answer: &str, clock: &SlurmClock) -> Result<Vec<JobInfo>, AnswerError> {
    let line = |line: &str| -> Result<JobInfo, AnswerError> {
        // values may contain spaces (a name, a command), so a field begins at a space that is followed by a word with `=`; the first field of each
        // name counts
        let field = |key: &str| -> Option<&str> {
            let start = if line.starts_with(key) && line[key.len()..].starts_with('=') {
                key.len() + 1
            } else {
                line.find(&format!(" {key}="))? + key.len() + 2
            };
            let value = &line[start..];
            let end = value
                .match_indices(' ')
                .map(|(at, _)| at)
                .find(|at| {
                    value[at + 1..]
                        .split(' ')
                        .next()
                        .is_some_and(|w| w.contains('='))
                })
                .unwrap_or(value.len());
            Some(value[..end].trim_end())
        };
        let id = job_id(field("JobId").unwrap_or_default())?;
        let state =
            JobState::read(field("JobState").ok_or_else(|| missing("JobState", Some(id.number)))?);
        Ok(JobInfo {
            name: field("JobName").unwrap_or_default().to_owned(),
            user: None,
            reason: field("Reason").and_then(reason),
            nodes: nodelist::expand(null(field("NodeList").unwrap_or_default()))?,
            start: field("StartTime").and_then(|t| clock.read(t)),
            end: field("EndTime").and_then(|t| clock.read(t)),
            exit: matches!(state.stage(), JobStage::Ended(_))
                .then(|| field("ExitCode").and_then(exit_pair))
                .flatten(),
            restarts: field("Restarts").and_then(|r| r.parse().ok()),
            time_limit_s: field("TimeLimit").and_then(duration_s),
            id,
            state,
        })
    };
    answer
        .lines()
        .filter(|l| l.contains("JobId="))
        .map(line)
        .collect()
}

fn null(nodes: &str) -> &str {
    if matches!(nodes.trim(), "(null)" | "None" | "n/a") {
        ""
    } else {
        nodes
    }
}

fn job_id(text: &str) -> Result<JobId, AnswerError> {
    // the job number in `8_1` and `9+0` is the first number
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits
        .parse()
        .map(JobId::new)
        .map_err(|_| AnswerError::Field(format!("`{text}` is not a job number")))
}

/// Parses an exit status: `3:0` is code 3 and no signal.
fn exit_pair(text: &str) -> Option<JobExit> {
    let (code, signal) = text.split_once(':')?;
    Some(JobExit {
        code: code.trim().parse().ok()?,
        signal: signal.trim().parse().ok()?,
    })
}

/// Parses a duration to seconds: `5:00`, `1:00:00`, `2-03:00:00`. Returns `None` for `INFINITE` and the like.
pub(super) fn duration_s(text: &str) -> Option<f64> {
    let (days, rest) = text
        .trim()
        .split_once('-')
        .map_or((None, text.trim()), |(d, r)| (Some(d), r));
    let numbers: Vec<u64> = rest
        .split(':')
        .map(|n| n.parse().ok())
        .collect::<Option<_>>()?;
    let [hours, minutes, seconds] = match (days, numbers.as_slice()) {
        (None, &[minutes]) => [0, minutes, 0],
        (None, &[minutes, seconds]) => [0, minutes, seconds],
        (_, &[hours, minutes, seconds]) => [hours, minutes, seconds],
        (Some(_), &[hours]) => [hours, 0, 0],
        (Some(_), &[hours, minutes]) => [hours, minutes, 0],
        _ => return None,
    };
    let days: u64 = days.map_or(Some(0), |d| d.parse().ok())?;
    // convert before multiplying: parsed numbers can be of any size
    Some(days as f64 * 86_400.0 + hours as f64 * 3600.0 + minutes as f64 * 60.0 + seconds as f64)
}

#[cfg(test)]
mod tests {
    use super::duration_s;
    use proptest::prelude::*;

    #[test]
    fn a_duration_is_read_however_many_parts_it_has() {
        let cases = [
            ("5", 300.0),
            ("5:30", 330.0),
            ("1:00:00", 3600.0),
            ("2-3", 183_600.0),
            ("2-03:00", 183_600.0),
            ("2-03:00:01", 183_601.0),
        ];
        for (text, seconds) in cases {
            assert_eq!(duration_s(text), Some(seconds), "{text}");
        }
        assert_eq!(duration_s("INFINITE"), None);
    }

    proptest! {
        #[test]
        fn no_number_is_too_large(text in "([0-9]{1,22}-)?[0-9]{1,22}(:[0-9]{1,22}){0,2}") {
            prop_assert!(duration_s(&text).is_none_or(|seconds| seconds >= 0.0));
        }
    }
}
