//! Whether a campaign can run, and what prevents points from running.

use crate::{display::Varying, text::paragraph};
use camino::Utf8Path;
use cvc_core::campaign::{SiteKind, Spec};
use cvc_core::plan::Plan;
use cvc_core::units::counted;
use cvc_engine::attempt::ReadySite;
use indexmap::IndexMap;
use serde::Serialize;
use std::io::Write;

/// Maximum number of points named below an obstacle that they share.
const NAMED: usize = 4;

/// Whether a campaign can run, and the obstacles.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    /// Whether every point on this machine's sites can run.
    can_run: bool,
    /// Number of points.
    points: usize,
    /// Number of points on this machine's sites that cannot run.
    points_that_cannot_run: usize,
    /// Number of points on other sites, which are checked when those sites are opened.
    points_elsewhere: usize,
    /// What prevents points from running.
    obstacles: Vec<Obstacle>,
}

/// A reason that prevents points from running.
#[derive(Debug, Serialize)]
struct Obstacle {
    what: String,
    hint: String,
    /// The points, described by the factors in which they differ.
    points: Vec<String>,
}

impl Verdict {
    /// Evaluates a campaign by the software of its sites on this machine.
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

    /// Returns whether every checked point can run, and the plan has points.
    pub(super) fn can_run(&self) -> bool {
        self.can_run
    }

    /// Prints the verdict: the obstacles, each with its remedy.
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
