//! `cvc reproduce`

use super::{measure, report::formats};
use crate::{
    args::{MeasureArgs, ReproduceArgs},
    ci::{Check, CheckList, CheckResult},
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::shown,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::Format;
use cvc_core::units::counted;
use cvc_paper::paper::{
    self, CellCounts, ClaimCounts, ClaimOutcome, ClaimVerdict, JudgedTable, Measurements, Paper,
    Reproduction,
};
use cvc_paper::rerun;
use cvc_show::{Blocks, Mark, Section, Table};
use indexmap::IndexSet;
use serde::Serialize;
use std::path::PathBuf;

pub fn reproduce(args: &ReproduceArgs) -> Result<ExitStatus, Failure> {
    let dirs = directories(args)?;
    let Some(name) = &args.paper else {
        output::print(&list_papers(&dirs)?)?;
        return Ok(ExitStatus::Done);
    };
    let folder = folder(name, &dirs)?;
    let paper = paper::load(folder.as_std_path())?;
    if args.list {
        let mut out = Blocks::default();
        list_tables(&mut out, &paper);
        output::print(&out)?;
        return Ok(ExitStatus::Done);
    }
    let only = tables(&paper, &args.table)?;
    let to = args
        .to
        .clone()
        .unwrap_or_else(|| Utf8Path::new("reports/papers").join(&paper.id));
    // fail before anything runs or is printed
    std::fs::create_dir_all(&to).map_err(|e| Failure::Other {
        status: ExitStatus::Store,
        message: format!("cannot create {to}: {e}"),
        hint: Some("give a report directory with --to".into()),
    })?;
    let Some(rerun) = reruns(&folder, &paper, &only, &args.measure)? else {
        return Ok(ExitStatus::Interrupted);
    };
    let mut judged = paper::judge(&paper, &only, &rerun.measurements);
    if only.is_empty() && !rerun.claims.is_empty() {
        judged.claims = rerun.claims;
    }
    let mut report = paper::report(&judged)?;
    report.sections.extend(rerun.sections);
    let wanted = if args.format.is_empty() {
        Format::ALL.to_vec()
    } else {
        formats(&args.format)
    };
    let mut files = Vec::new();
    for format in &wanted {
        // a user who requests single tables includes only these with \input
        let chosen = (*format == Format::Latex && !only.is_empty()).then(|| {
            let mut chosen = report.clone();
            chosen.sections.retain(|s| s.id == "tables");
            chosen
        });
        files.extend(cvc_show::write_all(
            chosen.as_ref().unwrap_or(&report),
            &to,
            &[*format],
        )?);
    }
    let mut out = Blocks::default();
    summary(&mut out, &judged);
    found(&mut out, &judged);
    claims(&mut out, &judged.claims);
    for text in &rerun.series {
        out.say(text);
    }
    let is_asked = args.measure.measure || !args.measure.from.is_empty();
    let provenance = rerun.provenance;
    let status = provenance.show(&mut out, &judged, &rerun.measurements, is_asked);
    show_files(&mut out, &files, &to);
    if wanted.contains(&Format::Csv) {
        let all = if judged.tables.is_empty() {
            ""
        } else {
            ": cells.csv has all cells"
        };
        out.line(format!("{}{all}", shown(&to.join("csv"))));
    }
    if args.json {
        output::print_json(&ReproduceOutput::new(&judged, &files))?;
    } else {
        output::emit_blocks(&out);
    }
    if args.ci.is_wanted() {
        checks(&judged).write(&args.ci)?;
    }
    Ok(status)
}

/// The output of `--json`.
#[derive(Serialize)]
struct ReproduceOutput<'r> {
    schema: u32,
    paper: &'r str,
    title: &'r str,
    cells: CellCounts,
    tables: Vec<PrintedTable<'r>>,
    misprints: Vec<PrintedMisprint<'r>>,
    claim_counts: ClaimCounts,
    claims: &'r [ClaimOutcome],
    files: &'r [Utf8PathBuf],
}

/// Counts of a table's cells by outcome of the comparison.
#[derive(Serialize)]
struct PrintedTable<'r> {
    table: &'r str,
    page: Option<u32>,
    caption: &'r str,
    cells: CellCounts,
}

/// A probable misprint in a cell of the paper.
#[derive(Serialize)]
struct PrintedMisprint<'r> {
    table: &'r str,
    row: usize,
    about: String,
    column: &'r str,
    printed: &'r str,
    likely: &'r str,
    recomputed: Option<f64>,
    anomaly: &'r str,
    confidence: &'static str,
}

impl<'r> ReproduceOutput<'r> {
    fn new(judged: &'r Reproduction, files: &'r [Utf8PathBuf]) -> Self {
        let table = |t: &'r JudgedTable| PrintedTable {
            table: &t.definition.id,
            page: t.definition.page,
            caption: &t.definition.caption,
            cells: t.counts,
        };
        let misprints = paper::misprints(judged).into_iter();
        Self {
            schema: 1,
            paper: &judged.paper,
            title: &judged.title,
            cells: total(judged),
            tables: judged.tables.iter().map(table).collect(),
            misprints: misprints
                .map(|m| PrintedMisprint {
                    table: &m.table.id,
                    row: m.row + 1,
                    about: m.about,
                    column: &m.column.id,
                    printed: m.printed,
                    likely: m.likely,
                    recomputed: m.recomputed,
                    anomaly: m.anomaly,
                    confidence: m.confidence.word(),
                })
                .collect(),
            claim_counts: ClaimCounts::of(&judged.claims),
            claims: &judged.claims,
            files,
        }
    }
}

/// Returns the counts summed over all tables.
fn total(judged: &Reproduction) -> CellCounts {
    let tables = judged.tables.iter();
    tables.fold(CellCounts::default(), |sum, t| sum.plus(t.counts))
}

/// Returns each table as a check. A check fails if a reproduced cell differs from print and no misprint explains the difference.
fn checks(judged: &Reproduction) -> CheckList {
    let check = |table: &JudgedTable| {
        let result = match (table.counts.checkable(), table.counts.differs) {
            (0, _) => CheckResult::Skipped {
                why: "no printed data determines its cells".into(),
            },
            (_, 0) => CheckResult::Passed,
            _ => CheckResult::Failed {
                message: table
                    .probable_fault()
                    .map_or_else(String::new, |fault| fault.to_string()),
                detail: String::new(),
            },
        };
        Check {
            group: table.definition.title.clone(),
            name: table.definition.caption.clone(),
            time_s: None,
            result,
        }
    };
    CheckList {
        title: format!("cvc reproduce {}", judged.paper),
        checks: judged.tables.iter().map(check).collect(),
    }
}

/// Results of new runs, for the tables of a paper.
#[derive(Default)]
struct Rerun {
    measurements: Measurements,
    sections: Vec<Section>,
    provenance: Provenance,
    /// The claims of the paper, checked against the runs.
    claims: Vec<ClaimOutcome>,
    /// One line for each measured series.
    series: Vec<String>,
}

/// Joins measurements with the requested tables; `None` if measuring was interrupted.
fn reruns(
    folder: &Utf8Path,
    paper: &Paper,
    only: &[&str],
    args: &MeasureArgs,
) -> Result<Option<Rerun>, Failure> {
    let (definition, mut joined, claims, from) = match measure::measured(folder, paper, only, args)?
    {
        measure::Outcome::Nothing => return Ok(Some(Rerun::default())),
        measure::Outcome::Interrupted => return Ok(None),
        measure::Outcome::Joined {
            definition,
            joined,
            claims,
            from,
        } => (definition, joined, claims, from),
    };
    let is_wanted = |table: &str| only.is_empty() || only.contains(&table);
    joined.tables.retain(|t| is_wanted(&t.table));
    joined.differences.retain(|d| is_wanted(&d.table));
    let (sections, series) = if from.is_empty() {
        (Vec::new(), Vec::new())
    } else {
        (
            rerun::sections(paper, &joined, definition.note.as_deref())?,
            joined.series.iter().map(rerun::describe_series).collect(),
        )
    };
    let by = from.iter().filter(|c| joined.is_measured_by(&c.name));
    Ok(Some(Rerun {
        measurements: joined.measurements(),
        sections,
        claims,
        series,
        provenance: Provenance {
            programs: rerun::programs(paper, &definition, only),
            by: by.map(|c| c.dir.clone()).collect(),
            from,
        },
    }))
}

/// Prints the names of the written files, and how many tables a LaTeX file includes.
fn show_files(out: &mut Blocks, files: &[Utf8PathBuf], to: &Utf8PathBuf) {
    let is_table = |f: &&Utf8PathBuf| f.extension() == Some("tex") && f.parent() != Some(to);
    for file in files.iter().filter(|f| f.parent() == Some(to)) {
        let tables = if file.extension() == Some("tex") {
            format!(
                ", which reads {} in {}",
                counted(files.iter().filter(is_table).count(), "table"),
                shown(&to.join("tables"))
            )
        } else {
            String::new()
        };
        out.line(format!("{}{tables}", shown(file)));
    }
}

/// The campaigns that measured cells come from.
#[derive(Default)]
struct Provenance {
    /// All campaigns that were read.
    from: Vec<measure::ReadCampaign>,
    /// The directories of the campaigns that provide a cell, a difference or a series.
    by: Vec<Utf8PathBuf>,
    /// The programs of the chosen tables.
    programs: IndexSet<String>,
}

impl Provenance {
    /// Reports how many cells each campaign provided, or why no cell was measured, and returns the exit code. `is_asked`: the user requested
    /// measurements.
    fn show(
        &self,
        out: &mut Blocks,
        judged: &Reproduction,
        measurements: &Measurements,
        is_asked: bool,
    ) -> ExitStatus {
        let cells: usize = judged.tables.iter().map(|t| t.counts.judged).sum();
        for dir in &self.by {
            let name = self.from.iter().find(|c| c.dir == *dir).map(|c| &c.name);
            let own = measurements
                .values()
                .filter(|m| name.is_some_and(|name| m.campaigns.contains(name)))
                .count();
            let count = match own {
                0 => String::new(),
                own => format!("{own} of {} ", counted(cells, "cell")),
            };
            out.line(format!("{count}measured by {}", shown(dir)));
        }
        let tested = judged.claims.iter().filter(|c| c.here.is_some()).count();
        if tested > 0 {
            out.line(format!("{} tested by runs", counted(tested, "claim")));
        }
        if !self.by.is_empty() || tested > 0 {
            return ExitStatus::Done;
        }
        let ran: Vec<&measure::ReadCampaign> = self
            .from
            .iter()
            .filter(|c| !c.programs.is_empty())
            .collect();
        if ran.is_empty() {
            if !is_asked {
                return ExitStatus::Done;
            }
            out.line("nothing was measured: no run succeeded");
            return ExitStatus::RunsFailed;
        }
        if is_asked || !self.programs.is_empty() {
            let text = format!(
                "0 of {} measured: {}",
                counted(cells, "cell"),
                self.why(&ran)
            );
            out.say(text);
        }
        if is_asked {
            ExitStatus::CannotTell
        } else {
            ExitStatus::Done
        }
    }

    /// Explains why no cell of these tables comes from campaigns that do have runs.
    fn why(&self, ran: &[&measure::ReadCampaign]) -> String {
        let list = |programs: &IndexSet<String>| {
            let names: Vec<&str> = programs.iter().map(String::as_str).collect();
            names.join(", ")
        };
        let has: Vec<String> = ran
            .iter()
            .map(|c| format!("{} has {}", shown(&c.dir), list(&c.programs)))
            .collect();
        let has = has.join(", ");
        if self.programs.is_empty() {
            return format!(
                "{has}, and {} defines runs for none of these tables",
                rerun::FILE
            );
        }
        let other = if ran.iter().any(|c| !c.programs.is_disjoint(&self.programs)) {
            ", in other classes, mappings or MPI libraries, or without the required records"
        } else {
            ""
        };
        format!(
            "{has}; these tables are about {}{other}",
            list(&self.programs)
        )
    }
}

/// Returns the directories that are searched for papers, in order of precedence.
fn directories(args: &ReproduceArgs) -> Result<Vec<PathBuf>, Failure> {
    let mut dirs = Vec::new();
    if let Some(given) = &args.papers {
        if !given.is_dir() {
            let hint = "give a directory with a folder per paper with --papers".to_owned();
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: format!("unknown directory {given}"),
                hint: Some(hint),
            });
        }
        dirs.push(given.clone().into_std_path_buf());
    }
    dirs.extend(
        ["experiments/papers", "papers"]
            .into_iter()
            .map(PathBuf::from)
            .filter(|d| d.is_dir()),
    );
    dirs.push(paper::embedded::directory()?);
    Ok(dirs)
}

/// Returns the folder of a paper, given the folder's path or the paper's name.
fn folder(paper: &Utf8Path, dirs: &[PathBuf]) -> Result<Utf8PathBuf, Failure> {
    if paper.join("paper.toml").is_file() {
        return Ok(paper.to_owned());
    }
    let found = paper::find(paper.as_str(), dirs).and_then(|p| Utf8PathBuf::from_path_buf(p).ok());
    found.ok_or_else(|| Failure::Other {
        status: ExitStatus::Usage,
        message: format!("unknown paper `{paper}`"),
        hint: Some(format!(
            "built in: {}; for others, give the folder with paper.toml",
            paper::known(dirs).join(", ")
        )),
    })
}

/// Returns the identifiers of the requested tables.
fn tables<'p>(paper: &'p Paper, asked: &[String]) -> Result<Vec<&'p str>, Failure> {
    let find = |id: &String| {
        paper
            .table(id)
            .map(|t| t.definition.id.as_str())
            .ok_or_else(|| {
                let known: Vec<&str> = paper
                    .tables
                    .iter()
                    .map(|t| t.definition.id.as_str())
                    .collect();
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                Failure::Other {
                    status: ExitStatus::Usage,
                    message: format!("{} has no table `{id}`", paper.id),
                    hint: Some(format!("its tables: {known}")),
                }
            })
    };
    asked.iter().map(find).collect()
}

fn list_papers(dirs: &[PathBuf]) -> Result<Blocks, Failure> {
    let mut out = Blocks::default();
    let mut rows = Table::plain(["paper", "tables", "wrong or doubtful", "title"]).wrap(&["title"]);
    for name in paper::known(dirs) {
        let Some(folder) = paper::find(&name, dirs) else {
            continue;
        };
        let paper = paper::load(&folder)?;
        let tables = match paper.tables.len() {
            0 => "none".to_owned(),
            n => n.to_string(),
        };
        rows.row([name, tables, paper.anomalies.len().to_string(), paper.title]);
    }
    out.table(rows);
    Ok(out)
}

fn list_tables(out: &mut Blocks, paper: &Paper) {
    if paper.tables.is_empty() {
        out.line(format!(
            "{} has no tables here, but {} that are wrong or doubtful: cvc reproduce {}",
            paper.id,
            counted(paper.anomalies.len(), "place"),
            paper.id
        ));
        return;
    }
    let mut rows = Table::plain(["table", "page", "rows", "about"]).wrap(&["about"]);
    for t in &paper.tables {
        let d = &t.definition;
        rows.row([
            d.id.clone(),
            d.page.map(|p| p.to_string()).unwrap_or_default(),
            t.rows().len().to_string(),
            d.caption.clone(),
        ]);
    }
    out.table(rows);
}

/// A column of the overview: its heading, its count, and the meaning of the heading.
struct Counted {
    heading: &'static str,
    of: fn(&CellCounts) -> usize,
    meaning: &'static str,
}

/// The columns of the overview after the number of cells. The table with all of them fits a terminal of 80 columns.
const COUNTED: [Counted; 9] = [
    Counted {
        heading: Mark::Equal.word(),
        of: |c| c.equal,
        meaning: Mark::Equal.meaning(),
    },
    Counted {
        heading: Mark::Inferred.word(),
        of: |c| c.inferred,
        meaning: Mark::Inferred.meaning(),
    },
    Counted {
        heading: Mark::Within.word(),
        of: |c| c.within,
        meaning: Mark::Within.meaning(),
    },
    Counted {
        heading: Mark::Differs.word(),
        of: |c| c.differs,
        meaning: Mark::Differs.meaning(),
    },
    Counted {
        heading: Mark::Wrong.word(),
        of: |c| c.wrong,
        meaning: Mark::Wrong.meaning(),
    },
    Counted {
        heading: Mark::Cannot.word(),
        of: |c| c.cannot,
        meaning: Mark::Cannot.meaning(),
    },
    Counted {
        heading: "here",
        of: |c| c.measured,
        meaning: "measured here too",
    },
    Counted {
        heading: "agree",
        of: |c| c.agree,
        meaning: "of these, within tolerance",
    },
    Counted {
        heading: "explained",
        of: |c| c.explained,
        meaning: "of these, different for a known reason",
    },
];

/// Prints the overview: the counts of each table's cells by outcome, without empty columns, and the meaning of the headings.
fn summary(out: &mut Blocks, judged: &Reproduction) {
    let total = total(judged);
    if total.judged == 0 {
        return;
    }
    out.line(format!("{}:", total.checked()));
    out.item(1, total.outcomes());
    out.gap();
    let shown: Vec<&Counted> = COUNTED.iter().filter(|c| (c.of)(&total) > 0).collect();
    let header = ["table", "cells"]
        .into_iter()
        .chain(shown.iter().map(|c| c.heading));
    let mut rows = Table::plain(header);
    let line = |name: &str, c: &CellCounts| {
        let counts = shown.iter().map(|column| (column.of)(c).to_string());
        [name.to_owned(), c.judged.to_string()]
            .into_iter()
            .chain(counts)
            .collect::<Vec<_>>()
    };
    let (numbers, texts): (Vec<_>, Vec<_>) =
        judged.tables.iter().partition(|t| t.counts.judged > 0);
    for t in &numbers {
        rows.row(line(&t.definition.id, &t.counts));
    }
    if numbers.len() > 1 {
        rows.row(line("all", &total));
    }
    out.table(rows);
    for column in shown {
        let text = format!("{}: {}", column.heading, column.meaning);
        out.item(1, text);
    }
    for t in &numbers {
        if let Some(fault) = t.probable_fault() {
            out.item(
                1,
                format!("table {}: {}", t.definition.id, fault.difference),
            );
            out.item(2, fault.because);
        }
    }
    if !texts.is_empty() {
        let names: Vec<&str> = texts.iter().map(|t| t.definition.id.as_str()).collect();
        let text = format!("no cells to judge in: {}", names.join(", "));
        out.item(1, text);
    }
    out.gap();
}

/// Lists the misprinted cells of all tables. For a paper without tables, lists the places in its text that are wrong or doubtful.
fn found(out: &mut Blocks, judged: &Reproduction) {
    let misprints = paper::misprints(judged);
    if !misprints.is_empty() {
        let header = ["table", "page", "where", "printed", "likely", "confidence"];
        let mut rows = Table::plain(header).wrap(&["where", "printed", "likely"]);
        for m in &misprints {
            let page = m.table.page.map(|p| p.to_string()).unwrap_or_default();
            rows.row([
                m.table.id.clone(),
                page,
                format!("{}: {}", m.about, m.column.heading),
                m.printed.to_owned(),
                m.likely.to_owned(),
                m.confidence.word().to_owned(),
            ]);
        }
        rows.fallback_width = Some(80);
        out.line(format!(
            "{} wrong in print:",
            counted(misprints.len(), "cell")
        ));
        out.table(rows);
        out.gap();
    }
    if judged.tables.is_empty() {
        let header = ["where", "item", "printed", "likely", "confidence"];
        let mut rows = Table::plain(header).wrap(&["where", "item", "printed", "likely"]);
        for a in &judged.anomalies {
            let texts = [&a.table, &a.cell, &a.printed, &a.likely].map(Clone::clone);
            rows.row(texts.into_iter().chain([a.confidence.word().to_owned()]));
        }
        rows.fallback_width = Some(80);
        let places = counted(judged.anomalies.len(), "place");
        out.line(format!(
            "{} has no table here; {places} wrong or doubtful:",
            judged.paper
        ));
        out.table(rows);
        out.gap();
    }
}

/// Prints the counts of the paper's claims by outcome, and lists the claims that do not hold.
fn claims(out: &mut Blocks, claims: &[ClaimOutcome]) {
    if claims.is_empty() {
        return;
    }
    let counts = ClaimCounts::of(claims).describe();
    out.line(format!("{}: {counts}", counted(claims.len(), "claim")));
    let header = ["section", "claim", "verdict", "because"];
    let mut rows = Table::plain(header).wrap(&header);
    for claim in claims {
        if claim.verdict != ClaimVerdict::Holds {
            rows.row([
                claim.section.clone(),
                claim.says.clone(),
                claim.verdict.describe().to_owned(),
                claim.why(),
            ]);
        }
    }
    rows.fallback_width = Some(80);
    out.table(rows);
    out.gap();
}
