//! The outcome of a claim.

use super::{
    TestOutcome,
    test::{ComparedSides, shown},
};
use crate::paper::claim::Claim;
use indexmap::IndexMap;
use serde::Serialize;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The paper's own numbers or runs made here support the claim, and neither contradict it.
    Holds,
    /// The paper's own numbers contradict the claim.
    ContradictedByPrint,
    /// Runs made here contradict the claim, but the paper's own numbers do not.
    ContradictedHere,
    /// Neither the paper's own numbers nor runs decide the claim.
    #[serde(rename = "cannot-be-told")]
    Undecided,
}

impl ClaimVerdict {
    /// All verdicts, in the order of reports.
    pub const ALL: [Self; 4] = [
        Self::Holds,
        Self::ContradictedByPrint,
        Self::ContradictedHere,
        Self::Undecided,
    ];

    /// Returns the verdict as text.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::ContradictedByPrint => "contradicted by print",
            Self::ContradictedHere => "contradicted here",
            Self::Undecided => "undecided",
        }
    }
}

/// Outcome of the tests on one kind of numbers: printed numbers, or numbers from runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideOutcome {
    /// Whether all tests pass; `None` if undecided.
    pub holds: Option<bool>,
    /// Number of values that were compared.
    pub compared: usize,
    /// Number of compared values within their bound.
    pub agree: usize,
    /// Number of compared values that scatter too much to decide.
    pub open: usize,
    /// Minimum and maximum of the compared values, if there is only one test.
    pub range: Option<[f64; 2]>,
    /// A text about the worst value of the first failed test: the value that violates the bound most. `None` if no test failed.
    pub counterexample: Option<String>,
    /// Names of the misprints that were corrected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub corrected: Vec<String>,
    /// Outcomes of the levels of a factor by themselves, if the claim asks for them.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub by: IndexMap<String, SideOutcome>,
}

impl SideOutcome {
    /// Returns the outcome of the tests; `None` if there are no tests.
    pub fn of(tests: &[TestOutcome], corrected: Vec<String>) -> Option<Self> {
        let all = || tests.iter().flat_map(|t| &t.compared);
        let any_fails = tests.iter().any(|t| t.holds == Some(false));
        let holds = if any_fails {
            Some(false)
        } else {
            tests.iter().all(|t| t.holds == Some(true)).then_some(true)
        };
        let numbers = || tests[0].compared.iter().map(|c| c.number);
        let is_one = tests.len() == 1 && numbers().next().is_some();
        // of several failed tests, the first is described
        let failed = tests.iter().filter(|t| t.holds == Some(false));
        let worst = failed.filter_map(farthest).next();
        (!tests.is_empty()).then(|| Self {
            holds,
            compared: all().count(),
            agree: all().filter(|c| c.holds == Some(true)).count(),
            open: all().filter(|c| c.holds.is_none()).count(),
            range: is_one.then(|| {
                [
                    numbers().fold(f64::INFINITY, f64::min),
                    numbers().fold(f64::NEG_INFINITY, f64::max),
                ]
            }),
            counterexample: worst.map(|c| c.about.clone()),
            corrected,
            by: IndexMap::new(),
        })
    }

    /// Returns a text with the number of values that agree, and their range.
    pub fn describe(&self) -> String {
        let mut text = format!("{} of {}", self.agree, self.compared);
        if let Some([low, high]) = self.range {
            let (low, high) = (shown(low), shown(high));
            if low == high {
                text.push_str(&format!(": {low}"));
            } else {
                text.push_str(&format!(": {low} to {high}"));
            }
        }
        if self.open > 0 {
            text.push_str(&format!("; {} open", self.open));
        }
        for (level, of) in &self.by {
            let verdict = match of.holds {
                Some(true) => "yes",
                Some(false) => "no",
                None => "undecided",
            };
            text.push_str(&format!("; {level}: {verdict} ({})", of.describe()));
        }
        text
    }
}

/// Returns the value that violates the bound most: the value farthest from the mean of those within the bound or, if
/// there are none, from 1.
fn farthest(test: &TestOutcome) -> Option<&ComparedSides> {
    let kept: Vec<f64> = test
        .compared
        .iter()
        .filter(|c| c.holds == Some(true))
        .map(|c| c.number)
        .collect();
    let middle = if kept.is_empty() {
        1.0
    } else {
        kept.iter().sum::<f64>() / kept.len() as f64
    };
    let failed = test.compared.iter().filter(|c| c.holds == Some(false));
    failed.max_by(|a, b| {
        let by = |c: &ComparedSides| (c.number - middle).abs();
        by(a).total_cmp(&by(b))
    })
}

/// A claim with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimOutcome {
    /// Name of the claim.
    pub id: String,
    /// Section or table of the claim.
    pub section: String,
    /// Page, as printed.
    pub page: Option<u32>,
    /// The statement.
    pub says: String,
    /// How cvc interprets the statement.
    pub reading: Option<String>,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// Outcome from the paper's tables; `None` if they do not contain the numbers.
    pub print: Option<SideOutcome>,
    /// Outcome from runs; `None` if no campaign tests the claim.
    pub here: Option<SideOutcome>,
}

impl ClaimOutcome {
    /// Returns the outcome of a claim, with the verdict that follows from both kinds of numbers.
    pub fn new(claim: &Claim, print: Option<SideOutcome>, here: Option<SideOutcome>) -> Self {
        let holds = |side: &Option<SideOutcome>| side.as_ref().and_then(|s| s.holds);
        let verdict = match (holds(&print), holds(&here)) {
            (Some(false), _) => ClaimVerdict::ContradictedByPrint,
            (_, Some(false)) => ClaimVerdict::ContradictedHere,
            (Some(true), _) | (None, Some(true)) => ClaimVerdict::Holds,
            (None, None) => ClaimVerdict::Undecided,
        };
        Self {
            id: claim.id.clone(),
            section: claim.section.clone(),
            page: claim.page,
            says: claim.says.clone(),
            reading: claim.reading.clone(),
            verdict,
            print,
            here,
        }
    }

    /// Returns the evidence against the claim, or the reason why it is undecided.
    pub fn why(&self) -> String {
        let sides = [&self.print, &self.here].into_iter().flatten();
        let against = sides.clone().find_map(|s| s.counterexample.clone());
        match (against, self.verdict) {
            (Some(text), ClaimVerdict::ContradictedByPrint | ClaimVerdict::ContradictedHere) => {
                text
            }
            (_, ClaimVerdict::Undecided) => match (&self.print, &self.here) {
                (_, Some(here)) if here.compared > 0 => "its runs scatter too much".to_owned(),
                (Some(_), _) => "no two rows in print differ only in this".to_owned(),
                (None, _) => "printed only as a figure or in words, and no run tests it".to_owned(),
            },
            _ => String::new(),
        }
    }
}

/// Number of claims by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClaimCounts {
    /// Claims that hold.
    pub holds: usize,
    /// Claims that the paper's own numbers contradict.
    pub contradicted_by_print: usize,
    /// Claims that runs contradict.
    pub contradicted_here: usize,
    /// Claims that neither the paper's own numbers nor runs decide.
    #[serde(rename = "cannot_be_told")]
    pub undecided: usize,
}

impl ClaimCounts {
    /// Counts claims.
    pub fn of(claims: &[ClaimOutcome]) -> Self {
        let count = |verdict| claims.iter().filter(|c| c.verdict == verdict).count();
        let [holds, by_print, here, undecided] = ClaimVerdict::ALL.map(count);
        Self {
            holds,
            contradicted_by_print: by_print,
            contradicted_here: here,
            undecided,
        }
    }

    /// Returns a text with the counts above 0.
    pub fn describe(self) -> String {
        let counts = [
            self.holds,
            self.contradicted_by_print,
            self.contradicted_here,
            self.undecided,
        ];
        let of = counts.into_iter().zip(ClaimVerdict::ALL);
        let texts = of
            .filter(|(n, _)| *n > 0)
            .map(|(n, verdict)| match (verdict, n) {
                (ClaimVerdict::Holds, 2..) => format!("{n} hold"),
                _ => format!("{n} {}", verdict.describe()),
            });
        texts.collect::<Vec<_>>().join(", ")
    }
}
