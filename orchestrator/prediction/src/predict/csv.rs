//! Reads observations from a table: one observation per line, columns with names and units.

use super::{
    environment::{Environment, KernelEra, ZoneRules},
    error::PredictError,
    observation::Observation,
    setting::{RunSetting, mpi_kind_of_name},
};
use camino::Utf8Path;
use cvc_core::app::size::ProblemSize;
use cvc_core::mapping::Mapping;
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_core::source::{SourceText, suggestion};
use cvc_core::units::ByteSize;
use cvc_index::csv;
use cvc_model::MpiKind;
use std::{collections::BTreeMap, str::FromStr};

/// Columns other than quantities.
const FACTORS: [&str; 13] = [
    "app",
    "class",
    "mapping",
    "processes",
    "mpi",
    "mpi_kind",
    "compression",
    "aggregators",
    "cb_buffer",
    "dmtcp",
    "kernel",
    "zones",
    "cores",
];

/// Quantities that are above 0 in every checkpoint.
const NEVER_ZERO: [Quantity; 8] = [
    Quantity::Dtapp,
    Quantity::Lb,
    Quantity::Image,
    Quantity::File,
    Quantity::Ranks,
    Quantity::Stored,
    Quantity::Latency,
    Quantity::App,
];

/// Reads a table of observations from a file. Quoted fields may contain commas, empty cells are values that were not observed, and lines that begin
/// with # are skipped.
///
/// # Errors
/// The first problem, with line, column and hint.
pub fn from_csv(path: &Utf8Path) -> Result<Vec<Observation>, PredictError> {
    let bytes = std::fs::read(path).map_err(|e| {
        let hint = match e.kind() {
            std::io::ErrorKind::NotFound => {
                "give a file that exists; --from takes a campaign's name or directory too"
            }
            _ => "give a table that can be read",
        };
        PredictError::Unreadable {
            path: path.to_owned(),
            message: e.to_string(),
            hint: hint.into(),
        }
    })?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()]
            .iter()
            .filter(|b| **b == b'\n')
            .count();
        wrong(
            path,
            line,
            "the line is not UTF-8 text",
            "save the table as UTF-8, as in `iconv -f latin1 -t utf-8`",
        )
    })?;
    parse(path, &text)
}

/// Parses the text of a table.
///
/// # Errors
/// The first problem, with line, column and hint.
pub fn parse(path: &Utf8Path, text: &str) -> Result<Vec<Observation>, PredictError> {
    let source = SourceText {
        path: path.into(),
        text: text.into(),
    };
    let records = csv::records(&source, Some(b'#')).map_err(|e| {
        let line = e.position().map_or(1, |(line, _)| line);
        wrong(path, line, e.message, e.hint.unwrap_or_default())
    })?;
    let (head, rows) = records.split_first().ok_or_else(|| {
        wrong(
            path,
            1,
            "the table is empty",
            "write a line with the names of the columns first",
        )
    })?;
    let texts = |record: &csv::CsvRecord| -> Vec<String> {
        let trimmed = record
            .fields
            .iter()
            .map(|field| field.text.trim().to_owned());
        trimmed.collect()
    };
    let columns = Columns::of(path, head.line, &texts(head))?;
    let amounts = || columns.quantities.iter().map(|(_, place)| *place);
    let decimal = csv::Decimal::of_rows(rows, amounts).map_err(|(line, text)| {
        wrong(
            path,
            line,
            format!("`{text}` may be a thousand or a fraction"),
            "write numbers with a decimal point, without separators of thousands",
        )
    })?;
    let observations: Vec<Observation> = rows
        .iter()
        .map(|record| {
            TableRow {
                path,
                line: record.line,
                columns: &columns,
                decimal,
                fields: texts(record),
            }
            .observation()
        })
        .collect::<Result<_, _>>()?;
    if observations.is_empty() {
        return Err(wrong(
            path,
            head.line,
            "the table has no rows",
            "write one line for each setting that was observed",
        ));
    }
    Ok(observations)
}

fn wrong(
    path: &Utf8Path,
    line: usize,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> PredictError {
    PredictError::Csv {
        path: path.to_owned(),
        line,
        message: message.into(),
        hint: hint.into(),
    }
}

/// The columns of a table, by name.
struct Columns {
    count: usize,
    factors: BTreeMap<&'static str, usize>,
    quantities: Vec<(Quantity, usize)>,
}

impl Columns {
    fn of(path: &Utf8Path, line: usize, names: &[String]) -> Result<Self, PredictError> {
        let mut columns = Self {
            count: names.len(),
            factors: BTreeMap::new(),
            quantities: Vec::new(),
        };
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                return Err(wrong(
                    path,
                    line,
                    format!("duplicate column `{name}`"),
                    "remove or rename one of them",
                ));
            }
            if let Some(factor) = FACTORS.iter().find(|f| *f == name) {
                columns.factors.insert(factor, place);
            } else if let Some(quantity) = Quantity::named(name) {
                columns.quantities.push((quantity, place));
            } else {
                let known = FACTORS
                    .iter()
                    .copied()
                    .chain(Quantity::ALL.iter().map(|q| q.name()));
                let hint = suggestion(name, "known columns", known);
                return Err(wrong(path, line, format!("unknown column `{name}`"), hint));
            }
        }
        for needed in ["app", "class", "mpi"] {
            if !columns.factors.contains_key(needed) {
                return Err(wrong(
                    path,
                    line,
                    format!("the column `{needed}` is missing"),
                    format!("add a column `{needed}`"),
                ));
            }
        }
        if !columns.factors.contains_key("mapping") && !columns.factors.contains_key("processes") {
            return Err(wrong(
                path,
                line,
                "a column `mapping` or `processes` is missing",
                "add `mapping` (2Nx8P), or `processes` if all ran on one node",
            ));
        }
        if columns.quantities.is_empty() {
            let known: Vec<&str> = Quantity::ALL.iter().map(|q| q.name()).collect();
            return Err(wrong(
                path,
                line,
                "a column with a quantity is missing",
                format!("add one or more of {}", known.join(", ")),
            ));
        }
        Ok(columns)
    }
}

/// A line below the header.
struct TableRow<'a> {
    path: &'a Utf8Path,
    line: usize,
    columns: &'a Columns,
    decimal: csv::Decimal,
    fields: Vec<String>,
}

impl TableRow<'_> {
    fn observation(&self) -> Result<Observation, PredictError> {
        if self.fields.len() != self.columns.count {
            let (found, needed) = (self.fields.len(), self.columns.count);
            let message = format!("expected {needed} fields as in the header, found {found}");
            return Err(self.wrong(
                message,
                "leave unobserved values empty; put text with commas in quotes",
            ));
        }
        let (app, class, mpi_name) = (
            self.needed("app")?,
            self.needed("class")?,
            self.needed("mpi")?,
        );
        let mapping = self.mapping()?;
        let mpi = self.kind(mpi_name)?;
        let compression = match self.text("compression") {
            None => Compression::None,
            Some(text) => text.parse().map_err(|_| {
                self.wrong(
                    format!("column `compression`: unknown value `{text}`"),
                    "write none, gzip or pigz",
                )
            })?,
        };
        let setting = RunSetting {
            size: ProblemSize::by_embedded(app, class, mapping.processes()),
            app: app.to_owned(),
            class: class.to_owned(),
            mapping,
            mpi_name: mpi_name.to_owned(),
            mpi,
            compression,
            aggregators: self.parsed(
                "aggregators",
                "a number of aggregators",
                "write a whole number, or leave it empty",
            )?,
            cb_buffer: self.parsed::<ByteSize>(
                "cb_buffer",
                "a size",
                "write it as in 16MiB, or leave it empty",
            )?,
        };
        let mut quantities = BTreeMap::new();
        for (quantity, place) in &self.columns.quantities {
            let text = self.fields[*place].as_str();
            if !text.is_empty() {
                quantities.insert(*quantity, self.amount(*quantity, text)?);
            }
        }
        Ok(Observation {
            id: format!("{}:{}", self.path, self.line),
            label: setting.label(),
            origin: self.path.to_string(),
            setting,
            environment: self.environment()?,
            cores: self.parsed(
                "cores",
                "a number of cores",
                "write a whole number, or leave it empty",
            )?,
            quantities,
            zone_ratios: BTreeMap::new(),
        })
    }

    fn environment(&self) -> Result<Option<Environment>, PredictError> {
        let (Some(dmtcp), kernel) = (self.text("dmtcp"), self.text("kernel")) else {
            return match self.text("zones") {
                None => Ok(None),
                Some(_) => Err(self.wrong(
                    "column `zones` has a value, but column `dmtcp` has none",
                    "write the version of DMTCP, as in 4.2.0",
                )),
            };
        };
        if let Some(release) = kernel.filter(|release| KernelEra::of_release(release).is_none()) {
            let message = format!("column `kernel`: `{release}` is not a release of Linux");
            return Err(self.wrong(
                message,
                "write what `uname -r` prints, as in 6.1.0, or leave it empty",
            ));
        }
        let zones = match self.text("zones") {
            None => ZoneRules::default(),
            Some(name) => ZoneRules::named(name).ok_or_else(|| {
                self.wrong(
                    format!("column `zones`: unknown value `{name}`"),
                    format!("write {}", ZoneRules::NAMES.join(" or ")),
                )
            })?,
        };
        let kernels: Vec<String> = kernel.map(str::to_owned).into_iter().collect();
        Ok(Environment::of_facts(&[dmtcp.to_owned()], &kernels)
            .map(|of| Environment { zones, ..of }))
    }

    fn wrong(&self, message: impl Into<String>, hint: impl Into<String>) -> PredictError {
        wrong(self.path, self.line, message, hint)
    }

    /// Returns the content of a column; `None` if the cell is empty or the column missing.
    fn text(&self, column: &str) -> Option<&str> {
        self.columns
            .factors
            .get(column)
            .map(|place| self.fields[*place].as_str())
            .filter(|text| !text.is_empty())
    }

    fn needed(&self, column: &str) -> Result<&str, PredictError> {
        self.text(column)
            .ok_or_else(|| self.wrong(format!("column `{column}` is empty"), "every line needs it"))
    }

    fn parsed<T: FromStr>(
        &self,
        column: &str,
        what: &str,
        hint: &str,
    ) -> Result<Option<T>, PredictError> {
        let Some(text) = self.text(column) else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| self.wrong(format!("column `{column}`: `{text}` is not {what}"), hint))
    }

    fn mapping(&self) -> Result<Mapping, PredictError> {
        let mapping = match self.text("mapping") {
            Some(text) => Some(text.parse::<Mapping>().map_err(|why| {
                self.wrong(
                    format!("column `mapping`: {why}"),
                    "see docs/campaign-file.md",
                )
            })?),
            None => None,
        };
        let processes: Option<u32> = self.parsed(
            "processes",
            "a number of processes",
            "write a whole number, 1 or more",
        )?;
        match (mapping, processes) {
            (_, Some(0)) => Err(self.wrong(
                "column `processes`: 0 is not a valid number of processes",
                "write a whole number, 1 or more",
            )),
            (Some(mapping), Some(p)) if mapping.processes() != p => Err(self.wrong(
                format!(
                    "column `processes` has {p}, but the mapping {mapping} has {}",
                    mapping.processes()
                ),
                "correct one of them, or remove the column `processes`",
            )),
            (Some(mapping), _) => Ok(mapping),
            (None, Some(p)) => Ok(Mapping::one_node(p)),
            (None, None) => Err(self.wrong(
                "the line has no number of processes",
                "fill in `mapping` or `processes`",
            )),
        }
    }

    fn kind(&self, mpi_name: &str) -> Result<MpiKind, PredictError> {
        match self.text("mpi_kind") {
            Some("nemesis") => Ok(MpiKind::Nemesis),
            Some("mpich") => Ok(MpiKind::Mpich),
            Some("open-mpi") => Ok(MpiKind::OpenMpi),
            Some(other) => Err(self.wrong(format!("column `mpi_kind`: unknown value `{other}`"), "write nemesis, mpich or open-mpi")),
            None => mpi_kind_of_name(mpi_name).ok_or_else(|| {
                self.wrong(
                    format!("column `mpi`: unknown kind of library `{mpi_name}`"),
                    "write mpich-ch3, mpich or openmpi, or add a column `mpi_kind` with nemesis, mpich or open-mpi",
                )
            }),
        }
    }

    fn amount(&self, quantity: Quantity, text: &str) -> Result<f64, PredictError> {
        let name = quantity.name();
        let parsed = text.parse().ok().or_else(|| self.decimal.number(text));
        let value: f64 = parsed.ok_or_else(|| {
            self.wrong(
                format!("column `{name}`: `{text}` is not a number"),
                "write digits with a decimal point, without a unit, or leave the field empty if it was not observed",
            )
        })?;
        if !value.is_finite() {
            return Err(self.wrong(
                format!("column `{name}`: {text} is not a valid amount"),
                "leave the field empty if it was not observed",
            ));
        }
        if value < 0.0 {
            let what = if quantity.unit() == "s" {
                "a time"
            } else {
                "a size"
            };
            return Err(self.wrong(
                format!("column `{name}`: {what} cannot be {text}"),
                "write 0 or more, or leave the field empty",
            ));
        }
        if value == 0.0 && NEVER_ZERO.contains(&quantity) {
            let message = format!("column `{name}`: {} is never 0", quantity.title());
            return Err(self.wrong(message, "leave the field empty if it was not observed"));
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use camino::Utf8Path;
    use cvc_core::point::Compression;
    use cvc_core::quantity::Quantity;
    use cvc_model::MpiKind;

    fn read(text: &str) -> Result<Vec<crate::predict::Observation>, String> {
        parse(Utf8Path::new("runs.csv"), text)
            .map_err(|e| format!("{e}\n  hint: {}", e.hint().unwrap_or("-")))
    }

    #[test]
    fn columns_go_by_name_and_empty_cells_are_not_observed() {
        let text = "# made by hand\nmpi,class,app,\"processes\",dtapp_mib,latency_s,compression\n\nmpich-ch3,A,npb-bt,4,28.81,,gzip\nopenmpi,A,\"a, \"\"b\"\"\",1,1e2,0.5,\n";
        let read = read(text).expect("observations");
        assert_eq!(read.len(), 2);
        assert_eq!(
            (read[0].id.as_str(), read[0].label.as_str()),
            ("runs.csv:4", "npb-bt.A 1Nx4P mpich-ch3 gzip")
        );
        assert_eq!(
            (read[0].setting.mpi, read[0].setting.compression),
            (MpiKind::Nemesis, Compression::Gzip)
        );
        assert_eq!(
            read[0].quantities.iter().collect::<Vec<_>>(),
            [(&Quantity::Dtapp, &28.81)]
        );
        assert_eq!(
            (read[1].setting.app.as_str(), read[1].value(Quantity::Dtapp)),
            ("a, \"b\"", Some(100.0))
        );
        assert_eq!(read[1].value(Quantity::Latency), Some(0.5));
    }

    #[test]
    fn a_table_of_another_country_is_read_too() {
        let table =
            "# export\napp;class; mapping;mpi\t;dtapp_mib;lb_mib\nnpb-bt;A;1Nx4P;openmpi;1,5;12\n";
        let read = parse(Utf8Path::new("runs.csv"), table).expect("observations");
        assert_eq!(read[0].value(Quantity::Dtapp), Some(1.5));
        assert_eq!(read[0].value(Quantity::Lb), Some(12.0));
    }

    #[test]
    fn each_wrong_table_is_refused_with_place_and_hint() {
        let good = "app,class,mapping,mpi,dtapp_mib\n";
        let tables = [
            ("nothing", String::new()),
            ("no rows", good.to_owned()),
            (
                "no app",
                "class,mapping,mpi,dtapp_mib\nA,1Nx4P,openmpi,1\n".into(),
            ),
            (
                "no processes",
                "app,class,mpi,dtapp_mib\nnpb-bt,A,openmpi,1\n".into(),
            ),
            (
                "no quantity",
                "app,class,mapping,mpi\nnpb-bt,A,1Nx4P,openmpi\n".into(),
            ),
            (
                "unknown column",
                "app,class,mapping,mpi,dtap_mib\nnpb-bt,A,1Nx4P,openmpi,1\n".into(),
            ),
            (
                "column twice",
                "app,class,mapping,mpi,lb_mib,lb_mib\nnpb-bt,A,1Nx4P,openmpi,1,1\n".into(),
            ),
            ("negative", format!("{good}npb-bt,A,1Nx4P,openmpi,-1.5\n")),
            (
                "text",
                format!("{good}npb-bt,A,1Nx1P,openmpi,2\nnpb-bt,A,1Nx4P,openmpi,12 MiB\n"),
            ),
            ("NaN", format!("{good}npb-bt,A,1Nx4P,openmpi,NaN\n")),
            ("infinite", format!("{good}npb-bt,A,1Nx4P,openmpi,1e999\n")),
            ("mapping", format!("{good}npb-bt,A,4,openmpi,1\n")),
            ("library", format!("{good}npb-bt,A,1Nx4P,intel,1\n")),
            ("too few fields", format!("{good}npb-bt,A,1Nx4P,openmpi\n")),
            (
                "thousand",
                "app;class;mapping;mpi;dtapp_mib\nnpb-bt;A;1Nx4P;openmpi;1,234\n".into(),
            ),
            ("zero", format!("{good}npb-bt,A,1Nx4P,openmpi,0\n")),
            ("open quote", format!("{good}\"npb-bt,A,1Nx4P,openmpi,1\n")),
            ("no class", format!("{good}npb-bt,,1Nx4P,openmpi,1\n")),
            (
                "two answers",
                "app,class,mapping,processes,mpi,lb_mib\nnpb-bt,A,2Nx4P,4,openmpi,1\n".into(),
            ),
            (
                "no processes at all",
                "app,class,processes,mpi,lb_mib\nnpb-bt,A,0,openmpi,1\n".into(),
            ),
            (
                "compression",
                "app,class,processes,mpi,compression,lb_mib\nnpb-bt,A,1,openmpi,zip,1\n".into(),
            ),
            (
                "zones",
                "app,class,processes,mpi,dmtcp,zones,lb_mib\nnpb-bt,A,1,openmpi,4.2.0,mine,1\n"
                    .into(),
            ),
            (
                "zones of what",
                "app,class,processes,mpi,zones,lb_mib\nnpb-bt,A,1,openmpi,owner,1\n".into(),
            ),
            (
                "aggregators",
                "app,class,processes,mpi,aggregators,lb_mib\nnpb-bt,A,1,openmpi,two,1\n".into(),
            ),
        ];
        let message: Vec<String> = tables
            .iter()
            .map(|(what, text)| format!("{what}: {}", read(text).expect_err(what)))
            .collect();
        insta::assert_snapshot!(message.join("\n"));
    }
}
