//! Limits how often the instances at each place of a fleet are replaced within an hour. A market that reclaims some instances each day may do so for
//! a week, but a place whose instances fail again and again is given up soon, however large the fleet is.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Period over which replacements are counted.
pub(super) const WINDOW: Duration = Duration::from_secs(3600);
/// Maximum number of replacements at one place within this period, of instances that the spot market reclaimed.
pub(super) const MAX_RECLAIMED: usize = 4;
/// Maximum number of replacements at one place within this period, of instances that failed: a second failure at the same place is hardly a
/// coincidence.
pub(super) const MAX_FAILED: usize = 1;

/// An instance that was replaced.
#[derive(Clone, Copy, Debug)]
struct Replaced {
    at: Instant,
    reclaimed: bool,
}

/// The places of a fleet, with their current instances and the times at which earlier ones were replaced.
#[derive(Debug, Default)]
pub(super) struct Slots {
    instances: Vec<String>,
    past: Vec<Vec<Replaced>>,
}

impl Slots {
    /// Assigns each instance in `ids` that has no place yet to the place of a lost instance, or to a new place.
    pub(super) fn assign_slots(&mut self, ids: &[String]) {
        let mut fresh: Vec<String> = ids
            .iter()
            .filter(|id| !self.instances.contains(id))
            .cloned()
            .collect();
        fresh.reverse();
        for assigned in &mut self.instances {
            if !ids.contains(assigned)
                && let Some(next) = fresh.pop()
            {
                *assigned = next;
            }
        }
        while let Some(next) = fresh.pop() {
            self.instances.push(next);
        }
        self.past.resize(self.instances.len(), Vec::new());
    }

    /// Counts instances that are to be replaced. `failed` tells for each whether the spot market reclaimed it. Returns an instance at whose place too
    /// many were replaced within [`WINDOW`]; `None` if there is none.
    pub(super) fn count<'f>(
        &mut self,
        failed: &'f BTreeMap<String, bool>,
        now: Instant,
    ) -> Option<&'f str> {
        let unknown: Vec<String> = failed
            .keys()
            .filter(|id| !self.instances.contains(id))
            .cloned()
            .collect();
        self.instances.extend(unknown);
        self.past.resize(self.instances.len(), Vec::new());
        let mut too_often = None;
        for (id, &reclaimed) in failed {
            let Some(past) = self
                .instances
                .iter()
                .position(|i| i == id)
                .and_then(|slot| self.past.get_mut(slot))
            else {
                continue;
            };
            past.retain(|r| now.saturating_duration_since(r.at) < WINDOW);
            past.push(Replaced { at: now, reclaimed });
            let most = if reclaimed { MAX_RECLAIMED } else { MAX_FAILED };
            if past.iter().filter(|r| r.reclaimed == reclaimed).count() > most {
                too_often.get_or_insert(id.as_str());
            }
        }
        too_often
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    fn failed(names: &[&str], reclaimed: bool) -> BTreeMap<String, bool> {
        names.iter().map(|n| ((*n).to_owned(), reclaimed)).collect()
    }

    #[test]
    fn each_instance_of_a_large_fleet_may_be_taken_back_in_one_hour() {
        let names: Vec<String> = (0..20).map(|n| format!("i-{n}")).collect();
        let mut slots = Slots::default();
        slots.assign_slots(&names);
        assert_eq!(
            slots.count(
                &names.iter().map(|n| (n.clone(), true)).collect(),
                Instant::now()
            ),
            None
        );
    }

    #[test]
    fn a_place_whose_instances_fail_again_is_given_up_although_others_are_well() {
        let (mut slots, now) = (Slots::default(), Instant::now());
        slots.assign_slots(&ids(&["a", "b", "c"]));
        assert_eq!(slots.count(&failed(&["b"], false), now), None);
        slots.assign_slots(&ids(&["a", "c", "d"]));
        assert_eq!(
            slots.count(&failed(&["a"], false), now),
            None,
            "it is another place"
        );
        slots.assign_slots(&ids(&["c", "d", "e"]));
        assert_eq!(slots.count(&failed(&["d"], false), now), Some("d"));
    }

    #[test]
    fn what_was_replaced_more_than_an_hour_ago_does_not_count() {
        let (mut slots, mut now) = (Slots::default(), Instant::now());
        for n in 0..30 {
            slots.assign_slots(&ids(&[&format!("i-{n}")]));
            assert_eq!(
                slots.count(&failed(&[&format!("i-{n}")], true), now),
                None,
                "{n}"
            );
            now += WINDOW / 4;
        }
        let often = |slots: &mut Slots, n: usize| {
            slots.assign_slots(&ids(&[&format!("j-{n}")]));
            slots
                .count(&failed(&[&format!("j-{n}")], true), now)
                .is_some()
        };
        assert!((0..5).any(|n| often(&mut slots, n)));
    }
}
