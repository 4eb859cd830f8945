//! Chooses the environment whose observations are used for training.

use super::{environment::Environment, observation::Observation};
use std::{cmp::Reverse, collections::BTreeMap};

/// Keeps the training observations of the environment with the most observations; of environments with equally many, the newest. Observations without
/// environment data are kept, and so are held-out observations. Also returns notes that name the removed observations and the reason.
pub fn keep_one_environment(
    observations: Vec<Observation>,
    is_training: impl Fn(&Observation) -> bool,
) -> (Vec<Observation>, Vec<String>) {
    let mut labels: BTreeMap<Environment, Vec<String>> = BTreeMap::new();
    for o in observations.iter().filter(|o| is_training(o)) {
        if let Some(environment) = &o.environment {
            labels
                .entry(environment.clone())
                .or_default()
                .push(o.label.clone());
        }
    }
    let best = labels.iter().min_by_key(|(e, all)| {
        (
            Reverse(all.len()),
            Reverse(e.version()),
            Reverse(e.kernel),
            Reverse(e.zones),
        )
    });
    let Some((kept, used)) = best.map(|(kept, all)| (kept.clone(), all.len())) else {
        return (observations, Vec::new());
    };
    let note = |(environment, all): (&Environment, &Vec<String>)| {
        let first = all
            .iter()
            .take(NAMED)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        let more = if all.len() > NAMED {
            format!(" and {} more", all.len() - NAMED)
        } else {
            String::new()
        };
        format!(
            "{} observed with {environment} are left out ({first}{more}): the models rest on the {used} observed with {kept}, because images of \
             the two may differ; `cvc predict --train \"{}\"` uses these instead",
            all.len(),
            environment.filter(labels.keys().any(|other| other.zones != kept.zones))
        )
    };
    let notes = labels
        .iter()
        .filter(|(environment, _)| **environment != kept)
        .map(note)
        .collect();
    let stays = |o: &Observation| {
        !is_training(o)
            || o.environment
                .as_ref()
                .is_none_or(|environment| *environment == kept)
    };
    (observations.into_iter().filter(stays).collect(), notes)
}

/// Maximum number of labels in a note.
const NAMED: usize = 3;

/// Returns the observations of each environment; observations without environment data are in every group.
pub fn by_environment(observations: Vec<Observation>) -> Vec<Vec<Observation>> {
    let mut environments: Vec<Environment> = observations
        .iter()
        .filter_map(|o| o.environment.clone())
        .collect();
    environments.sort();
    environments.dedup();
    if environments.len() < 2 {
        return vec![observations];
    }
    let of = |environment: &Environment| {
        observations
            .iter()
            .filter(|o| o.environment.as_ref().is_none_or(|e| e == environment))
            .cloned()
            .collect()
    };
    environments.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8Path;

    #[test]
    fn models_rest_on_one_environment_and_the_rest_is_named() {
        let table = "app,class,processes,mpi,dmtcp,kernel,lb_mib,app_s\nnpb-bt,A,4,openmpi,4.2.0,6.1.0,1,\nnpb-bt,A,9,openmpi,4.2.0,6.1.0,1,\n\
                     npb-bt,A,4,openmpi,9.1,6.8.0,2,\nnpb-bt,A,9,openmpi,10.0,6.8.0,2,\nnpb-bt,A,9,openmpi,,,,7\n";
        let all = || super::super::csv::parse(Utf8Path::new("t.csv"), table).expect("observations");
        let ids = |of: &[Observation]| of.iter().map(|o| o.id.clone()).collect::<Vec<_>>();
        let (kept, notes) = keep_one_environment(all(), |_| true);
        assert_eq!(ids(&kept), ["t.csv:2", "t.csv:3", "t.csv:6"]);
        assert_eq!(notes.len(), 2);
        let text = notes.join("\n");
        for expected in [
            "DMTCP 9.1 on Linux 6.7 or newer",
            "the 2 observed with DMTCP 4.2.0 on Linux before 6.7",
            "--train \"dmtcp=10.0 kernel=from-6.7\"",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        // held-out observations are kept; with equal counts the newest environment is kept, by version number
        let (kept, _) = keep_one_environment(all(), |o| o.id != "t.csv:2");
        assert_eq!(ids(&kept), ["t.csv:2", "t.csv:5", "t.csv:6"]);
        let two = "app,class,processes,mpi,dmtcp,kernel,lb_mib\nnpb-bt,A,4,openmpi,4.1.0,6.1.0,1\nnpb-bt,A,9,openmpi,4.2.0,6.1.0,1\n";
        let two = super::super::csv::parse(Utf8Path::new("t.csv"), two).expect("observations");
        assert_eq!(ids(&keep_one_environment(two, |_| true).0), ["t.csv:3"]);
        let groups: Vec<_> = by_environment(all())
            .iter()
            .map(|group| ids(group))
            .collect();
        assert_eq!(
            groups,
            [
                vec!["t.csv:5", "t.csv:6"],
                vec!["t.csv:2", "t.csv:3", "t.csv:6"],
                vec!["t.csv:4", "t.csv:6"]
            ]
        );
        let one = all().into_iter().take(2).collect::<Vec<_>>();
        assert_eq!(
            keep_one_environment(one.clone(), |_| true),
            (one, Vec::new())
        );
    }
}
