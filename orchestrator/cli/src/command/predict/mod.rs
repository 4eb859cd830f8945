//! `cvc predict`

mod cost;
mod delta;
mod delta_input;
mod layout;
mod output;
mod show;
mod spread;
mod stand_in;
mod storage;

pub(super) use self::spread::number;
use self::{
    cost::{JobPrices, RuleCost},
    output::{FurtherRuns, KnownCheckpoint, PredictOutput},
};
use super::progress::Progress;
use crate::command::records::warn_of_index;
use crate::{args::PredictArgs, exit_status::ExitStatus, failure::Failure};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    quantity::Quantity,
    units::{counted, duration},
};
use cvc_model::split;
use cvc_prediction::holdout::{judge, rebuild_index};
use cvc_prediction::predict::{
    Filter, Forecasts, ImageObservations, KnownNames, Observation, PredictError, Predictor,
    Question, ScheduleBudget, add_differing_origins, add_sizes, from_csv, from_images, from_index,
    holds_images, keep_one_environment, merge_repeated, next_runs,
};
use cvc_prediction::schedules_for;
use cvc_session::campaigns::campaign_dir;

/// Maximum number of processes of a proposed run.
const MAX_TRIED: u32 = 256;

pub fn predict(args: &PredictArgs) -> Result<ExitStatus, Failure> {
    if args.layouts.layout {
        return layout::predict_layout(args);
    }
    if let Some(states) = &args.stored.delta {
        return delta::predict_delta(args, states);
    }
    storage::check(&args.kept)?;
    let prices = JobPrices::of(args)?;
    if let Some(checkpoint_s) = args.checkpoint_time {
        return of_known_checkpoint(args, checkpoint_s, prices.as_ref());
    }
    let GatheredObservations {
        mut observations,
        mut warnings,
    } = gather(args)?;
    let trains = filters(&args.train)?;
    // the same places as for a campaign file
    let apps = ["apps".into(), cvc_core::app::embedded::directory()?];
    add_sizes(&mut observations, &apps);
    let known = KnownNames {
        apps: &apps,
        observations: &observations,
    };
    let questions = args
        .at
        .iter()
        .map(|text| Question::parse(text, known))
        .collect::<Result<Vec<_>, _>>()?;
    let budget = budget(args);
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
        let forecasts: Vec<Forecasts> = questions
            .iter()
            .map(|q| predictor.forecast_within(q, &budget))
            .collect();
        let costs = prices
            .iter()
            .flat_map(|prices| forecasts.iter().map(|of| costs_of(prices, of, &budget)));
        let storage = match args.kept.storage {
            true => storage::answers(args, &predictor, &forecasts)?,
            false => Vec::new(),
        };
        let output = PredictOutput {
            costs: costs.collect(),
            storage,
            stand_ins: stand_in::answers(args, &predictor, known)?,
            checkpoint: None,
            trained_on: training.items().iter().collect(),
            held_out: held_out.items().len(),
            budget,
            warnings,
            forecasts,
            next,
            judged: args.judge.then(|| judge(&predictor, &held_out)),
        };
        crate::output::answer(
            args.json,
            &crate::output::versioned(&output),
            |out| match args.kept.storage {
                true => storage::show(out, &output.storage, &args.kept),
                false => show::show(out, &output, args.detail),
            },
        )?;
        // if the program itself could not be predicted but only its library, scripts must see a failure
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

/// Returns the forecasts for a setting, trained on these campaigns, tables and directories of images, and warnings.
pub(super) fn forecast_of(
    setting: &str,
    from: &[Utf8PathBuf],
    campaigns: &Utf8Path,
) -> Result<(Forecasts, Vec<String>), Failure> {
    let (mut observations, mut warnings) = (Vec::new(), Vec::new());
    for from in from {
        let (_, found, notes) = observed(from, campaigns)?;
        observations.extend(found);
        warnings.extend(notes);
    }
    let apps = ["apps".into(), cvc_core::app::embedded::directory()?];
    add_sizes(&mut observations, &apps);
    let known = KnownNames {
        apps: &apps,
        observations: &observations,
    };
    let question = Question::parse(setting, known)?;
    let (kept, left_out) = keep_one_environment(observations.clone(), |_| true);
    warnings.extend(left_out);
    split(
        kept,
        |_| true,
        |training, _| {
            let forecasts =
                Predictor::train(&training)?.forecast_within(&question, &ScheduleBudget::default());
            Ok((forecasts, warnings))
        },
    )
}

fn budget(args: &PredictArgs) -> ScheduleBudget {
    ScheduleBudget {
        overhead: args.overhead,
        app_s: args.app_time,
        mtbf_s: args.mtbf,
        mtbf_node_s: args.mtbf_node,
        restart_s: args.restart_time,
    }
}

fn costs_of(prices: &JobPrices, of: &Forecasts, budget: &ScheduleBudget) -> Vec<RuleCost> {
    let stored_mib = of.first(Quantity::Stored).map(|p| p.estimate.value);
    prices.costs(
        of.question.setting.mapping.nodes(),
        budget.app_s,
        &of.schedules,
        stored_mib,
    )
}

/// Prints schedules and costs for a job whose checkpoint time the user gives, so that no prediction is needed.
fn of_known_checkpoint(
    args: &PredictArgs,
    checkpoint_s: f64,
    prices: Option<&JobPrices>,
) -> Result<ExitStatus, Failure> {
    let budget = budget(args);
    let has_budget = budget.overhead.is_some() && budget.app_s.is_some();
    if !has_budget && budget.mtbf_s.is_none() && budget.mtbf_node_s.is_none() {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: "--checkpoint-time: the checkpoint interval is undetermined".to_owned(),
            hint: Some("add --mtbf-node, --mtbf, or --overhead with --app-time".into()),
        });
    }
    let nodes = args.nodes.unwrap_or(1);
    let (schedules, warnings) =
        schedules_for(checkpoint_s, &budget.on_nodes(nodes)).map_err(|error| Failure::Other {
            status: ExitStatus::Model,
            message: error.to_string(),
            hint: None,
        })?;
    let costs = prices.map_or_else(Vec::new, |prices| {
        prices.costs(nodes, budget.app_s, &schedules, None)
    });
    let output = PredictOutput {
        trained_on: Vec::new(),
        held_out: 0,
        budget,
        warnings: Vec::new(),
        forecasts: Vec::new(),
        costs: Vec::new(),
        storage: Vec::new(),
        stand_ins: Vec::new(),
        checkpoint: Some(KnownCheckpoint {
            checkpoint_s,
            nodes,
            schedules,
            warnings,
            costs,
        }),
        next: None,
        judged: None,
    };
    crate::output::answer(args.json, &crate::output::versioned(&output), |out| {
        let Some(known) = &output.checkpoint else {
            return;
        };
        let nodes = counted(known.nodes, "node");
        out.line(format!(
            "a checkpoint of {} on {nodes} (--checkpoint-time)",
            duration(checkpoint_s)
        ));
        spread::show_spread(out, &known.schedules, known.nodes, &budget, None);
        cost::show_costs(out, &known.costs);
        for warning in &known.warnings {
            out.say(format!("warning: {warning}"));
        }
    })?;
    Ok(ExitStatus::Done)
}

/// Observations from all sources, and warnings about them.
struct GatheredObservations {
    observations: Vec<Observation>,
    warnings: Vec<String>,
}

/// Reads the observations that the options name, without the excluded ones.
fn gather(args: &PredictArgs) -> Result<GatheredObservations, Failure> {
    let mut observations = Vec::new();
    let (mut warnings, mut origins): (Vec<String>, Vec<Utf8PathBuf>) = (Vec::new(), Vec::new());
    for from in &args.from {
        let (place, found, output) = observed(from, &args.place.campaigns)?;
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
                "exclude fewer: --exclude removes observations, --train keeps them",
            )
        };
        return Err(PredictError::Model {
            message: message.into(),
            hint: hint.into(),
        }
        .into());
    }
    Ok(GatheredObservations {
        observations,
        warnings,
    })
}

/// Reads the observations of a campaign or a table. Also returns the canonical path, and warnings about repeated rows.
fn observed(
    from: &Utf8Path,
    campaigns: &Utf8Path,
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
    let dir = campaign_dir(from, None, campaigns)?;
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
        progress.report(done as u64, all as u64, "images read");
    })
}

/// Returns runs that would narrow the interval of an answer.
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
    // proposed process counts are powers of two and squares, which programs require and people use
    let most = setting.mapping.processes().min(MAX_TRIED);
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
