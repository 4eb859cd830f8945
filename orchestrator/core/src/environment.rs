//! Environment variables that are withheld from other programs.

use std::{
    ffi::OsString,
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether this process must not act as a part of the Slurm job in which it was started.
static OUTSIDE_OF_JOB: AtomicBool = AtomicBool::new(false);

/// Withholds the variables of the Slurm job in which this process runs, if any, from all programs that it starts: `sbatch` would prefer them to a
/// script's own options, and `mpirun` would launch on the job's nodes. For the controller; an agent is part of its job.
pub fn leave_job() {
    let in_job = std::env::var_os("SLURM_JOB_ID").is_some();
    OUTSIDE_OF_JOB.store(in_job, Ordering::Relaxed);
}

fn is_of_job(name: &str) -> bool {
    const PREFIXES: [&str; 6] = ["SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "PMI_", "PMIX_"];
    // the path of Slurm's configuration belongs to the machine, not to the job
    name != "SLURM_CONF" && PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Parts of the names of variables that hold secrets.
const PARTS: [&str; 7] = [
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "ACCESS_KEY",
    "API_KEY",
    "JWT",
];

/// Returns whether a variable of this name may hold a secret.
pub fn may_hold_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // only whole words: `MONKEY` contains no key, and neither do `ANSIBLE_HOST_KEY_CHECKING` and `SSH_KEY_FILE`
    let is_key = name == "KEY" || name.ends_with("_KEY");
    name.starts_with("AWS_") || is_key || PARTS.iter().any(|part| name.contains(part))
}

/// Returns the names of this process's variables that are withheld from programs that it starts: variables that may hold a secret and, after
/// [`leave_job`], those of its Slurm job. Variables with names of files, as `ANSIBLE_VAULT_PASSWORD_FILE`, are not withheld, because users with
/// access can read the files anyway. Variables that begin with `AWS_` are always withheld.
pub fn withheld_variables() -> impl Iterator<Item = OsString> {
    std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| is_withheld(&name.to_string_lossy()))
}

/// Returns whether a variable of this name is withheld from programs that this process starts.
pub fn is_withheld(name: &str) -> bool {
    holds_secret(name) || OUTSIDE_OF_JOB.load(Ordering::Relaxed) && is_of_job(name)
}

fn holds_secret(name: &str) -> bool {
    may_hold_secret(name) && (name.starts_with("AWS_") || !name.ends_with("_FILE"))
}

#[cfg(test)]
mod tests {
    use super::{holds_secret, is_of_job};

    #[test]
    fn variables_of_jobs_are_known_by_their_names() {
        let of_job = ["SLURM_JOB_ID", "SBATCH_PARTITION", "PMIX_RANK"];
        assert!(of_job.iter().all(|name| is_of_job(name)));
        assert!(
            !["SLURM", "PATH", "OMPI_MCA_btl"]
                .iter()
                .any(|name| is_of_job(name))
        );
    }

    #[test]
    fn names_tell_which_variables_hold_secrets() {
        let secret = [
            "AWS_PROFILE",
            "AWS_CONFIG_FILE",
            "GITHUB_TOKEN",
            "db_password",
            "DEPLOY_KEY",
            "X_SECRET_1",
            "API_KEY_2",
        ];
        let open = [
            "PATH",
            "MONKEY",
            "ANSIBLE_HOST_KEY_CHECKING",
            "ANSIBLE_VAULT_PASSWORD_FILE",
            "SSH_AUTH_SOCK",
            "KEYBOARD",
        ];
        assert!(secret.iter().all(|name| holds_secret(name)));
        assert!(!open.iter().any(|name| holds_secret(name)));
    }
}
