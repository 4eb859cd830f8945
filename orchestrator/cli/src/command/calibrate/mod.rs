//! `cvc calibrate`

mod aa_test;

use crate::{args::CalibrateArgs, exit_status::ExitStatus, failure::Failure, output};
use cvc_core::store::write_output;
use cvc_prediction::calibration::{
    Calibrated, Coverage, calibrate as measure, carried, page, picture,
};
use cvc_prediction::predict::{Observation, PredictError, from_csv, merge_repeated};
use cvc_session::campaigns::campaign_dir;
use cvc_show::{Blocks, Table};
use std::time::{Duration, Instant};

/// Time between two lines where no terminal shows a bar.
const PAUSE: Duration = Duration::from_secs(10);

pub fn calibrate(args: &CalibrateArgs) -> Result<ExitStatus, Failure> {
    if let Some(campaign) = &args.campaign {
        return aa_test::test(
            &campaign_dir(
                campaign,
                args.which.variant.as_deref(),
                &args.place.campaigns,
            )?,
            args.json,
        );
    }
    let observations = observations(args)?;
    let bar = output::bar();
    bar.set_template("{wide_bar} {pos} of {len}: {msg}");
    let mut told = Instant::now();
    let result = measure(&observations, args.samples as usize, |done, of, what| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(what);
        if !output::is_stderr_terminal() && told.elapsed() > PAUSE {
            output::note(format_args!("{what}: {done} of {of}"));
            told = Instant::now();
        }
    });
    bar.finish_and_clear();
    let result = result?;
    if let Some(file) = &args.write_table {
        write_output(file, result.table.to_csv().as_bytes())?;
    }
    if let Some(directory) = &args.page {
        std::fs::create_dir_all(directory.join("img"))?;
        write_output(&directory.join("calibration.md"), page(&result).as_bytes())?;
        write_output(
            &directory.join("img/calibration.svg"),
            picture(&result).as_bytes(),
        )?;
    }
    output::answer(args.json, &result, |out| show(out, &result))?;
    Ok(ExitStatus::Done)
}

/// The observations of the tables, or those that cvc carries.
fn observations(args: &CalibrateArgs) -> Result<Vec<Observation>, PredictError> {
    if args.from.is_empty() {
        return Ok(carried());
    }
    let mut all = Vec::new();
    for path in &args.from {
        all.extend(merge_repeated(from_csv(path)?).0);
    }
    Ok(all)
}

fn show(out: &mut Blocks, result: &Calibrated) {
    let mut rows = Table::plain(["claim", "data", "repeats", "nominal, %", "measured, %", "±"])
        .wrap(&["repeats", "nominal, %", "measured, %", "±"]);
    for s in &result.repeats {
        let half = s.interval().map_or(0.0, |i| 50.0 * (i.high - i.low));
        let claim = cvc_prediction::calibration::claim_in_words(s.claim);
        rows.row([
            claim,
            s.data,
            &s.repeats.to_string(),
            &format!("{:.0}", 100.0 * s.nominal),
            &format!("{:.1}", 100.0 * s.measured()),
            &format!("{half:.1}"),
        ]);
    }
    out.table(rows);
    out.gap();
    let p = &result.predictions;
    out.line(format!(
        "predictions of {}, each with intervals made of the others' errors:",
        p.programs.join(", ")
    ));
    out.gap();
    let columns = [
        "of",
        "cells",
        "inside, %",
        "no interval",
        "mean error, %",
        "half width, %",
        "score, %",
    ];
    let mut rows = Table::plain(columns).wrap(&columns[1..]);
    for c in std::iter::once(&p.all)
        .chain(&p.by_quantity)
        .chain(&p.by_reach)
        .chain(&p.by_program)
    {
        rows.row(cells(c));
    }
    out.table(rows);
}

fn cells(c: &Coverage) -> [String; 7] {
    let inside = if c.cells == 0 {
        "-".to_owned()
    } else {
        format!("{:.1}", 100.0 * c.inside as f64 / c.cells as f64)
    };
    [
        c.of.clone(),
        c.cells.to_string(),
        inside,
        c.without_interval.to_string(),
        format!("{:.2}", c.mean_error_pct),
        format!("{:.2}", c.half_width_pct),
        format!("{:.1}", c.score_pct),
    ]
}
