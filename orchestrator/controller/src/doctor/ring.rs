//! Checks that MPI works: runs a small program over two nodes, in which a message is passed around. The program is launched in the same way as runs.

use super::{
    check::{CheckState, DoctorCheck},
    facts::set_up,
    node::{DoctorNode, SHORT, script},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{Cluster, MpiIo, MpiLibrary, MpiSource, RunEnvironment};
use cvc_core::mapping::Mapping;
use cvc_engine::{
    host::{Host, HostError, Output},
    mpi::{self, LaunchRequest, MpiInstall},
    render,
    transport::Transport,
};
use std::{collections::BTreeMap, time::Duration};

const SOURCE: &str = include_str!("ring.c");
/// Value that the program's token has gained after all rounds with two ranks.
const TOKEN: &str = "200";
const COMPILE: Duration = Duration::from_secs(60);
/// Time limit of the job, after which it counts as hanging.
const LIMIT: Duration = Duration::from_secs(30);

/// Two nodes and an MPI library to test.
pub(super) struct Ring<'a> {
    pub(super) first: &'a DoctorNode,
    pub(super) second: &'a DoctorNode,
    pub(super) library: &'a str,
    pub(super) entry: &'a MpiLibrary,
    /// Environment that is set up before the launcher is called.
    pub(super) environment: RunEnvironment,
    /// The library's launcher on the first node, and the launcher's version output.
    pub(super) found: &'a (String, String),
    pub(super) cluster: &'a Cluster,
}

/// Script that ends all processes whose environment contains a mark, and removes a directory. `$1` is the mark, `$2` the directory.
const CLEAR: &str = r#"
for e in /proc/[0-9]*/environ; do
    tr '\0' '\n' <"$e" 2>/dev/null | grep -qx "CVC_RUN=$1" || continue
    p=${e#/proc/}; p=${p%/environ}
    [ "$p" = $$ ] || kill -9 "$p" 2>/dev/null
done
rm -rf "$2""#;

/// Compiles the program, copies it to both nodes and runs it. Removes the program and its processes afterwards, even after a failure.
pub(super) async fn round(ring: &Ring<'_>) -> DoctorCheck {
    let mark = format!("doctor-{}-{}", std::process::id(), ring.library);
    let dir = match ring.first.host.expand(&ring.cluster.base).await {
        Ok(base) => base.join(&mark),
        Err(error) => return DoctorCheck::of(ring.first.name(), &what(ring), &error),
    };
    let check = go(ring, &dir, &mark)
        .await
        .unwrap_or_else(|error| DoctorCheck::of(ring.first.name(), &what(ring), &error));
    for node in [ring.first, ring.second] {
        // the loss of a node has been reported by now
        let _ = script(&node.host, CLEAR, &[mark.clone(), dir.to_string()], SHORT).await;
    }
    check
}

fn what(ring: &Ring<'_>) -> String {
    format!("MPI between nodes: {}", ring.library)
}

/// Returns the command line in `argv`, preceded by the set-up of the environment and the library's module, if there are any.
fn with_module(ring: &Ring<'_>, argv: Vec<String>) -> Vec<String> {
    let inside = |load: String| -> Vec<String> {
        ["bash", "-lc", &load, "cvc-doctor"]
            .into_iter()
            .map(str::to_owned)
            .chain(argv.iter().cloned())
            .collect()
    };
    if !ring.environment.is_empty() {
        return inside(format!("{}\nexec \"$@\"", set_up(&ring.environment)));
    }
    match &ring.entry.source {
        MpiSource::Module(module) => {
            let load = format!(
                "module load {} >/dev/null && exec \"$@\"",
                render::shell_quote(module)
            );
            inside(load)
        }
        MpiSource::Path | MpiSource::Prefix(_) | MpiSource::Mpiexec(_) => argv,
    }
}

/// The compiled program, or the check that says why it cannot be compiled.
enum Compiled {
    Program(Utf8PathBuf),
    Impossible(DoctorCheck),
}

/// Compiles the program on the first node.
async fn compile(
    ring: &Ring<'_>,
    install: &MpiInstall,
    dir: &Utf8Path,
    env: &BTreeMap<String, String>,
) -> Result<Compiled, HostError> {
    let first = &ring.first.host;
    let suffix = install
        .mpiexec
        .extension()
        .filter(|e| *e == install.family.name())
        .map(|e| format!(".{e}"))
        .unwrap_or_default();
    let mpicc = install
        .mpiexec
        .parent()
        .unwrap_or(Utf8Path::new("/usr/bin"))
        .join(format!("mpicc{suffix}"));
    let (source, program) = (dir.join("ring.c"), dir.join("ring"));
    first.put(SOURCE.as_bytes(), &source).await?;
    let argv = [
        mpicc.as_str(),
        "-O1",
        "-o",
        program.as_str(),
        source.as_str(),
    ]
    .map(str::to_owned)
    .to_vec();
    match first.run(&with_module(ring, argv), env, COMPILE).await {
        Ok(Output { code: Some(0), .. }) => Ok(Compiled::Program(program)),
        Ok(out) => {
            let found = format!(
                "a program does not compile on {} with {mpicc}: {}",
                first.name(),
                last(&out.stderr)
            );
            Ok(Compiled::Impossible(DoctorCheck::new(
                what(ring),
                CheckState::Doubtful,
                found,
                "see the compiler's message",
            )))
        }
        Err(HostError::NoProgram { .. }) => {
            let found = format!("cannot be tried: {} has no {mpicc}", first.name());
            Ok(Compiled::Impossible(DoctorCheck::new(
                what(ring),
                CheckState::Skipped,
                found,
                "install the library's development package there (cvc install)",
            )))
        }
        Err(error) => Err(error),
    }
}

async fn go(ring: &Ring<'_>, dir: &Utf8Path, mark: &str) -> Result<DoctorCheck, HostError> {
    let (first, second) = (&ring.first.host, &ring.second.host);
    let env: BTreeMap<String, String> = ring
        .entry
        .env
        .iter()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    for host in [first, second] {
        script(
            host,
            "rm -rf \"$1\" && mkdir -p \"$1/tmp\"",
            &[dir.to_string()],
            SHORT,
        )
        .await?;
    }
    let install = install(ring);
    let program = match compile(ring, &install, dir, &env).await? {
        Compiled::Program(program) => program,
        Compiled::Impossible(check) => return Ok(check),
    };
    let binary = first.get(&program).await?;
    second.put(&binary, &program).await?;
    script(second, "chmod 755 \"$1\"", &[program.to_string()], SHORT).await?;
    let request = request(ring, dir, mark);
    let launch = mpi::launch(&install, &request);
    let values = mpi::file_values(&request);
    for (name, template) in &launch.files {
        let text = render::render(*template, &values).map_err(|e| HostError::Ssh {
            host: "localhost".into(),
            message: e.to_string(),
        })?;
        let path = dir.join(name);
        first.put(text.as_bytes(), &path).await?;
        if template.is_executable() {
            script(first, "chmod 755 \"$1\"", &[path.to_string()], SHORT).await?;
        }
    }
    let result = dir.join("result");
    let mut argv = launch.argv;
    argv.extend([program.into_string(), result.to_string()]);
    let mut env = launch.env;
    env.insert("CVC_RUN".into(), mark.to_owned());
    env.insert("TMPDIR".into(), request.tmp_dir.to_string());
    // the name of the user on the node is not known on this machine
    env.extend(
        install
            .family
            .anonymous_env()
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    // launchers pass standard input on to each node's ssh, which would wait forever for an input that does not end
    let quiet = [
        "sh",
        "-c",
        "cd \"$0\" && exec \"$@\" </dev/null",
        dir.as_str(),
    ];
    let argv = quiet.into_iter().map(str::to_owned).chain(argv).collect();
    let ran = first.run(&with_module(ring, argv), &env, LIMIT).await;
    let written = first
        .get(&result)
        .await
        .ok()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(judge(ring, ran, written.as_deref()))
}

/// Returns the check for the result of the job. A job in which the message went around but which does not end is a different problem from a job that
/// never began.
fn judge(ring: &Ring<'_>, ran: Result<Output, HostError>, written: Option<&str>) -> DoctorCheck {
    let lines: Vec<&str> = written.unwrap_or_default().lines().collect();
    let went_round = matches!(lines.as_slice(), [TOKEN, one, other] if one != other);
    let family = mpi::launcher(ring.entry.family);
    let quirk = family.hang_hint();
    let interface = "make sure that the nodes reach each other on all ports, and give the `interface` between them";
    let bad =
        |found: String, hint: &str| DoctorCheck::new(what(ring), CheckState::Bad, found, hint);
    match (ran, went_round) {
        (Ok(Output { code: Some(0), .. }), true) => DoctorCheck::good(
            what(ring),
            format!("two ranks on {} and {}", lines[1], lines[2]),
        ),
        (Err(HostError::Timeout { limit_s, .. }), true) => bad(
            format!("a message went round, but the job did not end within {limit_s} s"),
            quirk,
        ),
        (Err(HostError::Timeout { limit_s, .. }), false) if family.silence_is_inconclusive() => {
            let found = format!("uncertain: no message came round within {limit_s} s");
            let hint = "try a run on two nodes, which has a separate environment; if that fails too, give the `interface` between the nodes";
            DoctorCheck::new(what(ring), CheckState::Doubtful, found, hint)
        }
        (Err(HostError::Timeout { limit_s, .. }), false) => bad(
            format!("no message came round within {limit_s} s"),
            interface,
        ),
        (Ok(out), true) => bad(
            format!(
                "a message went round, but the job ended with code {}: {}",
                code(&out),
                last(&out.stderr)
            ),
            quirk,
        ),
        (Ok(out), false) if lines.first() == Some(&TOKEN) => bad(
            format!(
                "both ranks ran on {}, with code {}",
                lines.get(1).unwrap_or(&""),
                code(&out)
            ),
            "see the launcher's arguments (`args`) in the campaign file",
        ),
        (Ok(out), false) => bad(
            format!(
                "the job ended with code {}: {}",
                code(&out),
                last(&format!("{}\n{}", out.stdout, out.stderr))
            ),
            interface,
        ),
        (Err(error), _) => DoctorCheck::of(ring.first.name(), &what(ring), &error),
    }
}

fn code(out: &Output) -> String {
    out.code
        .map_or_else(|| "of a signal".to_owned(), |c| c.to_string())
}

/// Returns the last lines of a text, for display.
fn last(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| l.len() > 3)
        .collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

fn request(ring: &Ring<'_>, dir: &Utf8Path, mark: &str) -> LaunchRequest {
    let cores = ring
        .cluster
        .cores
        .or_else(|| {
            ring.first
                .facts
                .same
                .get("cores")
                .and_then(|c| c.parse().ok())
        })
        .unwrap_or(1);
    LaunchRequest {
        mapping: two(),
        hosts: vec![ring.first.among.clone(), ring.second.among.clone()],
        cores_per_node: cores,
        hardware_threads: false,
        aggregators: None,
        cb_buffer: None,
        io: vec![],
        collective_io: false,
        run_dir: dir.to_owned(),
        tmp_dir: dir.join("tmp"),
        transport: Transport::Ssh,
        interface: ring.cluster.interface.clone(),
        oversubscribe: false,
        export: ["CVC_RUN", "TMPDIR"]
            .into_iter()
            .map(str::to_owned)
            .chain(ring.entry.env.keys().cloned())
            .collect(),
        marker: mark.to_owned(),
    }
}

/// Returns a mapping of one rank on each of two nodes.
fn two() -> Mapping {
    "2Nx1P".parse().unwrap_or_else(|_| Mapping::one_node(2))
}

fn install(ring: &Ring<'_>) -> MpiInstall {
    let (path, message) = ring.found;
    let family = mpi::launcher(ring.entry.family);
    MpiInstall {
        name: ring.library.to_owned(),
        family,
        mpiexec: Utf8PathBuf::from(path),
        version: family.version_or_unknown(message),
        device: family.device(message),
        io: MpiIo::Romio,
        romio_component: None,
        ompio_parameters: Vec::new(),
        env: ring
            .entry
            .env
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        args: ring.entry.args.clone(),
    }
}
