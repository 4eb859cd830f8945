//! Time and cost of the whole run at each place (site, library, storage area), and the choice among the places.

use super::row::{ReplayTime, Row};
use crate::{args::EstimateArgs, exit_status::ExitStatus, failure::Failure};
use cvc_cloud::cost::{PriceBook, known_cores, planned_rate};
use cvc_core::campaign::Spec;
use cvc_core::mapping::Mapping;
use cvc_core::units::dollars;
use cvc_model::stats::{LEVEL, least_mean};
use cvc_trace::phases::IoModel;
use serde::Serialize;

/// Seconds of an hour.
const HOUR_S: f64 = 3600.0;

/// The parts of the whole run that are not repeated, and the prices of the places.
pub struct WholeRun<'a> {
    args: &'a EstimateArgs,
    spec: Option<&'a Spec>,
    nodes: u32,
    /// Computation and communication of the traced run, seconds; `None` if the model is not from a run.
    computing_s: Option<f64>,
    /// Traced time of phases that are not repeated, seconds.
    left_out_s: f64,
}

/// The basis of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChoiceBy {
    /// Time of I/O, seconds.
    IoTime,
    /// Time of the whole run, seconds.
    RunTime,
    /// Cost of the whole run, US dollars.
    Dollars,
}

/// Whether the repeats of the replay show which place is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChoiceVerdict {
    /// The place is best with a probability of at least 95 %.
    Best,
    /// Another place may be better.
    Indistinguishable,
    /// A place has fewer than two repeats, or interpolated times, so that their scatter is unknown.
    UnknownScatter,
}

/// A place, by its names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlaceName {
    pub site: String,
    pub mpi: String,
    pub storage: String,
}

/// The best of several places.
#[derive(Debug, Serialize)]
pub struct PlaceChoice {
    pub by: ChoiceBy,
    pub verdict: ChoiceVerdict,
    #[serde(flatten)]
    pub place: PlaceName,
    /// Seconds or US dollars, mean over the repeats.
    pub value: f64,
    /// Probability that this place has the lowest true mean; `None` if a place's scatter is unknown.
    pub probability: Option<f64>,
    pub next: PlaceName,
    pub next_value: f64,
}

impl PlaceName {
    fn of(row: &Row) -> Self {
        Self {
            site: row.site.clone(),
            mpi: row.mpi.clone(),
            storage: row.storage.clone(),
        }
    }

    pub fn text(&self) -> String {
        format!("{} with {} in {}", self.site, self.mpi, self.storage)
    }
}

impl<'a> WholeRun<'a> {
    pub fn of(
        args: &'a EstimateArgs,
        model: &IoModel,
        spec: Option<&'a Spec>,
        mapping: &Mapping,
    ) -> Self {
        let is_left_out = |relevant: bool| !args.options.all && !relevant;
        let left_out = model.phases.iter().filter(|f| is_left_out(f.is_relevant));
        Self {
            args,
            spec,
            nodes: mapping.nodes(),
            computing_s: (model.run_s > 0.0).then(|| (model.run_s - model.io_s()).max(0.0)),
            left_out_s: left_out.fold(0.0, |all, f| all + f.io_s * f64::from(f.count)),
        }
    }

    /// Returns the traced time of phases that are not repeated, seconds.
    pub fn left_out_s(&self) -> f64 {
        self.left_out_s
    }

    /// Refuses options for sites without a row.
    pub fn check_sites<'s>(&self, known: impl Iterator<Item = &'s str>) -> Result<(), Failure> {
        let known: Vec<&str> = known.collect();
        let of_compute = self.args.compute.iter().filter_map(|(site, _)| {
            let site = site.as_deref()?;
            Some(("--compute", site))
        });
        let of_price = self.args.price.iter().map(|(s, _)| ("--price", s.as_str()));
        let mut all = of_compute.chain(of_price);
        match all.find(|(_, site)| !known.contains(site)) {
            Some((option, site)) => Err(Failure::Other {
                status: ExitStatus::Usage,
                message: format!("{option}: there is no site `{site}`"),
                hint: Some(format!("sites: {}", known.join(", "))),
            }),
            None => Ok(()),
        }
    }

    /// Returns the time of computation at a site relative to the traced run.
    fn factor(&self, site: &str) -> f64 {
        let of = |wanted: Option<&str>| {
            let mut all = self.args.compute.iter().rev();
            all.find(|(of, _)| of.as_deref() == wanted).map(|(_, f)| *f)
        };
        of(Some(site)).or_else(|| of(None)).unwrap_or(1.0)
    }

    /// Returns the price of all nodes of a run at a site, US dollars per hour, and its source.
    fn price(&self, site: &str) -> Option<(f64, String)> {
        let nodes = f64::from(self.nodes);
        let mut given = self.args.price.iter().rev();
        if let Some((_, usd)) = given.find(|(name, _)| name == site) {
            return Some((usd * nodes, "--price".to_owned()));
        }
        let of_site = || {
            let site = self.spec?.sites.get(site)?;
            let book = PriceBook::shipped();
            let rate = planned_rate(&book, site, known_cores(site, &book)).ok()??;
            Some((rate.usd_per_hour * nodes, rate.source()))
        };
        let of_all = || {
            let usd = self.args.dollars_per_hour?;
            Some((usd, "--dollars-per-hour".to_owned()))
        };
        of_site().or_else(of_all)
    }

    /// Adds time and cost of the whole run to a row.
    pub fn complete(&self, row: &mut Row) {
        let Some(computing_s) = self.computing_s else {
            return;
        };
        let rest_s = computing_s * self.factor(&row.site) + self.left_out_s;
        let Some(io) = &row.io else { return };
        row.run = Some(io.plus(rest_s));
        row.usd_per_hour = self.price(&row.site).map(|(usd, source)| {
            row.price = Some(source);
            usd
        });
        row.usd = row
            .usd_per_hour
            .map(|usd| usd * (io.mean_s + rest_s) / HOUR_S);
    }

    /// Returns the assumptions about the whole run.
    pub fn assumptions(&self) -> Vec<String> {
        let mut all = vec![match (self.computing_s, self.args.compute.is_empty()) {
            (None, _) => "the model is not from a run, so only I/O is estimated, not the time of a whole run".to_owned(),
            (Some(_), true) => "the run's computing time is that of the traced run on every site; --compute SITE=FACTOR scales it".to_owned(),
            (Some(_), false) => "the run's computing time is that of the traced run, multiplied by --compute; this factor has no error".to_owned(),
        }];
        if self.computing_s.is_none()
            && (self.args.dollars_per_hour.is_some() || !self.args.price.is_empty())
        {
            all.push("no costs, since the time of a whole run is unknown".to_owned());
        }
        all
    }
}

/// The value of a row for which places are chosen: its mean and its repeats.
fn values(row: &Row, by: ChoiceBy) -> Option<Vec<f64>> {
    let io = row.io.as_ref()?;
    // an interpolated time is one value without scatter
    let repeats = match row.repeats_s.as_slice() {
        [] => &[io.mean_s],
        repeats => repeats,
    };
    let rest_s = || Some(row.run.as_ref()?.mean_s - io.mean_s);
    let scale = |add: f64, by: f64| Some(repeats.iter().map(|s| by * (s + add)).collect());
    match by {
        ChoiceBy::IoTime => scale(0.0, 1.0),
        ChoiceBy::RunTime => scale(rest_s()?, 1.0),
        ChoiceBy::Dollars => scale(rest_s()?, row.usd_per_hour? / HOUR_S),
    }
}

impl PlaceChoice {
    /// Returns the best place; `None` with fewer than two places that have this value.
    pub fn among(rows: &[Row], by: ChoiceBy) -> Option<Self> {
        let timed = rows.iter().filter_map(|row| Some((row, values(row, by)?)));
        let (places, samples): (Vec<&Row>, Vec<Vec<f64>>) = timed.unzip();
        let found = least_mean(&samples)?;
        let next = found.next?;
        let mean = |i: usize| samples[i].iter().sum::<f64>() / samples[i].len() as f64;
        Some(Self {
            by,
            verdict: match found.probability {
                Some(p) if p >= LEVEL => ChoiceVerdict::Best,
                Some(_) => ChoiceVerdict::Indistinguishable,
                None => ChoiceVerdict::UnknownScatter,
            },
            place: PlaceName::of(places[found.index]),
            value: mean(found.index),
            probability: found.probability,
            next: PlaceName::of(places[next]),
            next_value: mean(next),
        })
    }

    /// Describes the choice in a sentence.
    pub fn sentence(&self, is_interpolated: bool) -> String {
        let (word, value) = match self.by {
            ChoiceBy::IoTime => ("fastest", seconds as fn(f64) -> String),
            ChoiceBy::RunTime => ("fastest for the whole run", seconds as _),
            ChoiceBy::Dollars => ("cheapest", dollars as _),
        };
        let (place, next) = (self.place.text(), self.next.text());
        let (value, next_value) = (value(self.value), value(self.next_value));
        let sure = self.probability.map_or_else(String::new, percent_sure);
        match self.verdict {
            ChoiceVerdict::Best => format!(
                "The {word} is {place}, {value}, with a probability of {sure}; the next is {next}, {next_value}."
            ),
            ChoiceVerdict::Indistinguishable => format!(
                "Indistinguishable: the {word} may be {place}, {value} (probability {sure}), or {next}, {next_value}; repeat more often (--repeats)."
            ),
            ChoiceVerdict::UnknownScatter => format!(
                "Indistinguishable: {place}, {value}, and {next}, {next_value}, have no interval; {}.",
                if is_interpolated {
                    "interpolated times have none"
                } else {
                    "repeat more often (--repeats)"
                }
            ),
        }
    }
}

/// Formats a probability; random draws cannot show that one is 1.
fn percent_sure(probability: f64) -> String {
    match 100.0 * probability {
        p if p >= 99.9 => "over 99.9 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

fn seconds(value: f64) -> String {
    format!("{value:.3} s")
}

/// Describes the time of I/O of the best place, or of the only one, and the choices.
pub fn sentence(rows: &[Row], choices: &[PlaceChoice]) -> String {
    let chosen = choices.first().map(|choice| &choice.place);
    let is_chosen = |row: &&Row| chosen.is_none_or(|place| *place == PlaceName::of(row));
    let timed = rows.iter().filter(|row| row.io.is_some());
    let Some((row, io)) = timed
        .clone()
        .find(is_chosen)
        .and_then(|row| Some((row, row.io.as_ref()?)))
    else {
        return "There is no time of any place.".to_owned();
    };
    let is_interpolated = row.measured_on.is_some();
    let run = row.run.as_ref().map_or_else(String::new, |run| {
        format!(", the whole run {}", ReplayTime::text(run))
    });
    let first = format!(
        "All I/O takes {}{run} on {}.",
        io.text(),
        PlaceName::of(row).text()
    );
    let others = choices.iter().map(|c| c.sentence(is_interpolated));
    let unpriced: Vec<String> = timed
        .filter(|row| row.usd.is_none())
        .map(|row| PlaceName::of(row).text())
        .collect();
    let has_price = rows.iter().any(|row| row.usd.is_some());
    let without = (has_price && !unpriced.is_empty())
        .then(|| format!("Without a price: {}.", unpriced.join("; ")));
    let all: Vec<String> = std::iter::once(first)
        .chain(others)
        .chain(without)
        .collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(site: &str, repeats: &[f64], computing_s: f64, usd_per_hour: f64) -> Row {
        let io = ReplayTime::of(repeats).expect("a time");
        Row {
            run: Some(io.plus(computing_s)),
            io: Some(io),
            repeats_s: repeats.to_vec(),
            usd_per_hour: Some(usd_per_hour),
            ..Row::of(site, "mpich", "scratch")
        }
    }

    #[test]
    fn the_fastest_the_fastest_for_the_run_and_the_cheapest_may_be_three_places() {
        let rows = [
            row("io", &[1.0, 1.1, 1.2], 100.0, 9.0),
            row("run", &[5.0, 5.1, 5.2], 50.0, 9.0),
            row("cheap", &[9.0, 9.1, 9.2], 100.0, 1.0),
        ];
        let best = |by| PlaceChoice::among(&rows, by).expect("a choice");
        for (by, site) in [
            (ChoiceBy::IoTime, "io"),
            (ChoiceBy::RunTime, "run"),
            (ChoiceBy::Dollars, "cheap"),
        ] {
            let choice = best(by);
            assert_eq!(
                (choice.place.site.as_str(), choice.verdict),
                (site, ChoiceVerdict::Best)
            );
        }
        assert!((best(ChoiceBy::Dollars).value - 109.1 / HOUR_S).abs() < 1e-9);
        let close = [
            row("a", &[1.0, 2.0], 0.0, 1.0),
            row("b", &[1.1, 2.1], 0.0, 1.0),
        ];
        let choice = PlaceChoice::among(&close, ChoiceBy::IoTime).expect("a choice");
        assert_eq!(choice.verdict, ChoiceVerdict::Indistinguishable);
        assert!(sentence(&close, &[choice]).contains("Indistinguishable: the fastest may be a "));
        let single = [row("a", &[1.0], 0.0, 1.0), row("b", &[2.0, 2.1], 0.0, 1.0)];
        let choice = PlaceChoice::among(&single, ChoiceBy::IoTime).expect("a choice");
        assert_eq!(
            (choice.verdict, choice.probability),
            (ChoiceVerdict::UnknownScatter, None)
        );
        assert!(PlaceChoice::among(&single[..1], ChoiceBy::IoTime).is_none());
    }
}
