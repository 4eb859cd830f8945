//! Whether a campaign can run, and what keeps points of it from running.

use crate::{display::Varying, text::paragraph};
use camino::Utf8Path;
use cvc_core::campaign::{SiteKind, Spec};
use cvc_core::plan::Plan;
use cvc_core::units::counted;
use cvc_engine::attempt::ReadySite;
use indexmap::IndexMap;
use serde::Serialize;
use std::io::Write;

/// Maximum number of points that are named below what concerns them all.
const NAMED: usize = 4;

/// Whether a campaign can run.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    /// Whether every point of the sites on this machine can run.
    can_run: bool,
    /// Number of points.
    points: usize,
    /// Number of those that cannot run.
    points_that_cannot_run: usize,
    /// Number of points of other sites, which are checked once their sites are open.
    points_elsewhere: usize,
    /// What is in the way.
    obstacles: Vec<Obstacle>,
}

/// Something that is in the way of points.
#[derive(Debug, Serialize)]
struct Obstacle {
    what: String,
    hint: String,
    /// The points, by the factors that tell them apart.
    points: Vec<String>,
}

impl Verdict {
    /// Judges a campaign by what its sites on this machine have.
    pub(super) fn of(plan: &Plan, spec: &Spec, sites: &IndexMap<String, ReadySite>) -> Self {
        let varying = Varying::of(plan.points.iter().map(|p| &p.point));
        let mut found: IndexMap<(String, String), Vec<String>> = IndexMap::new();
        let mut stuck = 0;
        for planned in &plan.points {
            let obstacles = sites
                .get(&planned.point.site)
                .map_or(Vec::new(), |site| site.obstacles(&planned.point));
            stuck += usize::from(!obstacles.is_empty());
            for missing in obstacles {
                found
                    .entry((missing.what, missing.hint))
                    .or_default()
                    .push(varying.show(&planned.point));
            }
        }
        let is_local = |site: &str| {
            spec.sites
                .get(site)
                .is_some_and(|s| s.kind == SiteKind::Local)
        };
        Self {
            can_run: stuck == 0 && !plan.points.is_empty(),
            points: plan.points.len(),
            points_that_cannot_run: stuck,
            points_elsewhere: plan
                .points
                .iter()
                .filter(|p| !is_local(&p.point.site))
                .count(),
            obstacles: found
                .into_iter()
                .map(|((what, hint), points)| Obstacle { what, hint, points })
                .collect(),
        }
    }

    /// Whether every point that could be checked can run, and there are points.
    pub(super) fn can_run(&self) -> bool {
        self.can_run
    }

    /// Shows it: what is in the way, each with its remedy.
    pub(super) fn show(
        &self,
        out: &mut impl Write,
        file: &Utf8Path,
        campaign: &str,
    ) -> std::io::Result<()> {
        let (all, stuck) = (counted(self.points, "point"), self.points_that_cannot_run);
        let here = self.points - self.points_elsewhere;
        let head = if self.points == 0 {
            format!(
                "{file}: nothing can run: every point of campaign {campaign} is excluded; `cvc plan {file}` shows why"
            )
        } else if stuck > 0 {
            format!("{file}: {stuck} of {all} of campaign {campaign} cannot run here")
        } else if here == 0 {
            format!(
                "{file}: the {all} of campaign {campaign} are checked once their sites are open; see the findings below"
            )
        } else if self.points_elsewhere > 0 {
            format!(
                "{file}: {here} of {all} of campaign {campaign} can run here; the others are checked once their sites are open"
            )
        } else {
            format!(
                "{file}: {} {all} of campaign {campaign} can run here",
                if self.points == 1 { "the" } else { "all" }
            )
        };
        writeln!(out, "{}", paragraph("", &head))?;
        for Obstacle { what, hint, points } in &self.obstacles {
            let of = if points.len() == self.points && self.points > 1 {
                "all points".to_owned()
            } else {
                counted(points.len(), "point")
            };
            writeln!(out, "\n{}", paragraph("  ", &format!("{of}: {what}")))?;
            if points.len() < self.points {
                let more = if points.len() > NAMED {
                    format!("; and {} more", points.len() - NAMED)
                } else {
                    String::new()
                };
                let named: Vec<&str> = points.iter().take(NAMED).map(String::as_str).collect();
                writeln!(
                    out,
                    "{}",
                    paragraph("    ", &format!("points: {}{more}", named.join("; ")))
                )?;
            }
            writeln!(out, "{}", paragraph("    ", &format!("hint: {hint}")))?;
        }
        Ok(())
    }
}
