//! MPICH and its descendants: Hydra, and ROMIO's hint file.

use super::{
    io_evidence::{IoEvidence, LaunchOutput},
    launch::{Launch, LaunchRequest},
    launcher::{Ask, Features, Launcher, MpiInstall, field},
    missing::Missing,
    romio,
};
use crate::{render::Template, transport::Transport};
use async_trait::async_trait;
use cvc_core::campaign::MpiLibrary;

/// Host file of Hydra.
const HOSTS: Template = Template::new(
    "launch/hosts.mpich.hbs",
    include_str!("../../../../templates/launch/hosts.mpich.hbs"),
);

/// MPICH, with the Hydra launcher.
pub(super) struct Mpich;

#[async_trait]
impl Launcher for Mpich {
    fn name(&self) -> &'static str {
        "mpich"
    }

    fn title(&self) -> &'static str {
        "MPICH"
    }

    fn launcher_title(&self) -> &'static str {
        "MPICH (Hydra)"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["mpiexec.mpich", "mpiexec.hydra"]
    }

    fn marks(&self) -> &'static [&'static str] {
        &["HYDRA"]
    }

    fn packages(&self) -> (&'static str, &'static str) {
        ("mpich", "libmpich-dev")
    }

    fn version(&self, answer: &str) -> Option<String> {
        field(answer, "Version:")
    }

    fn device(&self, answer: &str) -> Option<String> {
        answer
            .split("--with-device=")
            .nth(1)
            .map(|d| d.chars().take_while(|c| !"' \n".contains(*c)).collect())
    }

    async fn ask_features(
        &self,
        ask: &Ask<'_>,
        answer: &str,
        _: &MpiLibrary,
    ) -> Result<Features, Missing> {
        let mut device = self.device(answer);
        if device.is_none()
            && let Some(tool) = ask.next_to_launcher("mpichversion")
            && let Some(answer) = ask.run(&[tool.as_str()]).await
        {
            device = field(&answer, "MPICH Device:");
        }
        Ok(Features::romio(device))
    }

    fn launch(&self, install: &MpiInstall, request: &LaunchRequest) -> Launch {
        let mut argv = vec![install.mpiexec.to_string()];
        let mut launch = Launch {
            files: vec![("hosts", HOSTS)],
            // mpiexec, and one proxy on each node
            launcher_processes: 1 + request.mapping.nodes(),
            ..Launch::default()
        };
        match request.transport {
            Transport::Local => {}
            Transport::Ssh => {
                // set explicitly, because inside another batch job Hydra would choose another launcher
                let wrapper = request.ssh_wrapper().into_string();
                argv.extend([
                    "-launcher".into(),
                    "ssh".into(),
                    "-launcher-exec".into(),
                    wrapper,
                    "-rmk".into(),
                    "user".into(),
                ]);
                launch.add_ssh_wrapper();
            }
            Transport::Slurm(_) => {
                argv.extend(["-launcher", "slurm", "-rmk", "user"].map(String::from));
                launch.configure_inner_srun();
                // the srun that starts the proxies
                launch.launcher_processes += 1;
            }
        }
        if let Some(interface) = request.network_interface() {
            argv.extend(["-iface".into(), interface.to_owned()]);
        }
        if let Some(threads) = request.bound_threads() {
            argv.extend([
                "-bind-to".into(),
                format!("{}:{threads}", request.bound_to()),
            ]);
        }
        argv.extend([
            "-f".into(),
            request.run_dir.join("hosts").into_string(),
            "-n".into(),
            request.mapping.processes().to_string(),
        ]);
        launch.argv = argv;
        configure(install, request, &mut launch);
        launch
    }

    fn srun_plugin(&self) -> &'static str {
        "pmi2"
    }

    fn configure_srun(&self, install: &MpiInstall, request: &LaunchRequest, launch: &mut Launch) {
        configure(install, request, launch);
    }

    fn rank_env(&self, name: &str, value: &str) -> Vec<String> {
        vec!["-genv".to_owned(), name.to_owned(), value.to_owned()]
    }

    fn check_io(
        &self,
        _: &MpiInstall,
        request: &LaunchRequest,
        output: &LaunchOutput<'_>,
        seen: &mut IoEvidence,
    ) {
        romio::check(request, output.stdout, seen);
    }

    fn hang_hint(&self) -> &'static str {
        "builds for UCX (ch4:ucx, as Debian's) hang there over TCP: use a build for ch4:ofi or ch3, and give its `prefix`"
    }
}

/// Adds the library's own settings to a launch by any launcher.
fn configure(install: &MpiInstall, request: &LaunchRequest, launch: &mut Launch) {
    if let Some(interface) = request.network_interface() {
        let device = install.device.as_deref().unwrap_or_default();
        if device.contains("ofi") {
            launch.env("FI_TCP_IFACE", interface);
            launch.env("FI_SOCKETS_IFACE", interface);
        }
        if device.contains("ucx") {
            launch.env("UCX_NET_DEVICES", interface);
        }
    }
    if request.sets_io() {
        romio::configure(request, launch);
    }
}
