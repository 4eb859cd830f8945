//! Makes labels of observations distinct, so that a footnote does not repeat the same label.

use super::observation::Observation;
use std::collections::BTreeMap;

/// Adds to equal labels the factors in which their observations differ, such as `storage=scratch`. `factors` are, for each observation, the factors
/// that its setting does not contain, in the same order.
pub(super) fn add_differing(observations: &mut [Observation], factors: &[Vec<(String, String)>]) {
    for same in groups_of_equal(observations)
        .into_values()
        .filter(|same| same.len() > 1)
    {
        let mut names: Vec<&String> = Vec::new();
        for (name, _) in same.iter().flat_map(|i| &factors[*i]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let value = |i: usize, name: &str| {
            factors[i]
                .iter()
                .find(|(of, _)| of == name)
                .map(|(_, value)| value.as_str())
        };
        for name in names {
            if same.iter().any(|i| value(*i, name) != value(same[0], name)) {
                for i in &same {
                    let value = value(*i, name).unwrap_or("-");
                    observations[*i].label.push_str(&format!(" {name}={value}"));
                }
            }
        }
    }
}

/// Adds the origin to equal labels of different campaigns or tables.
pub fn add_differing_origins(observations: &mut [Observation]) {
    for same in groups_of_equal(observations).into_values() {
        if same
            .iter()
            .any(|i| observations[*i].origin != observations[same[0]].origin)
        {
            for i in same {
                let of = &mut observations[i];
                of.label.push_str(&format!(" of {}", of.origin));
            }
        }
    }
}

/// Returns the indices of the observations with each label.
fn groups_of_equal(observations: &[Observation]) -> BTreeMap<String, Vec<usize>> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, o) in observations.iter().enumerate() {
        groups.entry(o.label.clone()).or_default().push(i);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8Path;

    fn observations(file: &str, table: &str) -> Vec<Observation> {
        super::super::csv::parse(Utf8Path::new(file), table).expect("observations")
    }

    fn labels(observations: &[Observation]) -> Vec<&str> {
        observations.iter().map(|o| o.label.as_str()).collect()
    }

    #[test]
    fn labels_contain_all_differences_of_runs() {
        let table = "app,class,processes,mpi,compression,aggregators,cb_buffer,lb_mib\nnpb-bt,A,4,openmpi,none,,,1\nnpb-bt,A,4,openmpi,gzip,,,1\n\
                     npb-bt,A,4,openmpi,none,2,,1\nnpb-bt,A,4,openmpi,none,2,4MiB,1\nnpb-bt,A,4,openmpi,none,,,2\nnpb-bt,A,9,openmpi,none,,,2\n";
        let mut all = observations("a.csv", table);
        let factor = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut factors =
            vec![vec![factor("site", "here"), factor("storage", "scratch")]; all.len()];
        factors[4] = vec![
            factor("site", "here"),
            factor("storage", "nfs"),
            factor("steps", "10"),
        ];
        add_differing(&mut all, &factors);
        let of = "npb-bt.A 1Nx4P openmpi";
        let expected = [
            format!("{of} storage=scratch steps=-"),
            format!("{of} gzip"),
            format!("{of} aggregators=2"),
            format!("{of} aggregators=2 cb_buffer=4MiB"),
            format!("{of} storage=nfs steps=10"),
            "npb-bt.A 1Nx9P openmpi".to_owned(),
        ];
        assert_eq!(labels(&all), expected);
        let table = "app,class,processes,mpi,lb_mib\nnpb-bt,A,9,openmpi,1\n";
        all.extend(observations("b.csv", table));
        add_differing_origins(&mut all);
        assert_eq!(
            labels(&all)[5..],
            [
                "npb-bt.A 1Nx9P openmpi of a.csv",
                "npb-bt.A 1Nx9P openmpi of b.csv"
            ]
        );
        assert_eq!(labels(&all)[1], format!("{of} gzip"));
    }
}
