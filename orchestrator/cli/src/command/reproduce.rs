//! `cvc reproduce`

use super::{measure, shown, table};
use crate::{args::ReproduceArgs, failure::Failure};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_lib::{
    paper,
    report::{self, Records, Report},
    rerun,
    spec::Format,
};
use std::io::Write;

pub fn reproduce(args: &ReproduceArgs) -> Result<u8, Failure> {
    let folder = folder(&args.paper)?;
    let paper = paper::load(folder.as_std_path())?;
    let (definition, joined, from) = match measure::measured(&folder, &paper, &args.measure)? {
        measure::Outcome::Nothing => {
            return Err(Failure::Other { code: 2, message: "nothing is measured of this paper".into(), help: None });
        }
        measure::Outcome::Interrupted => return Ok(130),
        measure::Outcome::Joined { definition, joined, from } => (definition, joined, from),
    };
    let mut out = std::io::stdout().lock();
    let mut counts = table(["table", "within", "differs, known why", "differs", "rows not measured"], &[]);
    for table in &joined.tables {
        let tally = rerun::tally(table);
        counts.add_row([
            table.table.clone(),
            tally.within.to_string(),
            tally.differs.to_string(),
            tally.unexplained.to_string(),
            tally.rows_not_measured.to_string(),
        ]);
    }
    writeln!(out, "{}", counts.trim_fmt())?;
    for dir in &from {
        writeln!(out, "measured by {}", shown(dir))?;
    }
    let report = Report {
        schema: 1,
        kind: report::ReportKind::Paper,
        campaign: paper.id.clone(),
        title: paper.title.clone(),
        span: None,
        sections: rerun::sections(&paper, &joined, definition.note.as_deref()),
        records: Records::default(),
    };
    let to = args.to.clone().unwrap_or_else(|| Utf8PathBuf::from("reports").join(&paper.id));
    for file in report::write_all(&report, &to, &Format::ALL)?.iter().take(1) {
        writeln!(out, "report: {}", shown(file))?;
    }
    Ok(0)
}

/// The folder of a paper that is named by it or by its name.
fn folder(paper: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    if paper.join("paper.toml").is_file() {
        return Ok(paper.to_owned());
    }
    let dirs = [paper::embedded::directory()?];
    let found = paper::find(paper.as_str(), &dirs).and_then(|p| Utf8PathBuf::from_path_buf(p).ok());
    found.ok_or_else(|| Failure::Other {
        code: 2,
        message: format!("there is no paper `{paper}`"),
        help: Some(format!("known: {}", paper::known(&dirs).join(", "))),
    })
}
