//! Queues of runs with equal needs: the same number of nodes of the same site.

use cvc_core::point::Point;
use std::collections::{BTreeSet, HashMap};

/// The runs that need the same number of nodes of the same site, by their numbers in the plan. Contains every run that may start. Other runs may be
/// in the queue, too; they are skipped at their turn.
pub(super) struct Queue<'a> {
    pub(super) site: &'a str,
    pub(super) runs: BTreeSet<usize>,
}

/// The queues of a plan: one for each pair of a site and a number of nodes.
#[derive(Default)]
pub(super) struct Queues<'a> {
    queues: Vec<Queue<'a>>,
    /// The queue of each run; `None` for a run whose point is not in the plan.
    queue_of: Vec<Option<usize>>,
}

impl<'a> Queues<'a> {
    /// Creates the queues with all runs of the plan; `points` has each point with the numbers of its runs.
    pub(super) fn new<'r>(
        runs: usize,
        points: impl Iterator<Item = (&'a Point, &'r [usize])>,
    ) -> Self {
        let mut all = Self {
            queues: Vec::new(),
            queue_of: vec![None; runs],
        };
        let mut places: HashMap<(&str, u32), usize> = HashMap::new();
        for (point, numbers) in points {
            let place = *places
                .entry((&point.site, point.mapping.nodes()))
                .or_insert_with(|| {
                    all.queues.push(Queue {
                        site: &point.site,
                        runs: BTreeSet::new(),
                    });
                    all.queues.len() - 1
                });
            for number in numbers {
                all.queue_of[*number] = Some(place);
            }
            all.queues[place].runs.extend(numbers);
        }
        all
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Queue<'a>> {
        self.queues.iter()
    }

    fn of(&mut self, number: usize) -> Option<&mut BTreeSet<usize>> {
        let place = (*self.queue_of.get(number)?)?;
        self.queues.get_mut(place).map(|q| &mut q.runs)
    }

    /// Adds a run, unless it is in its queue already.
    pub(super) fn add(&mut self, number: usize) {
        if let Some(runs) = self.of(number) {
            runs.insert(number);
        }
    }

    /// Removes a run from its queue, if it is there.
    pub(super) fn remove(&mut self, number: usize) {
        if let Some(runs) = self.of(number) {
            runs.remove(&number);
        }
    }

    /// Removes settled runs at the beginning of each queue.
    pub(super) fn skip(&mut self, is_settled: impl Fn(usize) -> bool) {
        for queue in &mut self.queues {
            while queue.runs.first().is_some_and(|number| is_settled(*number)) {
                queue.runs.pop_first();
            }
        }
    }
}
