//! `cvc predict`

mod said;
mod show;

use self::said::Said;
use crate::{
    args::{PredictArgs, Which},
    campaigns::campaign_dir,
    exit_status::ExitStatus,
    failure::Failure,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_analysis::holdout::{judge, rebuild_index};
use cvc_analysis::predict::{
    Filter, Forecasts, KnownNames, Observation, PredictError, Predictor, Question, ScheduleBudget, from_csv, from_index, merge_repeated,
};
use cvc_model::split;
use std::io::Write;

pub fn predict(args: &PredictArgs) -> Result<ExitStatus, Failure> {
    let mut observations = Vec::new();
    let (mut warnings, mut origins): (Vec<String>, Vec<Utf8PathBuf>) = (Vec::new(), Vec::new());
    for from in &args.from {
        let (place, found, said) = observed(from, args)?;
        if origins.contains(&place) {
            warnings.push(format!("{from} is given twice and counts once"));
            continue;
        }
        origins.push(place);
        observations.extend(found);
        warnings.extend(said);
    }
    let trains = filters(&args.train)?;
    let excludes = filters(&args.exclude)?;
    observations.retain(|o| !excludes.iter().any(|f| f.matches(o)));
    if observations.is_empty() && !args.from.is_empty() {
        let (message, hint) = if excludes.is_empty() {
            ("nothing was observed: no run of these campaigns succeeded", "`cvc status` shows the progress of a campaign")
        } else {
            ("--exclude leaves out every observation", "leave out fewer: --exclude names what is left out, --train what is kept")
        };
        return Err(PredictError::Model { message: message.into(), hint: hint.into() }.into());
    }
    let apps = [cvc_core::app::embedded::directory()?];
    let known = KnownNames { apps: &apps, observations: &observations };
    let questions = args.at.iter().map(|text| Question::parse(text, known)).collect::<Result<Vec<_>, _>>()?;
    let budget = ScheduleBudget { overhead: args.overhead, app_s: args.app_time, mtbf_s: args.mtbf };
    let is_training = |o: &Observation| trains.is_empty() || trains.iter().any(|f| f.matches(o));
    if !observations.is_empty() && !observations.iter().any(is_training) {
        return Err(PredictError::Model {
            message: format!("none of the {} observations matches --train", observations.len()),
            hint: format!("there are for example: {}", examples(&observations)),
        }
        .into());
    }
    split(observations, is_training, |training, held_out| {
        let predictor = Predictor::train(&training)?;
        let said = Said {
            trained_on: training.items().iter().collect(),
            held_out: held_out.items().len(),
            budget,
            warnings,
            forecasts: questions.iter().map(|q| predictor.forecast_within(q, &budget)).collect(),
            judged: args.judge.then(|| judge(&predictor, &held_out)),
        };
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        if args.json {
            serde_json::to_writer_pretty(&mut out, &said).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            show::show(&mut out, &said, args.detail)?;
        }
        out.flush()?;
        // asked for a program of which nothing but its library could be told: a script must not take that for an answer
        let answered = said.forecasts.iter().all(Forecasts::says_something_of_the_program);
        Ok(if answered { ExitStatus::Done } else { ExitStatus::Model })
    })
}

/// The observations of a campaign or a table, with the one path that it has however it is written, and what has to be said of repeated rows.
fn observed(from: &Utf8Path, args: &PredictArgs) -> Result<(Utf8PathBuf, Vec<Observation>, Vec<String>), Failure> {
    let one = |path: &Utf8Path| path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    if from.extension() == Some("csv") {
        let (rows, warnings) = merge_repeated(from_csv(from)?);
        return Ok((one(from), rows, warnings));
    }
    let dir = campaign_dir(from, &Which { variant: None }, &args.place)?;
    Ok((one(dir.root()), from_index(&rebuild_index(dir.root())?, dir.root().as_str())?, Vec::new()))
}

fn filters(texts: &[String]) -> Result<Vec<Filter>, PredictError> {
    texts.iter().map(|text| Filter::parse(text)).collect()
}

fn examples(observations: &[Observation]) -> String {
    observations.iter().take(3).map(|o| o.label.as_str()).collect::<Vec<_>>().join(", ")
}
