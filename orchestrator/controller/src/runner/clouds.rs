//! Sites with instances of a cloud: instances are launched, set up, and reached by ssh. Reclaimed instances are replaced; instances that are no
//! longer needed are given back at once, because they cost.

use super::resources::{Phase, Resources};
use camino::Utf8PathBuf;
use cvc_cloud::cost::{self, PriceBook};
use cvc_cloud::provider::FleetRequest;
use cvc_cloud::{Fleet, FleetMachines, LossReason, NewFleet, Upkeep};
use cvc_core::campaign::{Site, Spec};
use cvc_core::ids::RunId;
use cvc_core::plan::Plan;
use cvc_core::point::PlannedPoint;
use cvc_core::stop::StopSignal;
use cvc_core::store::{CampaignDir, write_whole};
use cvc_engine::attempt::SiteContext;
use cvc_journal::{Lease, Lineage};
use cvc_sites::error::{CampaignError, OverBudget};
use cvc_sites::install::{self, InstallError, InstallRequest};
use cvc_sites::progress::{SiteEvent, SiteReporter};
use cvc_sites::remote::{NodeReach, Opening, Remote};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// Whether sites changed so that waiting runs may now be able to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SiteChange {
    Changed,
    Unchanged,
}

/// Ansible roles that set up new machines even if no software is installed: `base` for trust between nodes, `storage` for disks.
const BARE: [&str; 2] = ["base", "storage"];

/// Returns the time until which all machines of a site are kept for the next campaign; `None` if one of them is not kept, or if that time has passed.
pub(super) fn kept_until(leases: &[Lease]) -> Option<jiff::Timestamp> {
    let until: Option<Vec<jiff::Timestamp>> = leases
        .iter()
        .filter(|l| !l.released)
        .map(|l| l.kept_until)
        .collect();
    until?
        .into_iter()
        .min()
        .filter(|until| *until > jiff::Timestamp::now())
}

/// Parameters for opening a cloud's site in a separate task.
pub(super) struct CloudOpening {
    fleet: Arc<Fleet>,
    spec: Spec,
    plan: Plan,
    site: String,
    handed_over: BTreeSet<RunId>,
    points: Vec<PlannedPoint>,
    dir: CampaignDir,
    lineage: Lineage,
    program: Utf8PathBuf,
    site_events: mpsc::UnboundedSender<SiteEvent>,
    update_lock: bool,
    reach: Arc<dyn NodeReach>,
}

impl Resources<'_> {
    /// Returns the fleet of a site, created on first use.
    pub(super) async fn fleet(
        &mut self,
        name: &str,
        request: &FleetRequest,
    ) -> Result<Arc<Fleet>, CampaignError> {
        if let Some(fleet) = self.sites.fleets.get(name) {
            return Ok(Arc::clone(fleet));
        }
        let Some(clouds) = self.record.options.clouds.clone() else {
            let problem = "this cvc was built without EC2: build it with `cargo build --release --locked --package cvc` and call target/release/cvc";
            return Err(CampaignError::Site {
                site: name.to_owned(),
                problem: problem.into(),
            });
        };
        // registered, so that a sweep from any machine spares the campaign while it runs
        if let Some(what) = cvc_cloud::register(self.record.dir.root()) {
            self.record.say(what);
        }
        let login = self
            .record
            .spec
            .sites
            .get(name)
            .and_then(|s| s.login.as_deref());
        let wanted = NewFleet {
            campaign: &self.record.spec.name,
            site: name,
            request: request.clone(),
            login,
            lineage: self.record.journal.lineage()?,
            dir: self.record.dir.root(),
            leases: self.record.state().leases_of(name),
            takes: self.phase == Phase::Running,
            prices: PriceBook::open(&cost::cache_file()),
            reporter: self.sites.reporter(),
        };
        let fleet = Arc::new(Fleet::new(clouds.as_ref(), wanted).await?);
        self.sites
            .fleets
            .insert(name.to_owned(), Arc::clone(&fleet));
        Ok(fleet)
    }

    /// Returns the sites that may still have files, processes or instances of the campaign.
    pub(super) fn sites_with_leftovers(&self) -> Vec<String> {
        let state = self.record.state();
        let leased = state.leases.iter().filter(|l| !l.released).map(|l| &l.site);
        let all: std::collections::BTreeSet<_> = state.open_sites.iter().chain(leased).collect();
        all.into_iter().map(ToString::to_string).collect()
    }

    /// Returns the parameters of a task that opens a cloud's site.
    pub(super) async fn cloud_opening(
        &mut self,
        name: &str,
        request: &FleetRequest,
    ) -> Result<CloudOpening, CampaignError> {
        let fleet = self.fleet(name, request).await?;
        self.share_budget();
        Ok(CloudOpening {
            fleet,
            spec: self.record.spec.clone(),
            plan: self.record.plan.clone(),
            site: name.to_owned(),
            handed_over: self.handed_over(name),
            points: self
                .record
                .plan
                .points
                .iter()
                .filter(|p| p.point.site == *name)
                .cloned()
                .collect(),
            dir: self.record.dir.clone(),
            lineage: self.record.journal.lineage()?.clone(),
            program: self.record.options.node_program.clone(),
            site_events: self.sites.sender(),
            update_lock: self.record.options.update_lock,
            reach: Arc::clone(&self.record.options.reach),
        })
    }

    /// Ends all fleets of the session. Called when the journal cannot be written.
    pub(super) async fn end_clouds_unwritten(&mut self) -> Result<(), CampaignError> {
        let mut first = Ok(());
        self.closing.abort().await;
        for (site, fleet) in std::mem::take(&mut self.sites.fleets) {
            self.record.say(format!(
                "{site}: the journal cannot be written; its instances are ended nevertheless"
            ));
            if let Some(what) = fleet.end_unwritten().await {
                first = first.and(Err(CampaignError::Leftover { site, what }));
            }
        }
        first
    }

    /// Replaces reclaimed and failed instances of these sites, for which runs wait. With `also_silent`, also replaces instances whose nodes are
    /// silent.
    pub(super) async fn repair_fleets(
        &mut self,
        sites: &[String],
        also_silent: bool,
    ) -> Result<SiteChange, CampaignError> {
        let mut repaired = SiteChange::Unchanged;
        for site in sites {
            let Some(fleet) = self.sites.fleets.get(site).cloned() else {
                continue;
            };
            let Some(remote) = self.sites.remote(site) else {
                continue;
            };
            let looking = Arc::clone(&fleet);
            let gone = self
                .while_listening(async move { looking.look_for_gone().await })
                .await?
                .unwrap_or_else(|error| {
                    // do not give up because a cloud does not respond for a while
                    self.record.say(&error);
                    fleet.gone()
                });
            let silent = if also_silent {
                remote.lost()
            } else {
                BTreeMap::new()
            };
            let nodes = fleet
                .machines()
                .into_iter()
                .map(|m| (m.id.clone(), fleet.node_name(&m)));
            let failed = to_replace(nodes, &gone, &remote.leaving(), &silent);
            if !failed.is_empty()
                && self.replace(site, fleet, remote, failed).await? == SiteChange::Changed
            {
                repaired = SiteChange::Changed;
            }
        }
        Ok(repaired)
    }

    /// Replaces instances of a site and opens the site again. Returns `Changed` if the site is open, or was given up.
    async fn replace(
        &mut self,
        site: &str,
        fleet: Arc<Fleet>,
        remote: Arc<Remote>,
        failed: BTreeMap<String, LossReason>,
    ) -> Result<SiteChange, CampaignError> {
        self.record.say(format!(
            "{site}: replacing {} of its instances",
            failed.len()
        ));
        let Some(request) = self
            .record
            .spec
            .sites
            .get(site)
            .and_then(|s| s.ec2.as_ref())
            .map(FleetRequest::of)
        else {
            return Ok(SiteChange::Unchanged);
        };
        let opening = self.cloud_opening(site, &request).await?;
        let stop_signal = self.stops.user.clone();
        self.sites.remove(site);
        let opened = self.while_listening(async move {
            remote.abandon();
            fleet.replace(&failed).await?;
            opening.open(stop_signal).await
        });
        match opened.await? {
            Ok(Some(remote)) => {
                self.sites.add(site, remote);
                Ok(SiteChange::Changed)
            }
            Ok(None) => {
                self.sites.fleets.remove(site);
                self.record.site_closed(site)?;
                Ok(SiteChange::Unchanged)
            }
            Err(error) => {
                if matches!(error, CampaignError::OverBudget { .. }) {
                    self.budget.note_exceeded();
                }
                let reason = error.to_string();
                self.record.say(reason.clone());
                self.begin_closing(site);
                let waiting = self.record.open_runs(|s| s == site);
                self.record.give_up(
                    &waiting,
                    format!("{reason}; the next `cvc run` tries again"),
                )?;
                Ok(SiteChange::Changed)
            }
        }
    }
}

/// Returns the instances to replace, each with the reason: lost instances; instances about to be lost, on which nothing runs any more; and instances
/// with a silent node.
fn to_replace(
    nodes: impl IntoIterator<Item = (String, String)>,
    gone: &BTreeMap<String, LossReason>,
    leaving: &BTreeMap<String, String>,
    silent: &BTreeMap<String, String>,
) -> BTreeMap<String, LossReason> {
    let reason = |node: &String| {
        let leaves = || leaving.contains_key(node).then_some(LossReason::Reclaimed);
        let is_silent = || silent.get(node).cloned().map(LossReason::Silent);
        gone.get(node).cloned().or_else(leaves).or_else(is_silent)
    };
    nodes
        .into_iter()
        .filter_map(|(id, node)| Some((id, reason(&node)?)))
        .collect()
}

impl CloudOpening {
    /// Ends and removes the instances and files of an earlier controller.
    #[tracing::instrument(name = "site", skip_all, fields(site = %self.site))]
    pub(super) async fn close_old(self) -> Result<Option<Remote>, CampaignError> {
        self.fleet.down("nothing was left to run").await?;
        Ok(None)
    }

    /// Launches missing instances, sets them up, and opens them as a site that is reached by ssh. After a failure no instance is left, unless the
    /// cloud does not respond.
    #[tracing::instrument(name = "site", skip_all, fields(site = %self.site))]
    pub(super) async fn open(
        self,
        mut stop_signal: StopSignal,
    ) -> Result<Option<Remote>, CampaignError> {
        let fleet = Arc::clone(&self.fleet);
        let of_money = Arc::clone(&self.fleet);
        // setting up may take longer than the instances' own deadline
        let keep_up = {
            let fleet = Arc::clone(&fleet);
            async move {
                let mut upkeep = Upkeep::begin(&fleet);
                loop {
                    tokio::time::sleep_until(upkeep.due().into()).await;
                    fleet.keep_up(&mut upkeep).await;
                }
            }
        };
        let _upkeep = AbortOnDropHandle::new(tokio::spawn(keep_up.in_current_span()));
        let opened = tokio::select! {
            biased;
            opened = self.try_open(&mut stop_signal) => opened,
            () = of_money.budget_exhausted() => Err(CampaignError::OverBudget {
                site: fleet.name().to_owned(),
                over: OverBudget::new("it was used up while the instances were set up"),
            }),
        };
        match opened {
            Ok(Some(remote)) => Ok(Some(remote)),
            // a stop is possible during the set-up, too
            Ok(None) | Err(CampaignError::Install(InstallError::Interrupted { .. })) => {
                fleet.down("the user stopped").await?;
                Ok(None)
            }
            Err(error) => match fleet.down("the site could not be opened").await {
                Ok(()) => Err(error),
                // the leftover matters more than the original error, but both are reported
                Err(CampaignError::Leftover { site, what }) => Err(CampaignError::Leftover {
                    site,
                    what: format!("{what} (after: {error})"),
                }),
                Err(_) => Err(error),
            },
        }
    }

    async fn try_open(self, stop_signal: &mut StopSignal) -> Result<Option<Remote>, CampaignError> {
        let nodes = self
            .points
            .iter()
            .map(|p| p.point.mapping.nodes())
            .max()
            .unwrap_or(1);
        let Self {
            fleet,
            mut spec,
            plan,
            site,
            handed_over,
            points,
            dir,
            lineage,
            program,
            site_events,
            update_lock,
            reach,
        } = self;
        let nodes = spec.sites.get(&site).map_or(1, |s| s.nodes_for(nodes));
        let Some(machines) = fleet.up(nodes, stop_signal).await? else {
            return Ok(None);
        };
        let reporter = SiteReporter(site_events.clone());
        let install = spec
            .sites
            .get(&site)
            .and_then(|s| s.ec2.as_ref())
            .is_none_or(|e| e.install);
        if let Some(cluster) = spec.sites.get_mut(&site).and_then(|s| s.cluster.as_mut()) {
            fleet.fill(cluster);
        }
        // instances that are already set up are not set up again
        let ids: Vec<&str> = machines.iter().map(|m| m.id.as_str()).collect();
        let set_up = serde_json::json!({ "instances": ids, "site": spec.sites.get(&site), "points": points }).to_string();
        let mark = fleet.set_up_mark();
        let digest = blake3::hash(set_up.as_bytes()).to_hex().to_string();
        if !install
            && spec
                .sites
                .get(&site)
                .is_some_and(|s| is_ready_as_launched(s, &points, machines.len()))
        {
            reporter.note(format!("{site}: nothing to set up"));
        } else if std::fs::read_to_string(&mark).is_ok_and(|before| before == digest) {
            reporter.note(format!("{site}: set up"));
        } else {
            let tags: Vec<String> = if install {
                Vec::new()
            } else {
                BARE.map(str::to_owned).to_vec()
            };
            let request = InstallRequest {
                spec: &spec,
                plan: &plan,
                site: &site,
                dir: &dir,
                check: false,
                tags: &tags,
                only: None,
                update_lock,
                limit: install::LIMIT,
            };
            let mut on = |event| reporter.install(event);
            install::install(&request, stop_signal, &mut on).await?;
            write_whole(&mark, digest.as_bytes())?;
        }
        let Some(mut context) = SiteContext::of(&spec, &site) else {
            return Err(CampaignError::internal(format!("unknown site {site}")));
        };
        context.lineage = Some(lineage);
        // the rate of the launched instances, which may differ from the requested ones
        context.rate = fleet.rate();
        let opening = Opening {
            context,
            handed_over,
            points,
            dir,
            program,
            only_close: false,
            site_events,
            leases: Vec::new(),
            machines: Arc::new(FleetMachines::begin(fleet)),
            reach,
        };
        Remote::open(opening, stop_signal.clone()).await
    }
}

/// Returns whether instances whose image has all software need no set-up: a single instance without further disks, shared directories or paths of
/// storage areas.
fn is_ready_as_launched(site: &Site, points: &[PlannedPoint], instances: usize) -> bool {
    let has_disks = site.ec2.as_ref().is_some_and(|e| {
        !e.instances.volumes.is_empty() || e.instance_store.is_some() || e.nfs.is_some()
    });
    let has_path = |area: &str| site.storage.get(area).is_some_and(|a| a.path.is_some());
    instances == 1 && !has_disks && !points.iter().any(|p| has_path(&p.point.storage))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(node, why)| ((*node).to_owned(), (*why).to_owned()))
            .collect()
    }

    #[test]
    fn one_instance_without_disks_and_directories_needs_no_set_up() {
        let ready = |ec2: &str, keys: &str, instances: usize| {
            let text = format!(
                "schema = 1\nname = \"t\"\n[sites.cloud]\nkind = \"ec2\"\n{keys}\n[sites.cloud.ec2]\nregion = \"us-east-1\"\n\
                 instance_types = [\"c5.large\"]\nnodes = 2\nimage = \"debian-12\"\ninstall = false\n{ec2}\n\
                 [matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 2\nmpi = \"openmpi\"\n"
            );
            let apps =
                std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
            let spec =
                cvc_core::campaign::load_text(std::path::Path::new("t.toml"), &text, &[apps])
                    .unwrap_or_else(|e| panic!("{e}"));
            is_ready_as_launched(
                &spec.sites["cloud"],
                &cvc_core::plan::build(&spec).points,
                instances,
            )
        };
        assert!(ready("", "", 1));
        assert!(!ready("", "", 2));
        assert!(!ready(
            "volumes = [{ mount = \"/scratch\", size_gib = 8 }]",
            "",
            1
        ));
        assert!(!ready("instance_store = \"/scratch\"", "", 1));
        assert!(!ready("nfs = \"/shared\"", "", 1));
        assert!(!ready("", "storage.scratch = { path = \"/scratch\" }", 1));
    }

    #[test]
    fn an_instance_is_replaced_for_the_surest_reason() {
        let nodes = || ["a", "b", "c", "d"].map(|n| (format!("i-{n}"), n.to_owned()));
        let gone: BTreeMap<String, LossReason> = [(
            "a".to_owned(),
            LossReason::Vanished {
                instance: "i-a".into(),
            },
        )]
        .into();
        let (leaving, silent) = (
            reasons(&[("a", "soon"), ("b", "soon")]),
            reasons(&[("b", "no beat"), ("c", "no beat")]),
        );
        let found = to_replace(nodes(), &gone, &leaving, &silent);
        let shown: Vec<String> = found
            .iter()
            .map(|(id, why)| format!("{id}: {why}"))
            .collect();
        assert_eq!(
            shown,
            [
                "i-a: the instance i-a no longer exists",
                "i-b: the cloud reclaimed it (spot interruption)",
                "i-c: no beat"
            ]
        );
        assert!(
            to_replace(
                nodes(),
                &BTreeMap::new(),
                &BTreeMap::new(),
                &BTreeMap::new()
            )
            .is_empty()
        );
    }
}
