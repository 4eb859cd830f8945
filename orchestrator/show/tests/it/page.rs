//! The page of a trace, as a file.

use crate::page_made::{gathered, program, ranks, write};
use cvc_show::{PlotSink, trace_page};
use cvc_trace::All;
use cvc_trace::{Api, Event, FileId, Missing, Op, Process, ProcessId, Sink};

/// The page without its style and its script.
fn body_of(page: &str) -> String {
    let mut body = page.to_owned();
    for (start, end) in [("<style>", "</style>"), ("<script>", "</script>")] {
        let from = body.find(start).expect("an element");
        let to = body.find(end).expect("its end");
        body.replace_range(from..to + end.len(), "");
    }
    body
}

fn made(fill: impl FnOnce(&mut All<'_>)) -> String {
    let (document, plots) = gathered(fill);
    trace_page(&document, &plots).expect("a page")
}

/// What stands between two texts, each time.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    text.split(start)
        .skip(1)
        .map(|rest| rest.split(end).next().unwrap_or_default())
        .collect()
}

#[test]
fn a_page_has_every_section_and_plot() {
    let page = made(|sink| {
        program(sink, 20_000, false);
        sink.missing(&Missing {
            part: "module DXT_MPIIO".into(),
            problem: "it is not in the log".into(),
        })
        .expect("kept");
    });
    for id in [
        "abstract",
        "findings",
        "missing",
        "plots",
        "files",
        "processes",
        "provenance",
    ] {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{id}");
    }
    let order: Vec<usize> = [
        "abstract",
        "findings",
        "missing",
        "plots",
        "files",
        "processes",
        "provenance",
    ]
    .iter()
    .filter_map(|id| page.find(&format!("<section id=\"{id}\"")))
    .collect();
    assert!(order.is_sorted());
    let titles = between(body_of(&page).as_str(), "<figure ", "</h3>")
        .iter()
        .filter_map(|f| f.split("<h3>").nth(1).map(str::to_owned))
        .collect::<Vec<_>>();
    assert_eq!(
        titles[..3],
        ["Bandwidth over time", "Bursts over time", "Ranks over time"]
    );
    assert!(
        titles.contains(&"Offsets in out-a.dat".to_owned()),
        "{titles:?}"
    );
    assert!(
        page.contains("20,000 events of 64 processes on 16 files (10 read or written) in"),
        "the abstract"
    );
    assert!(page.contains("8 bursts of writes"), "the rhythm");
    assert!(page.contains("<b>module DXT_MPIIO</b>: it is not in the log"));
}

#[test]
fn a_page_refers_to_nothing_outside() {
    let page = made(|sink| program(sink, 5_000, false));
    for outside in [
        "http:", "https:", "//cdn", "src=", "url(", "@import", "<link", "<iframe",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(
        between(&page, "href=\"", "\"")
            .iter()
            .all(|to| to.starts_with('#'))
    );
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn names_from_a_trace_are_text_and_no_markup() {
    const HOSTILE: &str =
        "/tmp/<script>alert(1)</script>\"'><img onerror=x>\u{1b}[2J\u{202e}{{title}}";
    let (mut document, plots) = gathered(|sink| {
        let process = Process {
            host: Some(HOSTILE.into()),
            program: Some(HOSTILE.into()),
            ..Process::default()
        };
        sink.process(ProcessId(0), &process).expect("kept");
        sink.file(FileId(0), HOSTILE.as_bytes()).expect("kept");
        sink.event(&write(0, 0, 5, 0, 100)).expect("kept");
        sink.missing(&Missing {
            part: HOSTILE.into(),
            problem: HOSTILE.into(),
        })
        .expect("kept");
    });
    document.trace.command = Some(HOSTILE.into());
    document.trace.tracer = HOSTILE.into();
    document.trace.inputs = vec![HOSTILE.into(), "a\nb".into()];
    for finding in &mut document.findings {
        finding.file = Some(HOSTILE.into());
        finding.evidence = HOSTILE.into();
    }
    let page = trace_page(&document, &plots).expect("a page");
    assert!(page.contains("&lt;script&gt;alert(1)"));
    let body = body_of(&page);
    assert!(
        !body.contains("<script") && !body.contains("<img"),
        "markup"
    );
    assert!(
        !body.contains(['\u{1b}', '\u{202e}']),
        "what steers terminals"
    );
    assert!(
        body.contains("{{title}}"),
        "no template in a name is filled"
    );
    // a quote would end an attribute
    for label in between(&body, "aria-label=\"", ">") {
        assert_eq!(label.matches('"').count() % 2, 1, "{label}");
    }
}

#[test]
fn a_page_is_complete_without_its_script() {
    let page = made(|sink| program(sink, 20_000, false));
    let body = body_of(&page);
    for control in ["<button", "<input", " hidden", "<noscript"] {
        assert!(!body.contains(control), "{control}");
    }
    let figures = between(&body, "<figure ", "</figure>");
    assert!(figures.len() > 5);
    for figure in figures {
        assert!(figure.contains("<path "), "a drawing");
        assert!(figure.matches("class=\"x\"").count() >= 3, "marks of time");
        assert!(
            figure.matches("class=\"y\"").count() >= 2,
            "marks of the other axis"
        );
        assert!(
            between(figure, "aria-label=\"", "\"")[0].len() > 10,
            "an alternative text"
        );
        assert!(
            between(figure, "<figcaption>", "<")[0].len() > 40,
            "a caption"
        );
        assert!(figure.contains("time since the start of the trace (s)"));
    }
}

#[test]
fn a_million_events_anywhere_make_a_page_of_less_than_three_megabytes() {
    let page = made(|sink| program(sink, 1_000_000, true));
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(page.contains("1,000,000 events"));
    // twelve roles have a plot, four are named
    assert_eq!(page.matches("<h3>Offsets in ").count(), 12);
    assert!(page.contains("Files without a plot"));
}

#[test]
fn bins_do_not_become_more_with_events() {
    let bins = |events| {
        let mut sink = PlotSink::default();
        program(&mut sink, events, true);
        sink.bins()
    };
    assert_eq!(bins(2_000), bins(40_000));
}

#[test]
fn bins_are_bounded_however_many_roles_there_are() {
    let mut sink = PlotSink::default();
    ranks(&mut sink, 2);
    let mut most = 0;
    for role in 0..500u32 {
        let name = format!("/x/{}.dat", "r".repeat(role as usize + 1));
        sink.file(FileId(role), name.as_bytes()).expect("kept");
        // each moves more than the one before, so that each gets bins
        let bytes = 1u64 << (role / 16);
        sink.event(&write(0, role, u64::from(role), 0, bytes))
            .expect("kept");
        most = most.max(sink.bins());
    }
    // bytes of 24 roles and of ranks, and who moved those of the roles: two planes would be of reads
    assert!(most <= (25 + 3 * 24) * 512 * 128, "{most}");
}

#[test]
fn a_role_that_moves_most_has_a_plot_even_if_it_comes_late() {
    let page = made(|sink| {
        ranks(sink, 1);
        for role in 0..100u32 {
            let name = format!("/x/{}.dat", "r".repeat(role as usize + 1));
            sink.file(FileId(role), name.as_bytes()).expect("kept");
            sink.event(&write(0, role, u64::from(role), 0, 1000))
                .expect("kept");
        }
        sink.file(FileId(100), b"/x/late.dat").expect("kept");
        for i in 0..10 {
            sink.event(&write(0, 100, 1000 + i, i * 1000, 1000))
                .expect("kept");
        }
    });
    assert!(page.contains("<h3>Offsets in late.dat</h3>"));
    assert!(page.contains("because other files moved more at that time"));
}

#[test]
fn what_two_interfaces_saw_is_plotted_once() {
    let page = made(|sink| {
        ranks(sink, 1);
        sink.file(FileId(0), b"/x/out").expect("kept");
        let mpi_io = Event {
            api: Api::MpiIo,
            ..write(0, 0, 10, 0, 1 << 20)
        };
        sink.event(&mpi_io).expect("kept");
        sink.event(&write(0, 0, 11, 0, 1 << 20)).expect("kept");
        sink.event(&mpi_io).expect("kept");
    });
    assert!(page.contains("1.00 MiB through POSIX"), "not 3 MiB");
}

#[test]
fn more_ranks_than_rows_are_grouped_and_the_axis_says_so() {
    let page = made(|sink| {
        ranks(sink, 1000);
        sink.file(FileId(0), b"/x/out").expect("kept");
        for rank in 0..1000 {
            sink.event(&write(rank, 0, u64::from(rank) * 1000, 0, 10))
                .expect("kept");
        }
    });
    assert!(page.contains("rank (16 ranks in a row)"));
    assert!(page.contains("a row has 16 neighbouring ranks"));
}

#[test]
fn a_trace_without_data_says_why_it_has_no_plots() {
    let nothing = made(|_| {});
    assert!(nothing.contains("There are no plots over time"));
    let opened = made(|sink| {
        sink.file(FileId(0), b"/x/out").expect("kept");
        let open = Event {
            op: Op::Open,
            offset: None,
            bytes: 0,
            ..write(0, 0, 0, 0, 0)
        };
        sink.event(&open).expect("kept");
    });
    assert!(opened.contains("<h3>Bursts over time</h3>") && !opened.contains("<h3>Places"));
}

#[test]
fn a_single_small_write_in_a_long_trace_is_drawn_as_a_point() {
    let page = made(|sink| {
        ranks(sink, 1);
        sink.file(FileId(0), b"/x/large").expect("kept");
        sink.file(FileId(1), b"/x/small").expect("kept");
        sink.event(&write(0, 0, 0, 0, 1 << 20)).expect("kept");
        sink.event(&write(0, 0, 9_000_000_000, 1 << 20, 1 << 20))
            .expect("kept");
        sink.event(&write(0, 1, 4_000_000_000, 1 << 20, 1))
            .expect("kept");
    });
    let figures = between(&page, "<figure ", "</figure>");
    let tiny = |name: &str| {
        let figure = figures
            .iter()
            .find(|f| f.contains(&format!("<h3>Offsets in {name}</h3>")));
        figure
            .expect("a plot")
            .contains("<g class=\"tiny\"><path class=\"write d2\" d=\"m0 0h")
    };
    assert!(tiny("small") && !tiny("large"));
}

#[test]
fn the_largest_numbers_of_a_damaged_trace_make_a_page() {
    let (document, _) = gathered(|sink| program(sink, 100, false));
    let mut sink = PlotSink::default();
    ranks(&mut sink, 1);
    let far = Process {
        rank: Some(u32::MAX),
        ..Process::default()
    };
    sink.process(ProcessId(1), &far).expect("kept");
    let largest = Event {
        offset: Some(u64::MAX),
        bytes: u64::MAX,
        duration_ns: u64::MAX,
        ..write(1, 0, u64::MAX / 2, 0, 0)
    };
    for event in [
        write(0, 0, 0, 0, 1),
        largest,
        largest,
        write(1, 1, u64::MAX, 7, 1),
    ] {
        sink.event(&event).expect("kept");
    }
    let page = trace_page(&document, &sink.finish()).expect("a page");
    assert!(page.contains("<h3>Offsets in") && page.contains("<h3>Ranks over time</h3>"));
    for view in between(&page, "viewBox=\"", "\"") {
        let numbers: Vec<f64> = view
            .split(' ')
            .map(|n| n.parse().expect("a number"))
            .collect();
        assert!(numbers.iter().all(|n| n.is_finite()), "{view}");
        assert!(numbers[2] > 0.0 && numbers[3] > 0.0, "{view}");
    }
}
