//! Leases, folded from their events.

use crate::{Acquired, Event, EventProblem, lease::LaunchOrder};
use cvc_core::ids::{InstanceId, LeaseId, SiteName};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Nodes that were requested from a scheduler or a cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// Its name: that of the job, or the client token.
    pub name: LeaseId,
    /// For which site.
    pub site: SiteName,
    /// What the scheduler or the cloud gave, once known.
    pub by: Option<Acquired>,
    /// The order to a cloud.
    pub order: Option<Box<LaunchOrder>>,
    /// Time of the request.
    pub intended: Timestamp,
    /// When it was acquired.
    pub acquired: Option<Timestamp>,
    /// Instances of it that are gone, and the time of their loss.
    pub lost: BTreeMap<InstanceId, Timestamp>,
    /// Until when it is kept for the next campaign, which may have taken it over.
    pub kept_until: Option<Timestamp>,
    /// When its instances terminate themselves, if that was extended since they were launched.
    pub deadline: Option<Timestamp>,
    /// What an instance costs an hour, US dollars, since when, as far as that differs from its order; in order.
    pub prices: Vec<(Timestamp, f64)>,
    /// Whether it is over.
    pub released: bool,
    /// When it was released.
    pub ended: Option<Timestamp>,
}

impl Lease {
    /// Whether the scheduler has accepted it, or the cloud has launched it.
    pub fn is_acquired(&self) -> bool {
        self.by.is_some()
    }

    /// What an instance costs an hour by the newest price, US dollars; `None` if that is not known.
    pub fn usd_per_hour(&self) -> Option<f64> {
        let ordered = self.order.as_ref()?.usd_per_hour?;
        Some(self.prices.last().map_or(ordered, |(_, usd)| *usd))
    }

    /// The scheduler's identifier of the job.
    pub fn job(&self) -> Option<&str> {
        match &self.by {
            Some(Acquired::Job(job)) => Some(job.as_str()),
            Some(Acquired::Instances(_)) | None => None,
        }
    }

    /// Instances that a cloud has launched for it.
    pub fn instances(&self) -> Vec<&str> {
        match &self.by {
            Some(Acquired::Instances(ids)) => ids.iter().map(InstanceId::as_str).collect(),
            Some(Acquired::Job(_)) | None => Vec::new(),
        }
    }
}

/// Checks whether an event may follow these leases.
///
/// # Errors
/// When it is about a lease that was not requested.
pub(crate) fn check(leases: &[Lease], event: &Event) -> Result<(), EventProblem> {
    let (name, what) = match event {
        Event::LeaseAcquired { lease, .. } => (lease, "acquired"),
        Event::LeaseExtended { lease, .. } => (lease, "extended"),
        Event::LeasePriced { lease, .. } => (lease, "priced"),
        Event::LeaseKept { lease, .. } => (lease, "kept"),
        Event::LeaseLost { lease, .. } => (lease, "lost"),
        Event::LeaseReleased { lease, .. } => (lease, "released"),
        _ => return Ok(()),
    };
    // events mostly concern the last ones
    if leases.iter().rev().any(|l| l.name == *name) {
        return Ok(());
    }
    Err(EventProblem::NoLease {
        lease: name.clone(),
        what,
    })
}

/// Folds an event into leases, as the journal does.
///
/// # Errors
/// When it is about a lease that was not requested.
pub fn apply_to_leases(
    leases: &mut Vec<Lease>,
    at: Timestamp,
    event: &Event,
) -> Result<(), EventProblem> {
    check(leases, event)?;
    fold(leases, at, event);
    Ok(())
}

/// Folds an event that may follow.
pub(crate) fn fold(leases: &mut Vec<Lease>, at: Timestamp, event: &Event) {
    let mut change = |name: &LeaseId, change: &dyn Fn(&mut Lease)| {
        if let Some(lease) = leases.iter_mut().rfind(|l| l.name == *name) {
            change(lease);
        }
    };
    match event {
        Event::LeaseIntended {
            lease, site, order, ..
        } => leases.push(Lease {
            name: lease.clone(),
            site: site.clone(),
            by: None,
            order: order.clone(),
            intended: at,
            acquired: None,
            lost: BTreeMap::new(),
            kept_until: None,
            deadline: None,
            prices: Vec::new(),
            released: false,
            ended: None,
        }),
        Event::LeaseAcquired { lease, by } => change(lease, &|lease| {
            lease.by = Some(by.clone());
            lease.acquired.get_or_insert(at);
            lease.kept_until = None;
        }),
        Event::LeaseExtended { lease, until } => {
            change(lease, &|lease| lease.deadline = Some(*until));
        }
        Event::LeasePriced { lease, rate, since } => change(lease, &|lease| {
            // what was assumed meanwhile does not count any more
            lease.prices.retain(|(at, _)| at < since);
            lease.prices.push((*since, rate.usd_per_hour));
        }),
        Event::LeaseKept { lease, until } => change(lease, &|lease| {
            lease.kept_until = Some(*until);
            lease.deadline = Some(*until);
        }),
        Event::LeaseLost {
            lease, instances, ..
        } => change(lease, &|lease| {
            let lost = instances.iter().map(|id| (id.clone(), at));
            lease.lost.extend(lost);
        }),
        Event::LeaseReleased { lease, .. } => change(lease, &|lease| {
            lease.released = true;
            lease.ended = Some(at);
        }),
        _ => {}
    }
}
