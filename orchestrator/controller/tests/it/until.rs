//! Repeats until the interval of a point is narrow.

use crate::memory::{Course, LOCAL, one_point};
use cvc_journal::Event;
use std::fs;

const NARROW: &str = "repeats = { min = 3, max = 8, until = '5 %', of = 'rate' }\nretries = 0";

/// Decisions: repeats, whether the interval is narrow, and why.
fn decisions(events: Vec<Event>) -> Vec<(u32, bool, String)> {
    let decision = |event| match event {
        Event::PointDecided {
            repeats,
            is_narrow,
            reason,
            ..
        } => Some((repeats, is_narrow, reason)),
        _ => None,
    };
    events.into_iter().filter_map(decision).collect()
}

/// The rates of runs, by their number.
fn rates(rates: [f64; 3]) -> impl Fn(usize, &cvc_engine::attempt::Task) -> Course {
    move |_, task| {
        let n = match task.planned.repeat {
            cvc_core::point::Repeat::Measured(n) => n as usize - 1,
            cvc_core::point::Repeat::Warmup(_) => 0,
        };
        Course::Succeeds(1, rates[n % rates.len()])
    }
}

#[tokio::test(start_paused = true)]
async fn a_point_that_scatters_little_ends_early_and_says_why() {
    let bench = one_point(NARROW);
    bench.set(rates([100.0, 101.0, 99.0]));
    let summary = bench.run().await;
    assert_eq!(
        (summary.succeeded, summary.left, bench.attempts()),
        (3, 0, vec![3])
    );
    let reason = "rate ±3.3 % after 3 repeats, 5 % requested".to_owned();
    assert_eq!(decisions(bench.events()), [(3, true, reason)]);
    assert!(bench.state().completed);
    bench.run().await;
    assert_eq!(bench.attempts(), [3], "nothing is left to do");

    // as if the controller had been killed before it could write the decision
    let journal = bench.dir().journal();
    let text = fs::read_to_string(&journal).expect("a journal");
    let cut = text
        .split_inclusive('\n')
        .take_while(|l| !l.contains("point-decided"));
    fs::write(&journal, cut.collect::<String>()).expect("writes");
    let _ = fs::remove_file(journal.with_extension("mark"));
    bench.run().await;
    assert_eq!(
        (bench.attempts(), decisions(bench.events()).len()),
        (vec![3], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_point_that_scatters_gets_all_its_runs_and_stays_wide_until_less_is_asked() {
    let run = |max: u32, until: &str| {
        format!("repeats = {{ min = 3, max = {max}, until = '{until}', of = 'rate' }}")
    };
    let mut bench = one_point(&run(5, "5 %"));
    bench.set(rates([100.0, 80.0, 120.0]));
    bench.run().await;
    assert_eq!(bench.attempts(), [5]);
    let decided = decisions(bench.events());
    assert!(
        decided.len() == 1
            && !decided[0].1
            && decided[0]
                .2
                .ends_with("after 5 repeats, not the requested 5 %: no runs are left"),
        "{decided:?}"
    );
    // a wider interval is enough for fewer; what has run stays
    bench.change(LOCAL, "mapping = '1Nx1P'", &run(9, "50 %"));
    bench.run().await;
    assert_eq!(bench.attempts(), [5]);
    let last = decisions(bench.events()).pop().expect("a decision");
    assert_eq!((last.0, last.1), (5, true));
}
