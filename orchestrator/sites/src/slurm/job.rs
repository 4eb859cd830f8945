//! The description of a job to submit, and its script.

use super::error::SlurmError;
use camino::Utf8PathBuf;
use cvc_core::campaign::SlurmSettings;
use cvc_core::campaign::WARNING_S;
use cvc_engine::render;
use serde_json::json;

/// A job to submit. Its name is that of the lease and must be unique, because the job is later found by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRequest {
    /// Name of the job.
    pub name: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Maximum number of ranks on a node; set if nodes are shared with other jobs and cores must be requested.
    pub tasks_per_node: Option<u32>,
    /// Cores for each rank; set if processes have threads.
    pub cpus_per_task: Option<u32>,
    /// Working directory of the job, with its script and its output, on storage that login node and nodes share.
    pub dir: Utf8PathBuf,
    /// The command that the job runs on its first node.
    pub argv: Vec<String>,
    /// The site's options for jobs. Their number of nodes is replaced by `nodes`.
    pub settings: SlurmSettings,
}

impl JobRequest {
    /// Returns the path of the job's script.
    pub fn script_path(&self) -> Utf8PathBuf {
        self.dir.join(format!("{}.job.sh", self.name))
    }

    /// Returns the path of the job's output file. All attempts of a requeued job write to the same file.
    pub fn output_path(&self) -> Utf8PathBuf {
        self.dir.join(format!("{}.job.out", self.name))
    }

    /// Returns the text of the job's script.
    pub fn script(&self) -> Result<String, SlurmError> {
        let s = &self.settings;
        let mut options: Vec<(&str, Option<String>)> = vec![
            ("job-name", Some(self.name.clone())),
            ("nodes", Some(self.nodes.to_string())),
            (
                "ntasks-per-node",
                self.tasks_per_node.map(|t| t.to_string()),
            ),
            ("cpus-per-task", self.cpus_per_task.map(|c| c.to_string())),
            ("time", Some(self.settings.time_limit_min().to_string())),
            ("signal", Some(format!("B:TERM@{WARNING_S}"))),
            ("chdir", Some(self.dir.to_string())),
            // Slurm interprets a percent sign as the beginning of a placeholder
            (
                "output",
                Some(self.output_path().as_str().replace('%', "%%")),
            ),
            ("open-mode", Some("append".into())),
        ];
        options.extend(
            s.placement(self.nodes)
                .map(|(name, value)| (name, Some(value))),
        );
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
            cpus_per_task: None,
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
                nodelist: None,
                exclude: None,
                gpus_per_node: None,
                licenses: None,
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
            assert_eq!(request.settings.time_limit_min(), minutes, "{seconds}");
        }
    }
}
