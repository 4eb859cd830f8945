//! Sizes of problems: the workload variables that are sizes, and workloads that are named by a size.
//!
//! `n=48` is the [base](Sizes::base) workload with another size; `S,n=48` is the workload S with another size.

use super::{
    descriptor::{Descriptor, Sizes, Workload},
    embedded, formula,
};
use crate::{
    point::UserValue,
    source::{Explained, suggestion},
};
use serde::Serialize;
use std::borrow::Cow;

/// The size of a problem on a given number of processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProblemSize {
    /// Size, in `unit`; if `each_process` is true, the size for each process.
    pub count: f64,
    /// Unit of the size.
    pub unit: String,
    /// Whether each process has a problem of this size.
    pub each_process: bool,
    /// Number of operations of the program, if the descriptor declares it.
    #[serde(skip)]
    pub work: Option<f64>,
    /// Size of one of the program's own checkpoints, if the descriptor declares it.
    #[serde(skip)]
    pub own_checkpoint: Option<OwnCheckpointSize>,
}

/// Size of one of a program's own checkpoints, as its descriptor declares it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnCheckpointSize {
    /// Bytes of all files of the checkpoint, without headers.
    pub bytes: f64,
    /// Number of collective writes of the checkpoint, in equal parts.
    pub writes: Option<f64>,
    /// Number of these parts that are read while the checkpoint is written.
    pub reads: Option<f64>,
}

/// Splits `VAR=VALUE`, a part of a workload's name; `None` if the part does not have this form.
fn assigned(part: &str) -> Option<(&str, &str)> {
    part.split_once('=')
}

impl Descriptor {
    /// Returns the workload of this name (`A`) or of this size (`n=48`, `A,nx=48,ny=64`).
    ///
    /// # Errors
    /// There is no such workload, for this reason; with a hint.
    pub fn workload(&self, class: &str) -> Result<Cow<'_, Workload>, Explained> {
        if let Some(named) = self.workloads.get(class) {
            return Ok(Cow::Borrowed(named));
        }
        if !class.contains('=') {
            return Err(self.no_class(class));
        }
        let sizes = self.size.as_ref().ok_or_else(|| {
            Explained::new(
                format!(
                    "{} has no sizes to set, so it has no class `{class}`",
                    self.name
                ),
                "use a class of the descriptor, or list its size variables in `vars` of [size]",
            )
        })?;
        let (base, parts) = match class.split_once(',') {
            Some((base, parts)) if !base.contains('=') => (Some(base), parts),
            _ => (sizes.base.as_deref(), class),
        };
        let base = base.ok_or_else(|| {
            Explained::new(
                format!("`{class}` leaves other sizes of the problem open"),
                format!(
                    "begin with a class, as in `{},{class}`",
                    self.workloads.keys().next().map_or("A", String::as_str)
                ),
            )
        })?;
        let known = self
            .workloads
            .get(base)
            .ok_or_else(|| self.no_class(base))?;
        let mut workload = known.clone();
        let mut given: Vec<&str> = Vec::new();
        for part in parts.split(',') {
            let (name, text) = assigned(part).ok_or_else(|| {
                Explained::new(
                    format!("`{part}` gives no size"),
                    format!("write sizes as in `{}`", sizes.example()),
                )
            })?;
            if !sizes.vars.iter().any(|var| var == name) {
                return Err(Explained::new(
                    format!("`{name}` is not a size of {}", self.name),
                    suggestion(name, "its sizes", sizes.vars.iter().map(String::as_str)),
                ));
            }
            if given.contains(&name) {
                return Err(Explained::new(
                    format!("`{name}` is given twice in `{class}`"),
                    "give each size once",
                ));
            }
            let value = value_like(workload.vars.get(name), text).ok_or_else(|| {
                Explained::new(
                    format!("`{part}`: `{text}` is not a valid size"),
                    "write a whole number, 1 or more, without leading zeros",
                )
            })?;
            workload.vars.insert(name.to_owned(), value);
            given.push(name);
        }
        self.check_spelling(sizes, class, base, &workload, &given)?;
        workload.title = format!(
            "{}, with {}",
            known.title,
            parts.replace('=', " = ").replace(',', ", ")
        );
        self.scale(sizes, known, &mut workload);
        Ok(Cow::Owned(workload))
    }

    fn no_class(&self, class: &str) -> Explained {
        let names = self.workloads.keys().map(String::as_str);
        let mut hint = suggestion(class, "its classes", names);
        if let Some(sizes) = &self.size {
            hint += &format!("; or a size, as in `{}`", sizes.example());
        }
        Explained::new(format!("{} has no class `{class}`", self.name), hint)
    }

    /// Refuses a second spelling of the same workload. A point's name identifies its runs, so each workload must have one spelling.
    fn check_spelling(
        &self,
        sizes: &Sizes,
        class: &str,
        base: &str,
        workload: &Workload,
        given: &[&str],
    ) -> Result<(), Explained> {
        let twin = self
            .workloads
            .iter()
            .find(|(_, of)| of.vars == workload.vars);
        let inherited = self.workloads.get(base);
        let parts = sizes
            .vars
            .iter()
            .filter(|var| given.contains(&var.as_str()))
            .filter_map(|var| {
                let value = workload.vars.get(var)?;
                let differs = inherited.and_then(|of| of.vars.get(var)) != Some(value);
                differs.then(|| format!("{var}={value}"))
            });
        let is_base = sizes.base.as_deref() == Some(base);
        let begin = (!is_base).then(|| base.to_owned());
        let written = match twin {
            Some((name, _)) => name.clone(),
            None => begin.into_iter().chain(parts).collect::<Vec<_>>().join(","),
        };
        if written == class {
            return Ok(());
        }
        Err(Explained::new(
            format!("`{class}` is an alias of `{written}`"),
            format!("write `{written}`: a workload has one name, so its runs can be found"),
        ))
    }

    /// Sets the estimated time, memory and output of a workload, scaled from those of the base workload.
    fn scale(&self, sizes: &Sizes, base: &Workload, workload: &mut Workload) {
        let ratio = |formula: &str| {
            let of = |workload: &Workload| evaluate(formula, workload, 1).ok();
            Some(of(workload)? / of(base).filter(|v| *v > 0.0)?)
        };
        let count = ratio(&sizes.formula());
        let work = sizes.work.as_deref().map_or(count, ratio);
        let bytes = self
            .checkpoint
            .as_ref()
            .and_then(|own| own.bytes.as_deref());
        let bytes = bytes.map_or(count, ratio);
        let scaled = |value: Option<f64>, by: Option<f64>| Some(value? * by?);
        workload.core_s = scaled(workload.core_s, work);
        workload.data_mib = scaled(workload.data_mib, count);
        workload.output_mib = scaled(workload.output_mib, bytes);
    }

    /// Returns the problem size of a workload on this number of processes; `None` if the descriptor does not declare it.
    pub fn problem_size(&self, class: &str, processes: u32) -> Option<ProblemSize> {
        let sizes = self.size.as_ref()?;
        let workload = self.workload(class).ok()?;
        let value = |formula: &String| evaluate(formula, &workload, processes).ok();
        let own = self.checkpoint.as_ref();
        Some(ProblemSize {
            count: value(&sizes.formula())?,
            unit: sizes.unit.clone(),
            each_process: sizes.each_process,
            work: sizes.work.as_ref().and_then(value),
            own_checkpoint: own.and_then(|own| {
                Some(OwnCheckpointSize {
                    bytes: value(own.bytes.as_ref()?)?,
                    writes: own.writes.as_ref().and_then(value),
                    reads: own.reads.as_ref().and_then(value),
                })
            }),
        })
    }

    /// Returns the formulas that concern sizes, each with its section and key.
    pub(super) fn formulas(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static str, String)> + use<> {
        let size = self.size.as_ref();
        let own = self.checkpoint.as_ref();
        let all = [
            ("size", "count", size.map(Sizes::formula)),
            ("size", "work", size.and_then(|s| s.work.clone())),
            ("checkpoint", "bytes", own.and_then(|c| c.bytes.clone())),
            ("checkpoint", "writes", own.and_then(|c| c.writes.clone())),
            ("checkpoint", "reads", own.and_then(|c| c.reads.clone())),
        ];
        all.into_iter()
            .filter_map(|(section, key, text)| Some((section, key, text?)))
    }
}

impl ProblemSize {
    /// Returns the size according to the built-in descriptor of an application. If there is none, returns the product of the sizes in the class name,
    /// as in `n=100` or `nx=10,ny=20`.
    pub fn by_embedded(app: &str, class: &str, processes: u32) -> Option<Self> {
        if let Some(descriptor) = embedded::descriptor(app) {
            return descriptor.problem_size(class, processes);
        }
        let parts = class.split(',').map(|part| {
            let (var, text) = assigned(part)?;
            Some((
                var,
                text.parse()
                    .ok()
                    .filter(|v: &f64| v.is_finite() && *v > 0.0)?,
            ))
        });
        let parts = parts.collect::<Option<Vec<_>>>()?;
        let vars: Vec<&str> = parts.iter().map(|(var, _)| *var).collect();
        Some(Self {
            count: parts.iter().map(|(_, value)| value).product(),
            unit: format!("({})", vars.join("·")),
            each_process: false,
            work: None,
            own_checkpoint: None,
        })
    }

    /// Returns the size for one process.
    pub fn share(&self, processes: u32) -> f64 {
        if self.each_process {
            self.count
        } else {
            self.count / f64::from(processes.max(1))
        }
    }

    /// Returns the size for all processes together.
    pub fn whole(&self, processes: u32) -> f64 {
        if self.each_process {
            self.count * f64::from(processes)
        } else {
            self.count
        }
    }
}

/// Returns the value of a formula for a workload on this number of processes; it is finite and above 0.
///
/// # Errors
/// The problem with the formula or its value.
pub(super) fn evaluate(formula: &str, workload: &Workload, processes: u32) -> Result<f64, String> {
    let variable = |name: &str| match workload.vars.get(name) {
        Some(UserValue::Integer(value)) => Some(*value as f64),
        Some(UserValue::Float(value)) => Some(*value),
        Some(UserValue::Bool(_) | UserValue::Text(_)) => None,
        None => (name == "processes").then_some(f64::from(processes)),
    };
    match formula::evaluate(formula, &variable) {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        Ok(value) => Err(format!("the formula `{formula}` is {value}")),
        Err(problem) => Err(problem),
    }
}

/// Parses a value above 0 of the same type as the variable. The text must be the form in which the value is printed.
fn value_like(known: Option<&UserValue>, text: &str) -> Option<UserValue> {
    let value = match known {
        Some(UserValue::Float(_)) => UserValue::Float(
            text.parse()
                .ok()
                .filter(|v: &f64| v.is_finite() && *v > 0.0)?,
        ),
        _ => UserValue::Integer(text.parse().ok().filter(|v| *v > 0)?),
    };
    (value.to_string() == text).then_some(value)
}

#[cfg(test)]
mod tests {
    use crate::app::embedded;

    #[test]
    fn a_size_is_a_workload_with_one_name() {
        let app = embedded::descriptor("kernel-stencil").expect("it is carried");
        let workload = app.workload("n=48").expect("a size");
        assert_eq!(
            workload.vars.get("n").map(ToString::to_string).as_deref(),
            Some("48")
        );
        assert_eq!(
            workload.vars.get("steps"),
            app.workloads["A"].vars.get("steps")
        );
        let data = app.workloads["A"].data_mib.expect("roughly");
        assert!((workload.data_mib.expect("roughly") / data - 0.125).abs() < 1e-9);
        assert_eq!(
            app.workload("S,n=48").expect("a size").vars["steps"].to_string(),
            "60"
        );
        let size = app.problem_size("n=48", 4).expect("a size");
        assert_eq!((size.count, size.share(4)), (110_592.0, 27_648.0));
        for (class, part) in [
            ("g150", "or a size, as in `n=48`"),
            ("n=96", "write `A`"),
            ("A,n=48", "write `n=48`"),
            ("A,n=96", "write `A`"),
            ("n=048", "not a valid size"),
            ("n=-3", "not a valid size"),
            ("n=", "not a valid size"),
            ("n=4,n=5", "each size once"),
            ("m=4", "its sizes: n"),
            ("steps=4", "its sizes: n"),
            ("Q,n=4", "its classes"),
            ("n=4,", "write sizes as"),
        ] {
            let refused = app.workload(class).expect_err(class);
            let text = format!("{} ({})", refused.message, refused.hint.unwrap_or_default());
            assert!(text.contains(part), "{class}: {text}");
        }
        let whole = embedded::descriptor("npb-bt").expect("it is carried");
        assert!(
            whole
                .workload("n=4")
                .is_err_and(|e| e.message.contains("no sizes"))
        );
    }
}
