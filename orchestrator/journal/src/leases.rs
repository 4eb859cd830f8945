//! Leases and their states, folded from their events.

use crate::{Acquired, Event, EventProblem, lease::LaunchOrder};
use cvc_core::ids::{InstanceId, LeaseId, SiteName};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Nodes that were requested from a scheduler or a cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// Name of the lease: the name of the Slurm job, or the client token of the launch.
    pub name: LeaseId,
    /// The site.
    pub site: SiteName,
    /// The job or the instances of the lease; `None` if the answer to the request has not been recorded.
    pub by: Option<Acquired>,
    /// The launch order; `None` for a job of a scheduler.
    pub order: Option<Box<LaunchOrder>>,
    /// Time of the request.
    pub intended: Timestamp,
    /// Time at which the lease was acquired.
    pub acquired: Option<Timestamp>,
    /// Lost instances of the lease, each with the time of its loss.
    pub lost: BTreeMap<InstanceId, Timestamp>,
    /// Time until which the lease is kept for the next campaign; `None` if it is not kept. Another campaign may have taken it over.
    pub kept_until: Option<Timestamp>,
    /// Time at which the lease's instances terminate themselves; `None` if it has not been moved since the launch.
    pub deadline: Option<Timestamp>,
    /// Changes of the price since the order, sorted by time: the time from which each price holds, and the price of one instance, US dollars per
    /// hour.
    pub prices: Vec<(Timestamp, f64)>,
    /// Whether the lease has ended.
    pub released: bool,
    /// Time at which the lease was released.
    pub ended: Option<Timestamp>,
}

impl Lease {
    /// Returns whether the scheduler has accepted the job, or the cloud has launched the instances.
    pub fn is_acquired(&self) -> bool {
        self.by.is_some()
    }

    /// Returns the newest hourly price of one instance, US dollars; `None` if unknown.
    pub fn usd_per_hour(&self) -> Option<f64> {
        let ordered = self.order.as_ref()?.usd_per_hour?;
        Some(self.prices.last().map_or(ordered, |(_, usd)| *usd))
    }

    /// Returns the scheduler's identifier of the job; `None` for a cloud's lease.
    pub fn job(&self) -> Option<&str> {
        match &self.by {
            Some(Acquired::Job(job)) => Some(job.as_str()),
            Some(Acquired::Instances(_)) | None => None,
        }
    }

    /// Returns the instances that a cloud has launched for the lease.
    pub fn instances(&self) -> Vec<&str> {
        match &self.by {
            Some(Acquired::Instances(ids)) => ids.iter().map(InstanceId::as_str).collect(),
            Some(Acquired::Job(_)) | None => Vec::new(),
        }
    }
}

/// Checks whether an event may follow, given the present leases.
///
/// # Errors
/// The event refers to a lease that was not requested.
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
    // events usually concern the newest leases
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
/// The event refers to a lease that was not requested.
pub fn apply_to_leases(
    leases: &mut Vec<Lease>,
    at: Timestamp,
    event: &Event,
) -> Result<(), EventProblem> {
    check(leases, event)?;
    fold(leases, at, event);
    Ok(())
}

/// Folds an event that was already checked.
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
            // prices that were assumed for a later time are replaced
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
