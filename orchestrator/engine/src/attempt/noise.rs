//! Other activity on the nodes during a run. It is read just before the run's start and just after its end, never in between.

use super::operations::OperationsCounted;
use crate::run::{AllocatedNodes, Node};
use cvc_probe::sentinel::{Conditions, NodeActivity, NodeSettings};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, time::Duration};

/// Time limit of the query. A node that does not answer gets no records, and the run continues.
const LIMIT: Duration = Duration::from_secs(5);
/// Minimum duration for which shares of processor time are computed: the kernel counts in hundredths of a second.
const SHORTEST_S: f64 = 0.5;

/// The conditions of a run's nodes at one time, by node name.
pub(super) type Moment = BTreeMap<String, Conditions>;

/// The conditions of a run's nodes just before the start of its program, or of its restart, and just after its end.
#[derive(Debug, Default)]
pub(super) struct Noise {
    pub(super) before: Moment,
    pub(super) after: Moment,
    /// Metadata operations of the program, if they are counted.
    pub(super) operations: Option<OperationsCounted>,
}

/// Queries the conditions of the nodes on which ranks run.
pub(super) async fn conditions(used: &AllocatedNodes) -> Moment {
    let mut names: Vec<&str> = used.ranks.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let answers = used.crew.conditions(&names, LIMIT).await;
    answers
        .into_iter()
        .filter_map(|(name, answer)| Some((name, answer.ok()?)))
        .collect()
}

/// The activity of one node during a run.
#[derive(Debug, PartialEq)]
pub(super) struct Disturbance {
    /// Processor time that the hypervisor gave to other virtual machines, as a share of the total.
    pub(super) steal: Option<f64>,
    /// Processor time of processes outside the run, as a share of the total.
    pub(super) other_cpu: Option<f64>,
    /// Time in which a task waited for a processor, a disk, or memory, each as a share of the elapsed time.
    pub(super) pressure: [Option<f64>; 3],
    pub(super) swapped_bytes: Option<f64>,
}

impl Disturbance {
    /// Returns the activity between two readings; `None` if the node was restarted between them. `own_cpu_s` is the processor time of the run on this
    /// node, seconds, if known.
    pub(super) fn between(
        before: &Conditions,
        after: &Conditions,
        own_cpu_s: Option<f64>,
    ) -> Option<Self> {
        let (old, new) = (&before.activity, &after.activity);
        if old.boot_id != new.boot_id {
            return None;
        }
        let passed = |of: fn(&NodeActivity) -> Option<f64>| Some((of(new)? - of(old)?).max(0.0));
        let elapsed_s = passed(|a| a.uptime_s).filter(|elapsed_s| *elapsed_s > 0.0);
        let share = |spent_s: Option<f64>| Some((spent_s? / elapsed_s?).min(1.0));
        let processors = after.settings.processors.map(f64::from);
        let of_processors = |spent_s: Option<f64>| {
            Some((spent_s? / (elapsed_s.filter(|e| *e >= SHORTEST_S)? * processors?)).min(1.0))
        };
        Some(Self {
            steal: of_processors(passed(|a| a.steal_s)),
            other_cpu: of_processors(
                passed(|a| a.busy_s)
                    .zip(own_cpu_s)
                    .map(|(busy_s, own_s)| (busy_s - own_s).max(0.0)),
            ),
            pressure: [
                passed(|a| a.cpu_pressure_s),
                passed(|a| a.io_pressure_s),
                passed(|a| a.memory_pressure_s),
            ]
            .map(share),
            swapped_bytes: new
                .swapped_bytes
                .zip(old.swapped_bytes)
                .map(|(new, old)| new.saturating_sub(old) as f64),
        })
    }
}

/// Returns the nodes' settings by name. A value that all nodes share is listed once; others are listed in the order of the nodes, separated by
/// blanks.
pub(super) fn settings(noise: &Noise, ranks: &[Node]) -> Option<Value> {
    let mut all: Vec<Map<String, Value>> = Vec::new();
    for node in ranks {
        let settings: &NodeSettings = &noise.before.get(&node.name)?.settings;
        let Ok(Value::Object(settings)) = serde_json::to_value(settings) else {
            return None;
        };
        all.push(settings);
    }
    let mut found = Map::new();
    for key in all.first()?.keys() {
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => "unknown".to_owned(),
            Some(other) => other.to_string(),
        };
        let mut values: Vec<String> = all.iter().map(|settings| text(settings.get(key))).collect();
        if values.iter().all(|value| value == "unknown") {
            continue;
        }
        if values.iter().all(|value| *value == values[0]) {
            values.truncate(1);
        }
        found.insert(key.clone(), json!(values.join(" ")));
    }
    Some(Value::Object(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(uptime_s: f64, busy_s: f64) -> Conditions {
        Conditions {
            settings: NodeSettings {
                processors: Some(4),
                clock_source: Some("tsc".into()),
                ..NodeSettings::default()
            },
            activity: NodeActivity {
                uptime_s: Some(uptime_s),
                boot_id: Some("boot".into()),
                busy_s: Some(busy_s),
                steal_s: Some(0.0),
                cpu_pressure_s: Some(0.0),
                swapped_bytes: Some(4096),
                ..NodeActivity::default()
            },
        }
    }

    #[test]
    fn shares_are_of_all_processors_and_of_the_time_that_passed() {
        let before = at(100.0, 50.0);
        let mut after = at(110.0, 75.0);
        after.activity.steal_s = Some(2.0);
        after.activity.cpu_pressure_s = Some(2.5);
        after.activity.swapped_bytes = Some(8192);
        let found = Disturbance::between(&before, &after, Some(21.0)).expect("found");
        let expected = Disturbance {
            steal: Some(0.05),
            other_cpu: Some(0.1),
            pressure: [Some(0.25), None, None],
            swapped_bytes: Some(4096.0),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn unknown_facts_are_missing() {
        let before = at(100.0, 50.0);
        let short = Disturbance::between(&before, &at(100.1, 50.1), Some(0.1)).expect("found");
        assert_eq!(
            (short.steal, short.other_cpu),
            (None, None),
            "too short for hundredths of a second"
        );
        let elsewhere = Disturbance::between(&before, &at(110.0, 60.0), None).expect("found");
        assert_eq!(
            (elsewhere.steal, elsewhere.other_cpu),
            (Some(0.0), None),
            "the run's own time is unknown"
        );
        let mut restarted = at(1.0, 1.0);
        restarted.activity.boot_id = Some("another".into());
        assert_eq!(Disturbance::between(&before, &restarted, None), None);
    }

    #[test]
    fn equal_settings_are_reported_once() {
        let node = |name: &str| Node {
            name: name.into(),
            among: name.into(),
            hostname: name.into(),
        };
        let mut other = at(0.0, 0.0);
        other.settings.clock_source = Some("hpet".into());
        let noise = Noise {
            before: [("a".to_owned(), at(0.0, 0.0)), ("b".to_owned(), other)].into(),
            after: Moment::new(),
            operations: None,
        };
        let reported = settings(&noise, &[node("a"), node("b")]).expect("settings");
        assert_eq!(
            reported,
            json!({ "clock_source": "tsc hpet", "processors": "4" })
        );
        assert_eq!(
            settings(&noise, &[node("a"), node("c")]),
            None,
            "a node that did not answer"
        );
    }
}
