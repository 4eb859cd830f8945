//! The command `calibrate`.

use super::{Calibrated, Coverage, calibrate, carried, page, picture};
use camino::Utf8PathBuf;
use cvc_prediction::predict::{Observation, PredictError, from_csv, merge_repeated};
use std::{fs, path::Path};

/// Usage of the command.
pub const USAGE: &str = "\
usage: cargo xtask calibrate [--from TABLE]... [--samples N] [--page DIRECTORY] [--write-table FILE] [--json]
  TABLE      CSV of observed checkpoints of two programs or more [default: the runs that cvc carries]
  N          samples simulated for each claim about repeats, 100 to 1000000 [default: 2000]
  DIRECTORY  where calibration.md and img/calibration.svg are written
  FILE       where the errors of predictions are written, from which cvc makes their intervals";

/// Parsed arguments.
struct Arguments {
    from: Vec<Utf8PathBuf>,
    samples: usize,
    page: Option<Utf8PathBuf>,
    table: Option<Utf8PathBuf>,
    json: bool,
}

/// Measures the coverage of intervals, writes the requested files, and returns the result as text. `progress` receives a description of the current
/// part.
///
/// # Errors
/// Wrong arguments, tables that cannot be read or used for training, and files that cannot be written, as a message.
pub fn run(
    arguments: &[String],
    mut progress: impl FnMut(usize, usize, &str),
) -> Result<String, String> {
    let arguments = parse(arguments)?;
    let observations = observations(&arguments.from)?;
    let result = calibrate(&observations, arguments.samples, &mut progress).map_err(message)?;
    if let Some(file) = &arguments.table {
        write(file.as_ref(), &result.table.to_csv())?;
    }
    if let Some(directory) = &arguments.page {
        write(directory.join("calibration.md").as_ref(), &page(&result))?;
        write(
            directory.join("img/calibration.svg").as_ref(),
            &picture(&result),
        )?;
    }
    if arguments.json {
        return serde_json::to_string_pretty(&result).map_err(|e| e.to_string());
    }
    Ok(summary(&result))
}

fn parse(arguments: &[String]) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        from: Vec::new(),
        samples: 2000,
        page: None,
        table: None,
        json: false,
    };
    let mut words = arguments.iter();
    while let Some(option) = words.next() {
        if option == "--json" {
            parsed.json = true;
            continue;
        }
        let value = words.next().ok_or(USAGE)?;
        match option.as_str() {
            "--from" => parsed.from.push(value.into()),
            "--samples" => {
                let number = value.replace('_', "").parse().ok();
                parsed.samples = number
                    .filter(|n| (100..=1_000_000).contains(n))
                    .ok_or_else(|| {
                        format!("`{value}` is no number from 100 to 1000000\n{USAGE}")
                    })?;
            }
            "--page" => parsed.page = Some(value.into()),
            "--write-table" => parsed.table = Some(value.into()),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(parsed)
}

/// Returns the observations in these tables, or without tables those that are part of cvc.
fn observations(tables: &[Utf8PathBuf]) -> Result<Vec<Observation>, String> {
    if tables.is_empty() {
        return Ok(carried());
    }
    let mut all = Vec::new();
    for table in tables {
        let rows = from_csv(table).map_err(message)?;
        all.extend(merge_repeated(rows).0);
    }
    Ok(all)
}

fn message(e: PredictError) -> String {
    match e.hint() {
        Some(hint) => format!("{e}; hint: {hint}"),
        None => e.to_string(),
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    let directory = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(file, text))
        .map_err(|e| format!("{}: {e}", file.display()))
}

/// Formats the coverage of all predictions.
fn summary(result: &Calibrated) -> String {
    let p = &result.predictions;
    let mut lines = vec![
        format!(
            "{} simulations of repeats; predictions of {}, each with intervals made of the others' errors:",
            result.repeats.len(),
            p.programs.join(", ")
        ),
        "inside, %  cells  no interval  mean error, %  half width, %  score, %  of".to_owned(),
    ];
    let all = std::iter::once(&p.all)
        .chain(&p.by_quantity)
        .chain(&p.by_reach)
        .chain(&p.by_program);
    lines.extend(all.map(row));
    lines.join("\n")
}

fn row(c: &Coverage) -> String {
    let inside = match c.cells {
        0 => "-".to_owned(),
        cells => format!("{:.1}", 100.0 * c.inside as f64 / cells as f64),
    };
    format!(
        "{inside:>9}  {:>5}  {:>11}  {:>13.2}  {:>13.2}  {:>8.1}  {}",
        c.cells, c.without_interval, c.mean_error_pct, c.half_width_pct, c.score_pct, c.of
    )
}
