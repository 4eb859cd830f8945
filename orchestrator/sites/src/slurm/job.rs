//! The description of a job, and its script.

use super::error::SlurmError;
use camino::Utf8PathBuf;
use cvc_core::campaign::SlurmSettings;
use cvc_core::campaign::WARNING_S;
use cvc_engine::render;
use serde_json::json;

/// A job to submit. Its name is the lease's and must be unique, because the job is found again by it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRequest {
    /// Name of the job.
    pub name: String,
    /// Nodes.
    pub nodes: u32,
    /// Maximum number of ranks on a node, where nodes are shared and cores must be requested.
    pub tasks_per_node: Option<u32>,
    /// Directory, on storage that login node and nodes share: working directory of the job, where its script and its output go.
    pub dir: Utf8PathBuf,
    /// What it runs on its first node.
    pub argv: Vec<String>,
    /// The site's options for jobs; `nodes` above takes precedence over the one here.
    pub settings: SlurmSettings,
}

impl JobRequest {
    /// The time limit in minutes, as Slurm counts: rounded up.
    pub fn time_limit_min(&self) -> u64 {
        (self.settings.time_limit_s / 60.0).ceil().max(1.0) as u64
    }

    /// Path of its script.
    pub fn script_path(&self) -> Utf8PathBuf {
        self.dir.join(format!("{}.job.sh", self.name))
    }

    /// Path of its output. All attempts of a requeued job write to one file.
    pub fn output_path(&self) -> Utf8PathBuf {
        self.dir.join(format!("{}.job.out", self.name))
    }

    /// Its script.
    pub fn script(&self) -> Result<String, SlurmError> {
        let s = &self.settings;
        let mut options: Vec<(&str, Option<String>)> = vec![
            ("job-name", Some(self.name.clone())),
            ("nodes", Some(self.nodes.to_string())),
            (
                "ntasks-per-node",
                self.tasks_per_node.map(|t| t.to_string()),
            ),
            ("time", Some(self.time_limit_min().to_string())),
            ("signal", Some(format!("B:TERM@{WARNING_S}"))),
            ("chdir", Some(self.dir.to_string())),
            // a percent sign begins what Slurm fills in
            (
                "output",
                Some(self.output_path().as_str().replace('%', "%%")),
            ),
            ("open-mode", Some("append".into())),
            ("partition", s.partition.clone()),
            ("account", s.account.clone()),
            ("constraint", s.constraint.clone()),
            ("qos", s.qos.clone()),
            ("reservation", s.reservation.clone()),
        ];
        options.retain(|(_, value)| value.is_some());
        let mut flags = vec![if s.requeue { "requeue" } else { "no-requeue" }];
        if s.exclusive {
            flags.push("exclusive");
        }
        let values = options
            .iter()
            .filter_map(|(name, value)| Some((*name, value.as_ref()?)));
        let mut all: Vec<serde_json::Value> = Vec::new();
        for (name, value) in values {
            if value.chars().any(char::is_control) {
                return Err(SlurmError::Request(format!(
                    "--{name}={value:?} has a control character, which a job's script cannot hold"
                )));
            }
            all.push(json!({ "name": name, "value": value }));
        }
        let values = json!({ "name": self.name, "cvc": env!("CARGO_PKG_VERSION"), "options": all, "flags": flags, "argv": self.argv });
        Ok(render::render(render::Template::SLURM_JOB, &values)?)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use cvc_core::campaign::{Allocation, SlurmLauncher};

    pub(in crate::slurm) fn request() -> JobRequest {
        JobRequest {
            name: "cvc-7f3a".into(),
            nodes: 4,
            tasks_per_node: None,
            dir: "/shared/my runs/100%".into(),
            argv: vec![
                "/shared/bin/cvc-node".into(),
                "agent".into(),
                "/shared/my runs/100%".into(),
            ],
            settings: SlurmSettings {
                nodes: 4,
                partition: Some("debug".into()),
                account: Some("physics".into()),
                constraint: Some("rome|milan".into()),
                qos: None,
                reservation: None,
                time_limit_s: 601.0,
                exclusive: true,
                allocation: Allocation::Campaign,
                requeue: false,
                queue_limit_s: None,
                launcher: SlurmLauncher::Library,
                sbatch_args: vec![],
            },
        }
    }

    #[test]
    fn the_script_asks_for_what_the_site_says() {
        insta::assert_snapshot!(
            request()
                .script()
                .expect("renders")
                .replace(env!("CARGO_PKG_VERSION"), "0.0.0")
        );
        let mut other = request();
        other.settings.constraint = Some("a\n#SBATCH --uid=0".into());
        assert!(
            other
                .script()
                .expect_err("two lines")
                .to_string()
                .contains("control character")
        );
    }

    #[test]
    fn time_is_counted_in_whole_minutes() {
        let mut request = request();
        for (seconds, minutes) in [(1.0, 1), (60.0, 1), (60.5, 2), (601.0, 11)] {
            request.settings.time_limit_s = seconds;
            assert_eq!(request.time_limit_min(), minutes, "{seconds}");
        }
    }
}
