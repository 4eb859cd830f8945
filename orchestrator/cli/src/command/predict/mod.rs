//! `cvc predict`

mod delta;
mod delta_input;
mod output;
mod show;

use self::output::{FurtherRuns, PredictOutput};
use super::progress::Progress;
use crate::command::records::warn_of_index;
use crate::{args::PredictArgs, exit_status::ExitStatus, failure::Failure};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_model::split;
use cvc_prediction::holdout::{judge, rebuild_index};
use cvc_prediction::predict::{
    Filter, Forecasts, ImageObservations, KnownNames, Observation, PredictError, Predictor,
    Question, ScheduleBudget, add_differing_origins, from_csv, from_images, from_index,
    holds_images, keep_one_environment, merge_repeated, next_runs,
};
use cvc_session::campaigns::campaign_dir;

/// The largest run that is proposed.
const MOST_TRIED: u32 = 256;

pub fn predict(args: &PredictArgs) -> Result<ExitStatus, Failure> {
    if let Some(states) = &args.stored.delta {
        return delta::predict_delta(args, states);
    }
    let mut observations = Vec::new();
    let (mut warnings, mut origins): (Vec<String>, Vec<Utf8PathBuf>) = (Vec::new(), Vec::new());
    for from in &args.from {
        let (place, found, output) = observed(from, args)?;
        if origins.contains(&place) {
            warnings.push(format!("{from} is given twice and counts once"));
            continue;
        }
        origins.push(place);
        observations.extend(found);
        warnings.extend(output);
    }
    for directory in &args.images {
        let found = observed_images(directory)?;
        origins.push(directory.clone());
        observations.extend(found.observations);
        warnings.extend(found.notes);
    }
    if !args.images.is_empty() {
        let (merged, repeated) = merge_repeated(observations);
        observations = merged;
        warnings.extend(repeated);
    }
    add_differing_origins(&mut observations);
    let trains = filters(&args.train)?;
    let excludes = filters(&args.exclude)?;
    observations.retain(|o| !excludes.iter().any(|f| f.matches(o)));
    if observations.is_empty() && args.judge && origins.is_empty() {
        return Err(PredictError::Model {
            message: "--judge needs observations".into(),
            hint: "add --from or --images".into(),
        }
        .into());
    }
    if observations.is_empty() && !origins.is_empty() {
        let (message, hint) = if excludes.is_empty() {
            (
                "no observations: no run of these campaigns succeeded",
                "`cvc status` shows the progress of a campaign",
            )
        } else {
            (
                "--exclude leaves out every observation",
                "exclude fewer: --exclude names what to leave out, --train what to keep",
            )
        };
        return Err(PredictError::Model {
            message: message.into(),
            hint: hint.into(),
        }
        .into());
    }
    let apps = [cvc_core::app::embedded::directory()?];
    let known = KnownNames {
        apps: &apps,
        observations: &observations,
    };
    let questions = args
        .at
        .iter()
        .map(|text| Question::parse(text, known))
        .collect::<Result<Vec<_>, _>>()?;
    let budget = ScheduleBudget {
        overhead: args.overhead,
        app_s: args.app_time,
        mtbf_s: args.mtbf,
        mtbf_node_s: args.mtbf_node,
        restart_s: args.restart_time,
    };
    let is_training = |o: &Observation| trains.is_empty() || trains.iter().any(|f| f.matches(o));
    if !observations.is_empty() && !observations.iter().any(is_training) {
        return Err(PredictError::Model {
            message: format!(
                "none of the {} observations matches --train",
                observations.len()
            ),
            hint: format!("examples of observations: {}", examples(&observations)),
        }
        .into());
    }
    let (kept, left_out) = keep_one_environment(observations.clone(), is_training);
    warnings.extend(left_out);
    let next = match args.next {
        true => Some(
            questions
                .iter()
                .map(|q| further(&kept, &is_training, q, known))
                .collect::<Result<Vec<_>, _>>()?,
        ),
        false => None,
    };
    split(kept, is_training, |training, held_out| {
        let predictor = Predictor::train(&training)?;
        let output = PredictOutput {
            trained_on: training.items().iter().collect(),
            held_out: held_out.items().len(),
            budget,
            warnings,
            forecasts: questions
                .iter()
                .map(|q| predictor.forecast_within(q, &budget))
                .collect(),
            next,
            judged: args.judge.then(|| judge(&predictor, &held_out)),
        };
        crate::output::answer(args.json, &output, |out| {
            show::show(out, &output, args.detail);
        })?;
        // only the library of the requested program could be predicted: a script must not take that for an answer
        let answered = output
            .forecasts
            .iter()
            .all(Forecasts::says_something_of_the_program);
        Ok(if answered {
            ExitStatus::Done
        } else {
            ExitStatus::Model
        })
    })
}

/// Reads the observations of a campaign or a table, with its canonical path and warnings about repeated rows.
fn observed(
    from: &Utf8Path,
    args: &PredictArgs,
) -> Result<(Utf8PathBuf, Vec<Observation>, Vec<String>), Failure> {
    let one = |path: &Utf8Path| path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    if from.extension() == Some("csv") {
        let (rows, warnings) = merge_repeated(from_csv(from)?);
        return Ok((one(from), rows, warnings));
    }
    if from.is_dir() && !from.join("journal.jsonl").exists() && holds_images(from) {
        let ImageObservations {
            observations,
            mut notes,
        } = observed_images(from)?;
        let (merged, repeated) = merge_repeated(observations);
        notes.extend(repeated);
        return Ok((one(from), merged, notes));
    }
    let dir = campaign_dir(from, None, &args.place.campaigns)?;
    let index = rebuild_index(dir.root())?;
    warn_of_index(dir.root(), &index)?;
    Ok((
        one(dir.root()),
        from_index(&index, dir.root().as_str())?,
        Vec::new(),
    ))
}

fn observed_images(directory: &Utf8Path) -> Result<ImageObservations, PredictError> {
    let progress = Progress::start();
    from_images(directory, &|done, all| {
        progress.tell(done as u64, all as u64, "images read");
    })
}

/// The runs that would make the answer to a question narrower.
fn further(
    observations: &[Observation],
    is_training: &impl Fn(&Observation) -> bool,
    question: &Question,
    known: KnownNames<'_>,
) -> Result<FurtherRuns, PredictError> {
    let training: Vec<Observation> = observations
        .iter()
        .filter(|o| is_training(o))
        .cloned()
        .collect();
    let setting = &question.setting;
    // powers and squares are what programs ask for and people run
    let most = setting.mapping.processes().min(MOST_TRIED);
    let counts = (1..=most).filter(|p| p.is_power_of_two() || p.isqrt().pow(2) == *p || *p == most);
    let is_allowed = |p: &u32| {
        Question::parse(
            &format!("{}.{} {p} {}", setting.app, setting.class, setting.mpi_name),
            known,
        )
        .is_ok()
    };
    let counts: Vec<u32> = counts.filter(is_allowed).collect();
    Ok(FurtherRuns {
        label: question.label(),
        runs: next_runs(&training, question, &counts)?,
    })
}

fn filters(texts: &[String]) -> Result<Vec<Filter>, PredictError> {
    texts.iter().map(|text| Filter::parse(text)).collect()
}

fn examples(observations: &[Observation]) -> String {
    observations
        .iter()
        .take(3)
        .map(|o| o.label.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}
