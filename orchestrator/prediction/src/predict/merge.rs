//! Merges rows of a table that have the same setting.

use super::observation::Observation;
use cvc_core::quantity::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// Merges rows that repeat a quantity for the same setting and origin into one observation with their mean. Also returns notes about each merging.
///
/// Rows with different quantities remain unchanged, because they do not contradict each other.
pub fn merge_repeated(rows: Vec<Observation>) -> (Vec<Observation>, Vec<String>) {
    let mut kept: Vec<Vec<Observation>> = Vec::new();
    for row in rows {
        let again = |group: &&mut Vec<Observation>| {
            group[0].origin == row.origin
                && group[0].environment == row.environment
                && group[0].setting.label() == row.setting.label()
                && group
                    .iter()
                    .any(|o| o.quantities.keys().any(|q| row.quantities.contains_key(q)))
        };
        match kept.iter_mut().find(again) {
            Some(group) => group.push(row),
            None => kept.push(vec![row]),
        }
    }
    let mut warnings = Vec::new();
    let merged = kept
        .into_iter()
        .map(|group| {
            if group.len() > 1 {
                let ids: Vec<&str> = group.iter().map(|o| o.id.as_str()).collect();
                let same = group.iter().all(|o| o.quantities == group[0].quantities);
                let what = if same {
                    "the same numbers, which count once"
                } else {
                    "different numbers, whose mean is used"
                };
                warnings.push(format!(
                    "{} describe {} with {what}",
                    ids.join(" and "),
                    group[0].label
                ));
            }
            mean(group)
        })
        .collect();
    (merged, warnings)
}

fn mean(group: Vec<Observation>) -> Observation {
    let all: BTreeSet<Quantity> = group
        .iter()
        .flat_map(|o| o.quantities.keys().copied())
        .collect();
    let quantities: BTreeMap<Quantity, f64> = all
        .into_iter()
        .map(|q| {
            let values: Vec<f64> = group.iter().filter_map(|o| o.value(q)).collect();
            // equal values remain unchanged to the last digit
            let same = values.iter().all(|v| *v == values[0]);
            (
                q,
                if same {
                    values[0]
                } else {
                    values.iter().sum::<f64>() / values.len() as f64
                },
            )
        })
        .collect();
    let mut group = group;
    Observation {
        quantities,
        ..group.swap_remove(0)
    }
}

#[cfg(test)]
mod tests {
    use super::merge_repeated;
    use crate::predict::csv::parse;
    use camino::Utf8Path;
    use cvc_core::quantity::Quantity;

    #[test]
    fn repeated_rows_count_once_and_contradictions_are_averaged() {
        let table = "app,class,processes,mpi,lb_mib,app_s\nnpb-bt,A,4,openmpi,1,\nnpb-bt,A,4,openmpi,3,\nnpb-bt,A,9,openmpi,2,\n\
                     npb-bt,A,9,openmpi,2,\nnpb-bt,A,9,openmpi,,7\n";
        let (rows, warnings) = merge_repeated(parse(Utf8Path::new("t.csv"), table).expect("rows"));
        let values: Vec<_> = rows
            .iter()
            .map(|o| (o.id.as_str(), o.value(Quantity::Lb), o.value(Quantity::App)))
            .collect();
        assert_eq!(
            values,
            [
                ("t.csv:2", Some(2.0), None),
                ("t.csv:4", Some(2.0), None),
                ("t.csv:6", None, Some(7.0))
            ]
        );
        assert_eq!(warnings.len(), 2);
        assert!(
            warnings[0].starts_with("t.csv:2 and t.csv:3 describe") && warnings[0].contains("mean"),
            "{warnings:?}"
        );
        assert!(warnings[1].contains("count once"), "{warnings:?}");
    }
}
