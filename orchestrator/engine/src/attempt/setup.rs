//! Modules and prologue of a site: which environment variables they set, and how much of the time of a run's script they take. Programs are found by
//! these variables.

use crate::{
    host::{Host, LocalHost},
    mpi::Missing,
    render::shell_quote,
    run::own_words,
};
use camino::Utf8Path;
use cvc_core::campaign::{DmtcpSettings, MpiLibrary, MpiSource, RunEnvironment, Site};
use cvc_core::environment::{is_withheld, may_hold_secret};
use cvc_core::names::wrong_variable;
use cvc_core::paths::{make_absolute, on_path};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// Time limit of modules and prologue when a site is checked.
const LIMIT: Duration = Duration::from_secs(120);

/// Separates the two lists of variables in the output: before modules and prologue, and after them.
const BETWEEN: &str = "\u{1}cvc\0";

/// Variables that modules or a prologue set.
pub(super) type Variables = BTreeMap<String, String>;

/// Returns the commands of an environment, one per line.
pub fn environment_commands(environment: &RunEnvironment) -> Vec<String> {
    let load = |module: &String| format!("module load {} || exit", shell_quote(module));
    let modules = environment.modules.iter().map(load);
    modules
        .chain(environment.prologue.iter().cloned())
        .collect()
}

/// Returns the directory in which the commands run, quoted for the shell: the campaign file's directory on this machine, the user's home directory on
/// other machines.
fn directory(site: &Site, base: &Utf8Path) -> String {
    if site.cluster.is_some() {
        return "~".to_owned();
    }
    shell_quote(make_absolute(base.join(".")).as_str())
}

/// Returns the template values for a run's script; null if there is nothing to set up.
pub(super) fn script_values(
    environment: &RunEnvironment,
    site: &Site,
    base: &Utf8Path,
    caller: &Variables,
) -> Value {
    if environment.is_empty() {
        return Value::Null;
    }
    json!({ "commands": environment_commands(environment), "directory": directory(site, base), "home": caller.get("HOME") })
}

/// Runs modules and prologue in the same way as the script of a run, and returns the variables that they set.
///
/// # Errors
/// A command fails; the error has its message.
pub(super) async fn enter(
    environment: &RunEnvironment,
    site: &Site,
    base: &Utf8Path,
) -> Result<Variables, Missing> {
    if environment.is_empty() {
        return Ok(Variables::new());
    }
    let script = format!(
        "cd {} || exit\nenv -0\nprintf '\\001cvc\\000'\nprintf '\\001cvc\\000' >&2\nset -e\n{{\n{}\n}} >&2\nset +e\nenv -0\n",
        directory(site, base),
        environment_commands(environment).join("\n")
    );
    let argv = ["bash", "-lc", &script].map(String::from);
    let failed = |why: String| {
        Missing {
        what: format!("the environment of the site cannot be set up: {why}"),
        hint: "correct `modules` and `prologue` in the site's `environment`, or in that of its MPI library or application; `module avail` lists modules".into(),
    }
    };
    let output = LocalHost
        .run(&argv, &Variables::new(), LIMIT)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let (before, after) = match (output.code, output.stdout.split_once(BETWEEN)) {
        (Some(0), Some(both)) if !both.1.is_empty() => both,
        (Some(0), _) => {
            return Err(failed(
                "one of its lines ends the shell: remove `exit`, also from files that it sources"
                    .to_owned(),
            ));
        }
        (code, _) => {
            // skip the output of the shell's profile
            let stderr = output.stderr.split_once(BETWEEN);
            let own = stderr.map_or(output.stderr.as_str(), |(_, own)| own);
            return Err(failed(if own.trim().is_empty() {
                code.map_or("ended by a signal".into(), |code| {
                    format!("exit code {code}, without a message")
                })
            } else {
                own_words(own)
            }));
        }
    };
    let variables = |text: &str| -> Variables {
        text.split('\0')
            .filter_map(|entry| entry.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    };
    let before = variables(before);
    let mut set = variables(after);
    set.retain(|name, value| before.get(name) != Some(value) && is_kept(name, value));
    Ok(set)
}

/// Returns whether a variable is stored with the run. Excluded are the shell's own variables, shell functions, and variables that may hold a secret.
fn is_kept(name: &str, value: &str) -> bool {
    !matches!(name, "_" | "SHLVL" | "PWD" | "OLDPWD")
        && wrong_variable(name, value).is_none()
        && !may_hold_secret(name)
        && !is_withheld(name)
}

/// Returns the settings with which an MPI library is found once modules and prologue have set these variables. A library from a module is then
/// searched on PATH, because the module is already loaded.
pub(super) fn library_in(library: &MpiLibrary, set: &Variables) -> MpiLibrary {
    let mut inside = library.clone();
    if matches!(inside.source, MpiSource::Module(_)) {
        inside.source = MpiSource::Path;
    }
    for (name, value) in set {
        // variables of the library's entry in the campaign file take precedence
        inside
            .env
            .entry(name.clone())
            .or_insert_with(|| value.clone());
    }
    inside
}

/// Returns the site with the DMTCP that is on the PATH in these variables, unless the campaign file has a prefix for DMTCP.
pub(super) fn site_in(site: &Site, set: &Variables) -> Site {
    let mut inside = site.clone();
    let found = set
        .get("PATH")
        .and_then(|path| on_path(&["dmtcp_launch"], path));
    let prefix = found.and_then(|launch| Some(launch.parent()?.parent()?.to_string()));
    if inside.dmtcp.prefix.is_none() {
        inside.dmtcp = DmtcpSettings { prefix };
    }
    inside
}

/// Time of modules and prologue in a run, seconds. It does not count as time of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SetupTimes {
    pub wall_s: f64,
    pub user_s: f64,
    pub system_s: f64,
}

impl SetupTimes {
    /// Reads the file of times that the script of this name left in the run's directory; all times are zero if there is none.
    pub fn read(dir: &Utf8Path, script: &str) -> Self {
        let file = dir.join(format!("{script}.setup"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        Self::parse(&text).unwrap_or_default()
    }

    /// Parses the two times of day, and the output of bash's `times`, which has the processor times of the shell and of its children.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let number = |word: &str| word.replace(',', ".").parse::<f64>().ok();
        let moments: Vec<f64> = lines
            .next()?
            .split_whitespace()
            .filter_map(number)
            .collect();
        let [begun, ended] = moments[..] else {
            return None;
        };
        let of_cpu = |word: &str| {
            let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
            Some(number(minutes)? * 60.0 + number(seconds)?)
        };
        let mut times = Self {
            wall_s: (ended - begun).max(0.0),
            ..Self::default()
        };
        for line in lines {
            let mut words = line.split_whitespace();
            times.user_s += of_cpu(words.next()?)?;
            times.system_s += of_cpu(words.next()?)?;
        }
        Some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8PathBuf;

    fn environment(modules: &[&str], prologue: &[&str]) -> RunEnvironment {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        RunEnvironment {
            modules: texts(modules),
            prologue: texts(prologue),
        }
    }

    #[tokio::test]
    async fn lines_are_carried_out_in_order_and_their_variables_are_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let base = Utf8PathBuf::from_path_buf(dir.path().to_owned()).expect("text");
        std::fs::write(
            base.join("env.sh"),
            "export A=\"two words\"\necho noise\nexport MY_TOKEN=x\n",
        )
        .expect("writes");
        let lines = environment(
            &["one/1"],
            &[
                "source env.sh",
                "export B=\"$A, $LOADED\" PATH=\"/nowhere/bin:$PATH\"",
            ],
        );
        // `module` is a function of the login shell; here the first line defines a replacement
        let function = "module() { LOADED+=\"$2;\"; export LOADED; }";
        let mut with_function = environment(&[], &[function, "module load one/1"]);
        with_function.prologue.extend(lines.prologue.clone());
        let set = enter(&with_function, &Site::local(), &base)
            .await
            .expect("enters");
        assert_eq!(set["A"], "two words");
        assert_eq!(set["B"], "two words, one/1;");
        assert!(set["PATH"].starts_with("/nowhere/bin:"), "{set:?}");
        assert!(
            !set.contains_key("MY_TOKEN") && !set.contains_key("PWD"),
            "{set:?}"
        );
        assert_eq!(
            environment_commands(&lines)[..2],
            ["module load one/1 || exit", "source env.sh"]
        );
    }

    #[tokio::test]
    async fn the_first_failing_line_is_reported_with_its_message() {
        let lines = environment(&[], &["echo no such licence >&2; false", "export A=1"]);
        let missing = enter(&lines, &Site::local(), Utf8Path::new("/"))
            .await
            .expect_err("fails");
        assert!(
            missing.what.ends_with("cannot be set up: no such licence"),
            "{missing}"
        );
        let silent = environment(&[], &["(exit 3)"]);
        let missing = enter(&silent, &Site::local(), Utf8Path::new("/"))
            .await
            .expect_err("fails");
        assert!(missing.what.contains("exit code 3"), "{missing}");
        let ending = environment(&[], &["export A=1", "exit 0"]);
        let missing = enter(&ending, &Site::local(), Utf8Path::new("/"))
            .await
            .expect_err("fails");
        assert!(missing.what.contains("ends the shell"), "{missing}");
    }

    #[test]
    fn a_library_and_dmtcp_are_found_on_the_path_that_was_set() {
        let site = Site::local();
        let library = MpiLibrary {
            source: MpiSource::Module("mpich/4".into()),
            ..site.mpi["mpich"].clone()
        };
        let set = Variables::from([("PATH".to_owned(), "/m/bin".to_owned())]);
        let inside = library_in(&library, &set);
        assert_eq!(
            (inside.source, inside.env["PATH"].as_str()),
            (MpiSource::Path, "/m/bin")
        );
        assert_eq!(site_in(&site, &set).dmtcp.prefix, None);
        let dir = tempfile::tempdir().expect("a directory");
        let bin = dir.path().join("bin");
        std::fs::create_dir(&bin).expect("makes");
        std::os::unix::fs::symlink("/bin/true", bin.join("dmtcp_launch")).expect("links");
        let set = Variables::from([("PATH".to_owned(), bin.display().to_string())]);
        assert_eq!(
            site_in(&site, &set).dmtcp.prefix,
            Some(dir.path().display().to_string())
        );
    }

    #[test]
    fn the_part_of_the_setup_is_read() {
        let text = "1700000000.5 1700000002,25\n0m0.004s 0m0.002s\n1m0.100s 0m0.250s\n";
        let times = SetupTimes::parse(text).expect("parses");
        assert_eq!(times.wall_s, 1.75);
        assert!((times.user_s - 60.104).abs() < 1e-9 && (times.system_s - 0.252).abs() < 1e-9);
        assert_eq!(SetupTimes::parse("1700000000.5\n"), None);
        assert_eq!(
            SetupTimes::read(Utf8Path::new("/nowhere"), "launch.sh"),
            SetupTimes::default()
        );
    }
}
