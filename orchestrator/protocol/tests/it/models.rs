//! `CVC_MODEL_FAULTS` and `CVC_MODEL_OTHERS` set a larger bound; `cargo test --release -p cvc-protocol -- --nocapture` shows the numbers.

use cvc_protocol::{Attempts, Bound, Budget, Fleets, Rules};
use stateright::{Checker, Expectation, Model};
use std::{collections::HashMap, fmt::Debug, hash::Hash};

fn bound() -> Bound {
    let read = |name: &str, small: u8| std::env::var(name).map_or(small, |text| text.parse().expect("a number up to 255"));
    Bound { faults: read("CVC_MODEL_FAULTS", Bound::SMALL.faults), others: read("CVC_MODEL_OTHERS", Bound::SMALL.others) }
}

/// Explores a model. Returns the properties that do not hold, each with the steps to its counter-example.
fn explore<M>(model: M) -> Vec<(&'static str, String)>
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let what = format!("{model:?}");
    let checker = model.checker().spawn_bfs().join();
    println!("{what}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    let found = checker.discoveries();
    let mut wrong = Vec::new();
    for property in checker.model().properties() {
        match (property.expectation, found.get(property.name)) {
            (Expectation::Always | Expectation::Eventually, Some(path)) => {
                let steps: Vec<String> = path.clone().into_actions().iter().map(|action| format!("{action:?}")).collect();
                println!("  {}: {}", property.name, steps.join(", "));
                wrong.push((property.name, steps.join(", ")));
            }
            (Expectation::Sometimes, None) => wrong.push((property.name, "never happens".into())),
            (Expectation::Always | Expectation::Eventually, None) | (Expectation::Sometimes, Some(_)) => {}
        }
    }
    wrong
}

/// Whether no path of a model returns to a state: then every path ends in a state in which no step is possible.
fn is_acyclic<M: Model>(model: &M) -> bool
where
    M::State: Clone + Eq + Hash,
{
    // whether all paths from a state were followed
    let mut seen: HashMap<M::State, bool> = HashMap::new();
    let mut path: Vec<(M::State, Vec<M::State>)> = Vec::new();
    for first in model.init_states() {
        seen.insert(first.clone(), false);
        path.push((first.clone(), model.next_states(&first)));
    }
    while let Some((state, ahead)) = path.last_mut() {
        let Some(next) = ahead.pop() else {
            seen.insert(state.clone(), true);
            path.pop();
            continue;
        };
        match seen.get(&next) {
            Some(true) => {}
            Some(false) => return false,
            None => {
                seen.insert(next.clone(), false);
                path.push((next.clone(), model.next_states(&next)));
            }
        }
    }
    true
}

/// Checks that a rule has a counter-example to a property.
fn expect_wrong(wrong: &[(&str, String)], property: &str) {
    assert!(wrong.iter().any(|(name, steps)| *name == property && steps != "never happens"), "{wrong:#?}");
}

fn fleets(rules: Rules) -> Fleets {
    Fleets { rules, bound: bound() }
}

fn attempts(rules: Rules) -> Attempts {
    Attempts { rules, bound: bound() }
}

fn budget(rules: Rules) -> Budget {
    Budget { rules, bound: bound(), fleets: 2, limit: 8, lifetime: 6 }
}

#[test]
fn fleets_are_never_lost_nor_taken_from_who_uses_them() {
    assert_eq!(explore(fleets(Rules::Present)), []);
}

#[test]
fn an_attempt_is_found_again_after_its_controller_died() {
    assert_eq!(explore(attempts(Rules::Present)), []);
}

#[test]
fn fleets_cost_no_more_than_the_budget_also_without_a_controller() {
    assert_eq!(explore(budget(Rules::Present)), []);
}

#[test]
fn every_path_of_the_models_ends() {
    assert!(is_acyclic(&fleets(Rules::Present)), "fleets");
    assert!(is_acyclic(&attempts(Rules::Present)), "attempts");
    assert!(is_acyclic(&budget(Rules::Present)), "budget");
}

#[test]
fn a_campaign_named_by_its_place_begins_a_second_attempt_beside_the_first() {
    expect_wrong(&explore(attempts(Rules::IdentityIsPlace)), "at most one attempt of a run is alive");
}

#[test]
fn absence_from_the_shelf_makes_down_forget_instances() {
    expect_wrong(&explore(fleets(Rules::JournalBeforeShelf)), "when `down` has said that nothing is left, nothing is");
}

#[test]
fn two_fleets_with_the_whole_allowance_each_cost_more_than_the_budget() {
    expect_wrong(&explore(budget(Rules::WholeAllowanceEach)), "the cost is within the budget");
}

#[test]
fn a_sweep_that_lets_the_lock_go_ends_adopted_instances() {
    expect_wrong(&explore(fleets(Rules::SweepLetsLockGo)), "nobody ends instances that another campaign uses");
}

#[test]
fn a_sweep_that_asks_only_journals_ends_instances_that_were_just_taken_over() {
    expect_wrong(&explore(fleets(Rules::SweepAsksJournalsOnly)), "nobody ends instances that another campaign uses");
}

#[test]
fn down_that_asks_only_for_leases_forgets_a_fleet_whose_taker_was_killed() {
    expect_wrong(&explore(fleets(Rules::DownAsksLeasesOnly)), "when `down` has said that nothing is left, nothing is");
}

#[test]
fn a_mute_controller_that_ends_what_it_has_shelved_robs_the_taker() {
    expect_wrong(&explore(fleets(Rules::MuteEndsShelved)), "nobody ends instances that another campaign uses");
}
