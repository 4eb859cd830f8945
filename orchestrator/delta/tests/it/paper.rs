//! Reproduces the reported behaviour of ADCA (paper `delta`: Airbag, 25 checkpoints): its base changes once, at t = 7; up to then two files restore
//! a state, afterwards three. Airbag is not public; a front that moves through a domain at rest behaves in the same way.

use cvc_delta::{Matrix, Method, Threshold};

const STATES: usize = 25;
/// Number of blocks that the front passes between two states.
const STEP: usize = 40;
/// Number of blocks of the domain; the front has crossed it before the eighth state.
const DOMAIN: usize = 7 * STEP;
/// Number of blocks behind the front that keep changing.
const LEFT_BEHIND: usize = 40;
const BLOCK: u64 = 4096;

/// Returns the differences between the states of a program with such a front; for each state and block, the last change is computed.
fn front() -> Matrix {
    let mut content = vec![0_usize; DOMAIN + LEFT_BEHIND];
    let mut states: Vec<Vec<usize>> = Vec::new();
    for t in 0..STATES {
        if t > 0 {
            content[((t - 1) * STEP).min(DOMAIN)..(t * STEP).min(DOMAIN)].fill(t);
            content[DOMAIN..].fill(t);
        }
        states.push(content.clone());
    }
    let changed = (0..STATES)
        .map(|new| {
            (0..new)
                .map(|old| {
                    let differ = states[new]
                        .iter()
                        .zip(&states[old])
                        .filter(|(a, b)| a != b)
                        .count();
                    differ as u64 * BLOCK
                })
                .collect()
        })
        .collect();
    let bytes = (DOMAIN + LEFT_BEHIND) as u64 * BLOCK;
    Matrix::new(
        (0..STATES).map(|t| t as f64).collect(),
        vec![bytes; STATES],
        changed,
    )
}

/// Returns the states, counted from 1, in which the base changes.
fn switches(threshold: Threshold) -> Vec<usize> {
    front().switches(threshold).iter().map(|t| t + 1).collect()
}

#[test]
fn the_base_changes_once_at_the_seventh_state_for_a_range_of_thresholds() {
    for hundredths in 300..350 {
        let threshold = Threshold::Ratio(f64::from(hundredths) / 100.0);
        assert_eq!(switches(threshold), [7], "{threshold:?}");
    }
    assert_ne!(switches(Threshold::Ratio(2.99)), [7]);
    assert_ne!(switches(Threshold::Ratio(3.5)), [7]);
    // the other possible reading of the incomplete rule: a difference in bytes
    let step = STEP as i64 * BLOCK as i64;
    for bytes in [4 * step, 5 * step - 1] {
        assert_eq!(switches(Threshold::Bytes(bytes)), [7], "{bytes}");
    }
    assert_ne!(switches(Threshold::Bytes(4 * step - 1)), [7]);
    assert_ne!(switches(Threshold::Bytes(5 * step)), [7]);
}

#[test]
fn two_files_restore_a_state_up_to_the_switch_and_three_afterwards() {
    let choices = front().choices(Method::Adca {
        threshold: Threshold::Ratio(3.2),
    });
    let files: Vec<u32> = choices.iter().map(|c| c.files).collect();
    assert_eq!(files[0], 1);
    assert!(files[1..7].iter().all(|f| *f == 2), "{files:?}");
    assert!(files[7..].iter().all(|f| *f == 3), "{files:?}");
}

#[test]
fn adca_stores_about_what_incremental_does_and_differential_grows() {
    let front = front();
    let stored = |method| {
        front.choices(method)[1..]
            .iter()
            .map(|c| c.bytes)
            .collect::<Vec<u64>>()
    };
    let (incremental, differential, adca) = (
        stored(Method::Incremental),
        stored(Method::Differential),
        stored(Method::Adca {
            threshold: Threshold::Ratio(3.2),
        }),
    );
    assert!(incremental.windows(2).all(|w| w[1] <= w[0]));
    assert!(differential.windows(2).all(|w| w[1] >= w[0]));
    assert_eq!(differential[23], 8 * differential[0] / 2);
    let sum = |volumes: &[u64]| volumes.iter().sum::<u64>() as f64;
    assert!(sum(&adca) < 0.6 * sum(&differential), "{}", sum(&adca));
    assert!(sum(&adca) < 2.2 * sum(&incremental), "{}", sum(&adca));
}

#[test]
fn the_page_shows_the_curve_of_switches() {
    let page = include_str!("../../../../docs/models.md");
    let front = front();
    let curve =
        front.switches_by_ratio(&[1.0, 1.4, 1.5, 2.0, 2.5, 3.0, 3.4, 3.5, 4.0, f64::INFINITY]);
    for (ratio, switches) in curve {
        let files = front
            .choices(Method::Adca {
                threshold: Threshold::Ratio(ratio),
            })
            .iter()
            .map(|c| c.files)
            .max()
            .unwrap();
        let moments: Vec<String> = switches.iter().map(|t| (t + 1).to_string()).collect();
        let moments = if moments.is_empty() {
            "-".to_owned()
        } else {
            moments.join(", ")
        };
        let ratio = if ratio.is_finite() {
            ratio.to_string()
        } else {
            "∞".to_owned()
        };
        let row = format!("| {ratio} | {} | {moments} | {files} |", switches.len());
        assert!(
            page.lines().any(|line| line == row),
            "docs/models.md: {row}"
        );
    }
}
