//! Ends leftovers of earlier sessions in places that the campaign file no longer names: a site was renamed or removed, or its head, base or kind has
//! changed. The journal has the place where the site was opened, and the site is closed there.

use super::resources::Resources;
use cvc_cloud::provider::FleetRequest;
use cvc_core::campaign::SiteKind;
use cvc_engine::attempt::SiteContext;
use cvc_journal::{Event, Lease, SitePlace};
use cvc_sites::error::CampaignError;
use cvc_sites::remote::{Opening, Remote, StandingMachines};
use std::{collections::BTreeSet, sync::Arc};

/// Result of ending a site that an earlier session opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SiteEnd {
    Closed,
    /// A part of the site's resources still exists.
    Leftover,
}

/// Returns whether a site's leftovers are in a place that the campaign file does not name. `opened` is the place where the site was opened, `now` its
/// place by the campaign file; `leases` are the leases not released.
fn is_elsewhere(opened: Option<&SitePlace>, now: Option<&SitePlace>, leases: &[Lease]) -> bool {
    let Some(now) = now else { return true };
    match opened {
        Some(opened) => !opened.is_same(now),
        // a journal of an earlier version has no place, only the leases
        None => leases
            .iter()
            .any(|lease| lease.order.is_some() != (now.kind == SiteKind::Ec2)),
    }
}

impl Resources<'_> {
    /// Returns whether the leftovers of this site are in a place that the campaign file does not name.
    pub(super) fn is_left_elsewhere(&self, site: &str) -> bool {
        let now = self
            .record
            .spec
            .sites
            .get(site)
            .map(|s| SitePlace::of(s, self.record.spec.directory()));
        let state = self.record.state();
        let leases: Vec<Lease> = state.open_leases_of(site);
        let has_something = state.open_sites.contains(site) || !leases.is_empty();
        has_something && is_elsewhere(state.places.get(site), now.as_ref(), &leases)
    }

    /// Ends the leftovers of a site where it was opened. Leftovers that cannot be ended are reported at the end of the session, and the next session
    /// tries again.
    #[tracing::instrument(name = "site", skip_all, fields(site = name))]
    pub(super) async fn close_where_opened(
        &mut self,
        name: &str,
    ) -> Result<SiteEnd, CampaignError> {
        let leases: Vec<Lease> = self.record.state().open_leases_of(name);
        let opened = self.record.state().places.get(name).cloned();
        let order = leases.iter().rev().find_map(|lease| lease.order.clone());
        let closed = match (order, opened) {
            (Some(order), _) => self.end_fleet(name, &FleetRequest::of_order(&order)).await,
            (None, Some(place)) => self.end_at(name, &place).await,
            (None, None) => Err(CampaignError::Site {
                site: name.to_owned(),
                problem: format!(
                    "an earlier version of cvc opened it without recording where: restore the site in the campaign file, or, if nothing of it is left, run \
                     `cvc down --forget {name}`"
                ),
            }),
        };
        self.sites.fleets.remove(name);
        match closed {
            Ok(()) => self
                .record
                .journal
                .write(Event::SiteClosed {
                    site: name.into(),
                    forgotten: false,
                })
                .map(|()| SiteEnd::Closed),
            Err(error) if self.record.journal.is_mute() => Err(error),
            Err(error) => {
                self.record.say(&error);
                self.problems
                    .leftover
                    .get_or_insert(CampaignError::Leftover {
                        site: name.to_owned(),
                        what: error.to_string(),
                    });
                Ok(SiteEnd::Leftover)
            }
        }
    }

    /// Gives back the instances of a site in a cloud.
    async fn end_fleet(&mut self, name: &str, request: &FleetRequest) -> Result<(), CampaignError> {
        let fleet = self.fleet(name, request).await?;
        self.record.say(format!(
            "{name}: no longer in the campaign file; its instances are given back"
        ));
        self.while_listening(async move { fleet.down("its site left the campaign file").await })
            .await?
    }

    /// Ends the agent and the jobs of a site at this place, and removes the site's files there.
    async fn end_at(&mut self, name: &str, place: &SitePlace) -> Result<(), CampaignError> {
        let Some(cluster) = place.cluster() else {
            return Ok(());
        };
        let any = self
            .record
            .spec
            .sites
            .keys()
            .next()
            .and_then(|any| SiteContext::of(self.record.spec, any));
        let Some(mut context) = any else {
            return Err(CampaignError::internal("a campaign without sites"));
        };
        let what = format!(
            "{name}: it was opened at {place}, which the campaign file no longer gives; ending what is left there"
        );
        self.record.say(what);
        let state = self.record.state();
        context.lineage.clone_from(&state.lineage);
        context.name = name.to_owned();
        context.site.kind = place.kind;
        context.site.cluster = Some(cluster);
        context.site.ec2 = None;
        let opening = Opening {
            context,
            handed_over: BTreeSet::new(),
            points: Vec::new(),
            dir: self.record.dir.clone(),
            program: self.record.options.node_program.clone(),
            only_close: true,
            site_events: self.sites.sender(),
            leases: state.leases_of(name),
            machines: Arc::new(StandingMachines),
            reach: Arc::clone(&self.record.options.reach),
        };
        let stop_signal = self.stops.user.clone();
        self.while_listening(Remote::open(opening, stop_signal))
            .await?
            .map(drop)
    }

    /// Records the user's statement that nothing of the campaign is left on these sites, which cannot be queried.
    pub(super) fn forget(&mut self, sites: &[String]) -> Result<(), CampaignError> {
        for name in sites {
            let leases: Vec<Lease> = self.record.state().open_leases_of(name);
            if leases.iter().any(|lease| lease.order.is_some()) {
                let what = "it has instances in a cloud, which cost: `cvc down` gives them back, and `cvc sweep` finds them".to_owned();
                return Err(CampaignError::Leftover {
                    site: name.clone(),
                    what,
                });
            }
            if leases.is_empty() && !self.record.state().open_sites.contains(name.as_str()) {
                let problem = "nothing of it is open".to_owned();
                return Err(CampaignError::Site {
                    site: name.clone(),
                    problem,
                });
            }
            for lease in leases {
                let how = "the user said that nothing of it is left".to_owned();
                self.record.journal.write(Event::LeaseReleased {
                    lease: lease.name,
                    how,
                })?;
            }
            self.record.journal.write(Event::SiteClosed {
                site: name.into(),
                forgotten: true,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::hosts::{HostEntry, SshSettings};

    fn place(kind: SiteKind, head: &str) -> SitePlace {
        SitePlace {
            kind,
            head: Some(HostEntry::named(head)),
            ssh: SshSettings::default(),
            base: "~/.cvc".into(),
        }
    }

    #[test]
    fn sites_opened_elsewhere_are_known_even_if_they_have_left_the_file() {
        let (one, other) = (place(SiteKind::Ssh, "n1"), place(SiteKind::Ssh, "n2"));
        assert!(!is_elsewhere(Some(&one), Some(&one), &[]));
        assert!(is_elsewhere(Some(&one), Some(&other), &[]));
        assert!(is_elsewhere(Some(&one), None, &[]) && is_elsewhere(None, None, &[]));
        assert!(
            !is_elsewhere(None, Some(&one), &[]),
            "an earlier version did not say where"
        );
    }
}
