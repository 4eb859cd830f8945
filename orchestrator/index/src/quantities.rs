//! The SQL statement that computes quantities from records, generated from the registry of measured quantities.

use cvc_core::measured::{Derived, How, MEASURED};
use std::collections::BTreeMap;

/// The quantities that are computed from several records. The registry contains their names and meanings.
const COMPUTED: &str = "
    SELECT run, 'shared_with_stacks_bytes' AS quantity, unit, ckpt, sum(value) / count(DISTINCT rank) AS value FROM of_run
        WHERE name = 'zone_bytes' AND rank IS NOT NULL AND rule = 'owner' AND zone IN ('SHMEM', 'REST') GROUP BY run, ckpt
    UNION ALL
    SELECT run, 'cpu_s', unit, ckpt, sum(value) FROM of_run WHERE name IN ('cpu_user_s', 'cpu_system_s') GROUP BY run, ckpt HAVING count(*) = 2
    UNION ALL
    -- the nodes of a run are paid while they take a checkpoint
    SELECT l.run, 'ckpt_cost_usd', 'USD', l.ckpt,
           l.value * json_extract(c.labels, '$.nodes') * json_extract(c.labels, '$.usd_per_node_hour') / 3600
        FROM of_run l JOIN of_run c ON c.run = l.run AND c.name = 'cost_usd' WHERE l.name = 'ckpt_latency_s'
    UNION ALL
    SELECT l.run, 'restart_bandwidth_mib_per_s', 'MiB/s', l.ckpt, b.value / 1048576.0 / l.value
        FROM of_run l JOIN of_run b ON b.run = l.run AND b.name = 'restart_bytes'
            AND json_extract(b.labels, '$.restart') = json_extract(l.labels, '$.restart')
        WHERE l.name = 'restart_latency_s' AND l.value > 0";

/// Labels that are columns of `records`.
const COLUMNS: [&str; 5] = ["ckpt", "rank", "zone", "kind", "rule"];

/// Returns the SQL statement that adds the quantities of the runs whose records come after row `?1`, in the order of the plan.
pub fn statement() -> String {
    let mut groups: BTreeMap<(How, &[&str]), Vec<&str>> = BTreeMap::new();
    let mut not_plain = Vec::new();
    for row in MEASURED {
        let Some(derived) = row.derived else { continue };
        let is_plain = matches!(derived, [of] if of.how == How::Mean && of.by.is_empty());
        if !is_plain {
            not_plain.push(row.name);
            for of in derived {
                groups.entry((of.how, of.by)).or_default().push(row.name);
            }
        }
    }
    let mut selects: Vec<String> = groups
        .iter()
        .map(|((how, by), names)| select(*how, by, &format!("name IN ({})", quoted(names))))
        .collect();
    // the mean of figures of merit is also taken
    let others = format!("name NOT IN ({})", quoted(&not_plain));
    selects.push(select(How::Mean, &[], &others));
    format!(
        "INSERT INTO quantities
         WITH of_run AS MATERIALIZED (SELECT * FROM records WHERE rowid > ?1),
         per_checkpoint AS ({COMPUTED} UNION ALL {})
         SELECT run, quantity, min(unit) AS unit, avg(value) AS value FROM per_checkpoint WHERE value IS NOT NULL
         GROUP BY run, quantity ORDER BY (SELECT seq FROM runs WHERE id = run), quantity",
        selects.join(" UNION ALL ")
    )
}

/// Returns the part of the statement that handles the records with these names.
fn select(how: How, by: &[&str], names: &str) -> String {
    let (value, only) = match how {
        How::Mean => ("avg(value)", ""),
        How::Sum => ("sum(value)", ""),
        How::Max => ("max(value)", ""),
        How::ImageMean => ("avg(value)", " AND rank IS NOT NULL"),
        How::RankMean => ("sum(value) / count(DISTINCT rank)", " AND rank IS NOT NULL"),
        How::SincePrevious => (
            "avg(value)",
            " AND CAST(json_extract(labels, '$.since') AS INTEGER) = CAST(ckpt AS INTEGER) - 1",
        ),
    };
    let suffix = Derived::suffix(how);
    let mut quantity = if suffix.is_empty() {
        "name".to_owned()
    } else {
        format!("name || '{suffix}'")
    };
    let mut needed = String::new();
    let mut group = "run, name, ckpt".to_owned();
    for label in by {
        let column = if COLUMNS.contains(label) {
            (*label).to_owned()
        } else {
            format!("json_extract(labels, '$.{label}')")
        };
        if *label == "rule" {
            quantity += " || coalesce('_' || rule, '')";
        } else {
            quantity += &format!(" || '_' || {column}");
            needed += &format!(" AND {column} IS NOT NULL");
        }
        group += &format!(", {column}");
    }
    format!(
        "SELECT run, {quantity}, unit, ckpt, {value} FROM of_run WHERE {names}{only}{needed} GROUP BY {group}"
    )
}

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_computed_quantity_is_in_the_registry() {
        let computed = |name: &str| {
            let row = MEASURED.iter().find(|row| row.name == name);
            row.is_some_and(|row| row.derived.is_none())
        };
        let names: Vec<&str> = COMPUTED
            .split("SELECT ")
            .filter_map(|select| select.split('\'').nth(1))
            .collect();
        assert_eq!(
            names,
            [
                "shared_with_stacks_bytes",
                "cpu_s",
                "ckpt_cost_usd",
                "restart_bandwidth_mib_per_s"
            ]
        );
        assert!(names.into_iter().all(computed));
    }

    /// Regenerate the page with `CVC_BLESS=1 cargo test -p cvc-index --lib quantities`.
    #[test]
    fn the_page_on_data_has_the_registry() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let head = "Quantity (unit; labels of its records): meaning\n\n";
        let (before, rest) = page.split_once(head).expect("the list");
        let after = rest.find("\n\n").map_or("", |end| &rest[end + 1..]);
        let rows: String = MEASURED.iter().map(documented).collect();
        let wanted = format!("{before}{head}{rows}{after}");
        if std::env::var_os("CVC_BLESS").is_some() {
            std::fs::write(path, &wanted).expect("written");
        } else {
            assert!(
                page == wanted,
                "the quantities in {path} are not current: run with CVC_BLESS=1"
            );
        }
    }

    /// Returns the line of the page for a quantity. A mean over checkpoints with the same name as its records needs no note.
    fn documented(row: &cvc_core::measured::Measured) -> String {
        let quantity = |of: &Derived| {
            let labels: String = of
                .by
                .iter()
                .map(|label| format!("_{}", label.to_uppercase()))
                .collect();
            let how = match of.how {
                How::Mean => "mean",
                How::SincePrevious => "mean since the previous checkpoint",
                How::Sum => "sum",
                How::Max => "maximum",
                How::ImageMean => "mean over rank images",
                How::RankMean => "mean over ranks",
            };
            match (Derived::suffix(of.how), labels.as_str()) {
                ("", "") => how.to_owned(),
                (suffix, labels) => format!("`{}{suffix}{labels}`: {how}", row.name),
            }
        };
        let notes = match row.derived {
            None => "computed".to_owned(),
            Some([]) => "only in `records`".to_owned(),
            Some([of]) if of.how == How::Mean && of.by.is_empty() => String::new(),
            Some(derived) => {
                let derived: Vec<String> = derived.iter().map(quantity).collect();
                derived.join("; ")
            }
        };
        let notes = if notes.is_empty() {
            notes
        } else {
            format!(" *({notes})*")
        };
        let unit = serde_json::to_value(row.unit).expect("a unit");
        let unit = unit.as_str().expect("a word");
        let labels = if row.labels.is_empty() {
            String::new()
        } else {
            format!("; {}", row.labels)
        };
        format!(
            "- `{}` ({unit}{labels}): {}{notes}\n",
            row.name,
            row.meaning.trim()
        )
    }
}
