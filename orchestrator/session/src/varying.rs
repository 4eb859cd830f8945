//! Describes points briefly, by the factors that differ between them.

use cvc_core::point::Point;

/// The factors that differ between points.
#[derive(Clone, Debug, Default)]
pub struct Varying(Vec<String>);

impl Varying {
    /// Returns the factors that differ between these points.
    pub fn of<'a>(points: impl Iterator<Item = &'a Point> + Clone) -> Self {
        let user = points
            .clone()
            .flat_map(|p| p.user.keys().map(String::as_str));
        let mut names: Vec<&str> = Point::FACTORS
            .iter()
            .copied()
            // a mapping includes these factors
            .filter(|f| !matches!(*f, "processes" | "threads"))
            .chain(user)
            .collect();
        names.dedup();
        let varies = |name: &str| {
            // a factor that does not apply to some points follows from another factor
            let mut values = points.clone().filter_map(|p| p.factor(name));
            let first = values.next();
            values.any(|v| Some(v) != first)
        };
        let mut kept: Vec<String> = Vec::new();
        for name in names {
            if varies(name) && !kept.iter().any(|k| k == name) {
                kept.push(name.to_owned());
            }
        }
        if kept.is_empty() {
            kept.push("app".into());
        }
        Self(kept)
    }

    /// Returns the names of the factors.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Returns a short description of a point.
    pub fn show(&self, point: &Point) -> String {
        let values: Vec<String> = self
            .0
            .iter()
            .filter_map(|name| {
                let value = point.factor(name)?;
                // a number or a flag needs the name of its factor
                let speaks = matches!(
                    name.as_str(),
                    "site" | "app" | "class" | "mapping" | "mpi" | "checkpointer" | "moment"
                );
                Some(if speaks {
                    value
                } else {
                    format!("{name}={value}")
                })
            })
            .collect();
        values.join(" ")
    }
}
