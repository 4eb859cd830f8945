//! `cvc reproduce`

use super::{measure, report::formats};
use crate::{
    args::{MeasureArgs, ReproduceArgs},
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::shown,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::Format;
use cvc_core::units::counted;
use cvc_paper::paper::{self, Counts, Measurements, Paper, Reproduction};
use cvc_paper::rerun;
use cvc_show::{Blocks, Section, Table};
use indexmap::IndexSet;
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
    // before anything runs or is printed
    std::fs::create_dir_all(&to).map_err(|e| Failure::Other {
        status: ExitStatus::Store,
        message: format!("cannot create {to}: {e}"),
        hint: Some("--to names a directory for the report".into()),
    })?;
    let Some(rerun) = reruns(&folder, &paper, &only, &args.measure)? else {
        return Ok(ExitStatus::Interrupted);
    };
    let judged = paper::judge(&paper, &only, &rerun.measurements);
    let mut report = paper::report(&judged)?;
    report.sections.extend(rerun.sections);
    let wanted = if args.format.is_empty() {
        Format::ALL.to_vec()
    } else {
        formats(&args.format)
    };
    let mut files = Vec::new();
    for format in &wanted {
        // who asks for tables wants to \input these, and nothing else
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
    output::tell_blocks(&out);
    Ok(status)
}

/// What runs say of a paper's tables.
#[derive(Default)]
struct Rerun {
    measurements: Measurements,
    sections: Vec<Section>,
    provenance: Provenance,
    /// A line for each series that was measured.
    series: Vec<String>,
}

/// Joins what was measured with the wanted tables; `None` if the measuring was interrupted.
fn reruns(
    folder: &Utf8Path,
    paper: &Paper,
    only: &[&str],
    args: &MeasureArgs,
) -> Result<Option<Rerun>, Failure> {
    let (definition, mut joined, from) = match measure::measured(folder, paper, args)? {
        measure::Outcome::Nothing => return Ok(Some(Rerun::default())),
        measure::Outcome::Interrupted => return Ok(None),
        measure::Outcome::Joined {
            definition,
            joined,
            from,
        } => (definition, joined, from),
    };
    let is_wanted = |table: &str| only.is_empty() || only.contains(&table);
    joined.tables.retain(|t| is_wanted(&t.table));
    joined.differences.retain(|d| is_wanted(&d.table));
    let (sections, series) = if from.is_empty() {
        (Vec::new(), Vec::new())
    } else {
        (
            rerun::sections(paper, &joined, definition.note.as_deref())?,
            joined.series.iter().map(rerun::told).collect(),
        )
    };
    let by = from.iter().filter(|c| joined.is_measured_by(&c.name));
    Ok(Some(Rerun {
        measurements: joined.measurements(),
        sections,
        series,
        provenance: Provenance {
            programs: rerun::programs(paper, &definition, only),
            by: by.map(|c| c.dir.clone()).collect(),
            from,
        },
    }))
}

/// Names the written files, and how many tables a LaTeX file reads.
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

/// Which campaigns the measured cells come from.
#[derive(Default)]
struct Provenance {
    /// All that were read.
    from: Vec<measure::ReadCampaign>,
    /// The directories of those with a cell, a difference or a series.
    by: Vec<Utf8PathBuf>,
    /// The programs that the chosen tables are about.
    programs: IndexSet<String>,
}

impl Provenance {
    /// Says who measured how many cells, or why none was measured, and what the command ends with. `is_asked`: the user wants measurements.
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
        if !self.by.is_empty() {
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

    /// Why campaigns with runs have no cell of these tables.
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
                "{has}, and {} says of none of these tables which runs it is about",
                rerun::FILE
            );
        }
        let other = if ran.iter().any(|c| !c.programs.is_disjoint(&self.programs)) {
            ", in other classes, mappings or MPI libraries, or without the records that they need"
        } else {
            ""
        };
        format!(
            "{has}; these tables are about {}{other}",
            list(&self.programs)
        )
    }
}

/// The directories that are searched for papers, in this order.
fn directories(args: &ReproduceArgs) -> Result<Vec<PathBuf>, Failure> {
    let mut dirs = Vec::new();
    if let Some(given) = &args.papers {
        if !given.is_dir() {
            let hint = "--papers names a directory with a folder for each paper".to_owned();
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

/// The folder of a paper, given by its path or the paper's name.
fn folder(paper: &Utf8Path, dirs: &[PathBuf]) -> Result<Utf8PathBuf, Failure> {
    if paper.join("paper.toml").is_file() {
        return Ok(paper.to_owned());
    }
    let found = paper::find(paper.as_str(), dirs).and_then(|p| Utf8PathBuf::from_path_buf(p).ok());
    found.ok_or_else(|| Failure::Other {
        status: ExitStatus::Usage,
        message: format!("unknown paper `{paper}`"),
        hint: Some(format!(
            "built in: {}; for another one, give the folder that has its paper.toml",
            paper::known(dirs).join(", ")
        )),
    })
}

/// Identifiers of the requested tables.
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
    let mut rows = Table::plain(["paper", "tables", "errors known", "title"]).wrap(&["title"]);
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
            "{} has no table here, but {} that are wrong or doubtful: cvc reproduce {}",
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

/// A column of the overview: its heading, what it counts, and the meaning of the heading.
struct Counted {
    heading: &'static str,
    of: fn(&Counts) -> usize,
    meaning: &'static str,
}

/// The columns of the overview, behind the number of cells. A table of all of them fits a terminal of 80 columns.
const COUNTED: [Counted; 9] = [
    Counted {
        heading: "equal",
        of: |c| c.equal,
        meaning: "recomputed from the paper's own inputs, to the printed digits",
    },
    Counted {
        heading: "fitted",
        of: |c| c.inferred,
        meaning: "equal, by a constant read from these very cells: no evidence",
    },
    Counted {
        heading: "within",
        of: |c| c.within,
        meaning: "as near as rounded inputs or a stated tolerance allow",
    },
    Counted {
        heading: "differs",
        of: |c| c.differs,
        meaning: "recomputed, and another number",
    },
    Counted {
        heading: "wrong",
        of: |c| c.wrong,
        meaning: "a misprint",
    },
    Counted {
        heading: "given",
        of: |c| c.cannot,
        meaning: "a measurement or an input: nothing else in print determines it",
    },
    Counted {
        heading: "here",
        of: |c| c.measured,
        meaning: "measured here too",
    },
    Counted {
        heading: "agree",
        of: |c| c.agree,
        meaning: "of those, within their tolerance",
    },
    Counted {
        heading: "explained",
        of: |c| c.explained,
        meaning: "of those, different for a known reason",
    },
];

/// The overview: how the cells of each table came out, without columns that have nothing, and what its headings mean.
fn summary(out: &mut Blocks, judged: &Reproduction) {
    let total = judged
        .tables
        .iter()
        .fold(Counts::default(), |sum, t| sum.plus(t.counts));
    if total.judged == 0 {
        return;
    }
    let shown: Vec<&Counted> = COUNTED.iter().filter(|c| (c.of)(&total) > 0).collect();
    let header = ["table", "cells"]
        .into_iter()
        .chain(shown.iter().map(|c| c.heading));
    let mut rows = Table::plain(header);
    let line = |name: &str, c: &Counts| {
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
    if !texts.is_empty() {
        let names: Vec<&str> = texts.iter().map(|t| t.definition.id.as_str()).collect();
        let text = format!("nothing to judge in: {}", names.join(", "));
        out.item(1, text);
    }
    out.gap();
}

/// What is wrong in print: all misprints, and of a paper without tables the places that are wrong or doubtful.
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
        let header = ["where", "what", "printed", "likely", "confidence"];
        let mut rows = Table::plain(header).wrap(&["where", "what", "printed", "likely"]);
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
