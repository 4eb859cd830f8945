//! Selects the observations to train on: factors and values as in the `when` of a campaign file, in one line: `processes=1,4,9 app=npb-bt`.

use super::{
    environment::{KernelEra, ZoneRules},
    error::PredictError,
    observation::Observation,
};
use cvc_core::mapping::Mapping;
use cvc_core::source::suggestion;
use serde::Serialize;

/// Factors of an observation that a filter may contain.
const FACTORS: [&str; 11] = [
    "app",
    "class",
    "mapping",
    "processes",
    "mpi",
    "compression",
    "aggregators",
    "cb_buffer",
    "dmtcp",
    "kernel",
    "zones",
];

/// Shown if an observation does not record DMTCP or the kernel.
const UNKNOWN: &str = "unknown";

/// Conditions that must all be met; each is a list of the permitted values of a factor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filter {
    text: String,
    conditions: Vec<(&'static str, Vec<String>)>,
}

impl Filter {
    /// Parses `FACTOR=VALUE[,VALUE…] …`.
    ///
    /// # Errors
    /// The first problem, with its hint.
    pub fn parse(text: &str) -> Result<Self, PredictError> {
        let wrong = |message: String, hint: &str| PredictError::Question {
            text: text.to_owned(),
            message,
            hint: hint.to_owned(),
        };
        let form = "write FACTOR=VALUE[,VALUE...], as in processes=1,4,9 app=npb-bt";
        let mut conditions = Vec::new();
        for word in text.split_whitespace() {
            let (name, values) = word
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{word}` is not a valid condition"), form))?;
            let factor = FACTORS.into_iter().find(|f| *f == name);
            let factor = factor.ok_or_else(|| {
                wrong(
                    format!("unknown factor `{name}`"),
                    &suggestion(name, "factors", FACTORS),
                )
            })?;
            let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
            for value in &values {
                let sound = match factor {
                    _ if value.is_empty() => false,
                    "processes" => value.parse::<u32>().is_ok_and(|p| p > 0),
                    "mapping" => value.parse::<Mapping>().is_ok(),
                    "zones" => ZoneRules::NAMES.contains(&value.as_str()) || value == UNKNOWN,
                    "kernel" => KernelEra::NAMES.contains(&value.as_str()) || value == UNKNOWN,
                    _ => true,
                };
                if !sound {
                    return Err(wrong(
                        format!("`{value}` is not a valid value of {factor}"),
                        form,
                    ));
                }
            }
            conditions.push((factor, values));
        }
        if conditions.is_empty() {
            return Err(wrong("the condition is missing".into(), form));
        }
        Ok(Self {
            text: text.to_owned(),
            conditions,
        })
    }

    /// Returns whether an observation meets all conditions.
    pub fn matches(&self, o: &Observation) -> bool {
        let or_default = |v: Option<String>| v.unwrap_or_else(|| "default".to_owned());
        self.conditions.iter().all(|(factor, values)| {
            let value = match *factor {
                "app" => o.setting.app.clone(),
                "class" => o.setting.class.clone(),
                "mapping" => o.setting.mapping.to_string(),
                "processes" => o.setting.mapping.processes().to_string(),
                "mpi" => o.setting.mpi_name.clone(),
                "compression" => o.setting.compression.to_string(),
                "dmtcp" => o
                    .environment
                    .as_ref()
                    .map_or(UNKNOWN, |e| &e.dmtcp)
                    .to_owned(),
                "kernel" => o
                    .environment
                    .as_ref()
                    .and_then(|e| e.kernel)
                    .map_or(UNKNOWN, KernelEra::name)
                    .to_owned(),
                "zones" => o
                    .environment
                    .as_ref()
                    .map_or(UNKNOWN, |e| e.zones.name())
                    .to_owned(),
                "aggregators" => or_default(o.setting.aggregators.map(|a| a.to_string())),
                _ => or_default(o.setting.cb_buffer.map(|b| b.to_string())),
            };
            values.contains(&value)
        })
    }
}

impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;
    use camino::Utf8Path;

    #[test]
    fn conditions_hold_together_and_values_one_by_one() {
        let table = "app,class,processes,mpi,lb_mib\nnpb-bt,A,4,openmpi,1\nnpb-bt,B,4,openmpi,1\nnpb-sp,A,9,openmpi,1\n";
        let all = super::super::csv::parse(Utf8Path::new("runs.csv"), table).expect("observations");
        let kept = |text: &str| {
            let filter = Filter::parse(text).expect("a filter");
            all.iter()
                .filter(|o| filter.matches(o))
                .map(|o| o.label.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(kept("processes=1,4 class=A"), ["npb-bt.A 1Nx4P openmpi"]);
        assert_eq!(kept("app=npb-sp"), ["npb-sp.A 1Nx9P openmpi"]);
        assert_eq!(kept("dmtcp=unknown kernel=unknown").len(), 3);
        assert!(kept("dmtcp=4.2.0").is_empty() && Filter::parse("kernel=6.1").is_err());
        assert_eq!(kept("aggregators=default mapping=1Nx4P").len(), 2);
        for wrong in [
            "",
            "processes",
            "processes=",
            "processes=two",
            "mapping=4",
            "node=1",
        ] {
            assert!(Filter::parse(wrong).is_err(), "{wrong}");
        }
    }
}
