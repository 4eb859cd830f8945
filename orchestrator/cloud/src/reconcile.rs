//! Decides which actions bring a fleet to the requested number of instances. The decision depends only on the launches in the journal and on the
//! cloud's answer.

use crate::provider::Instance;
use std::collections::BTreeMap;

/// An instance that was launched according to the journal.
#[derive(Clone, Debug)]
pub(super) struct FleetMember {
    pub(super) id: String,
    /// Whether the launch was so recent that the cloud may not show the instance yet.
    pub(super) is_young: bool,
}

/// An action on a fleet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Query the cloud again later: it may not show an instance that was just launched. Until then such an instance counts neither as lost nor as
    /// missing.
    WaitToShow,
    /// Journal that instances have ended by themselves.
    NoteLost,
    /// End all instances, because their types or zones differ: measurements on a mixed fleet describe none of the types.
    EndMixed(Vec<Instance>),
    /// Launch more instances.
    Launch {
        /// Number of instances.
        count: u32,
        /// The instances that the fleet has already.
        beside: Vec<Instance>,
    },
    /// Create or find the key pair and the groups.
    Prepare,
    /// End instances that are no longer needed.
    EndSurplus(Vec<Instance>),
    /// Wait until these instances are ready.
    AwaitReady(Vec<String>),
}

/// Returns the next actions, in order. After a launch, an end or a wait the fleet must be queried again.
pub(super) fn reconcile(
    nodes: u32,
    members: &[FleetMember],
    seen: &BTreeMap<String, Instance>,
) -> Vec<Action> {
    if members
        .iter()
        .any(|m| m.is_young && !seen.contains_key(&m.id))
    {
        return vec![Action::WaitToShow];
    }
    let mut alive: Vec<Instance> = members
        .iter()
        .filter_map(|m| seen.get(&m.id))
        .filter(|i| i.state.is_alive())
        .cloned()
        .collect();
    let is_mixed = alive
        .iter()
        .any(|i| i.zone != alive[0].zone || i.instance_type != alive[0].instance_type);
    let missing = nodes.saturating_sub(u32::try_from(alive.len()).unwrap_or(u32::MAX));
    let mut actions = vec![Action::NoteLost];
    if is_mixed {
        actions.push(Action::EndMixed(alive));
    } else if missing > 0 {
        actions.push(Action::Launch {
            count: missing,
            beside: alive,
        });
    } else {
        actions.push(Action::Prepare);
        let surplus = alive.split_off(nodes as usize);
        if !surplus.is_empty() {
            actions.push(Action::EndSurplus(surplus));
        }
        actions.push(Action::AwaitReady(
            alive.into_iter().map(|i| i.id).collect(),
        ));
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::InstanceState;

    fn instance(id: &str, state: InstanceState, zone: &str) -> Instance {
        Instance {
            id: id.into(),
            lease: "l".into(),
            state,
            address: None,
            internal: None,
            zone: zone.into(),
            instance_type: "t".into(),
            spot: false,
            launched: None,
            reason: None,
        }
    }

    fn running(id: &str) -> Instance {
        instance(id, InstanceState::Running, "a")
    }

    fn seen(instances: &[Instance]) -> BTreeMap<String, Instance> {
        instances
            .iter()
            .map(|i| (i.id.clone(), i.clone()))
            .collect()
    }

    fn members(ids: &[&str]) -> Vec<FleetMember> {
        ids.iter()
            .map(|id| FleetMember {
                id: (*id).to_owned(),
                is_young: false,
            })
            .collect()
    }

    #[test]
    fn what_was_just_launched_is_neither_lost_nor_missing_until_it_is_shown() {
        let mut members = members(&["i-1", "i-2"]);
        let there = seen(&[running("i-1")]);
        assert_eq!(
            reconcile(2, &members, &there),
            [
                Action::NoteLost,
                Action::Launch {
                    count: 1,
                    beside: vec![running("i-1")]
                }
            ],
            "one that is not young and not shown is lost"
        );
        members[1].is_young = true;
        assert_eq!(reconcile(2, &members, &there), [Action::WaitToShow]);
    }

    #[test]
    fn missing_instances_are_launched_next_to_existing_ones() {
        assert_eq!(
            reconcile(2, &[], &seen(&[])),
            [
                Action::NoteLost,
                Action::Launch {
                    count: 2,
                    beside: Vec::new()
                }
            ]
        );
        let there = seen(&[
            running("i-1"),
            instance("i-2", InstanceState::Terminated, "a"),
        ]);
        let expected = [
            Action::NoteLost,
            Action::Launch {
                count: 1,
                beside: vec![running("i-1")],
            },
        ];
        assert_eq!(reconcile(2, &members(&["i-1", "i-2"]), &there), expected);
    }

    #[test]
    fn instances_of_several_zones_are_ended_even_if_some_are_missing() {
        let there = [running("i-1"), instance("i-2", InstanceState::Pending, "b")];
        let expected = [Action::NoteLost, Action::EndMixed(there.to_vec())];
        assert_eq!(
            reconcile(3, &members(&["i-1", "i-2"]), &seen(&there)),
            expected
        );
    }

    #[test]
    fn surplus_instances_are_ended_and_the_first_ones_kept() {
        let there = [running("i-1"), running("i-2"), running("i-3")];
        let members = members(&["i-2", "i-1", "i-3"]);
        let ready =
            |ids: &[&str]| Action::AwaitReady(ids.iter().map(|i| (*i).to_owned()).collect());
        assert_eq!(
            reconcile(3, &members, &seen(&there)),
            [
                Action::NoteLost,
                Action::Prepare,
                ready(&["i-2", "i-1", "i-3"])
            ]
        );
        let expected = [
            Action::NoteLost,
            Action::Prepare,
            Action::EndSurplus(vec![running("i-3")]),
            ready(&["i-2", "i-1"]),
        ];
        assert_eq!(reconcile(2, &members, &seen(&there)), expected);
    }
}
