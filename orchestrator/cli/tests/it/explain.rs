//! Tests of `cvc explain`, `cvc status --watch` and `cvc serve`, which show why a run is in its state. They take about five seconds.

use crate::common::campaign;
use cvc_testkit::{Tool, require, wait_until};
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

const SITE: &str = "[sites.one]\nkind = \"local\"\noversubscribe = true\n";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn what_failed_what_waits_and_what_is_excluded_is_explained() {
    require!(Tool::Mpich);
    let matrix = "[matrix]\napp = \"script\"\nmpi = \"mpich\"\nprocesses = [1, 2, 3]\n\
                  [[exclude]]\nwhen = { processes = 3 }\nreason = \"three is a crowd\"\n\
                  [run]\nrepeats = 2\nretries = 1\nquarantine_after = 2\n";
    let c = campaign("why", &format!("{SITE}{matrix}"));
    c.script_app(
        "script",
        "[ \"$CVC_PROCESSES\" != 2 ] && [ \"${PMI_SIZE:-1}\" != 2 ] || { echo 'mesh.dat: no such mesh' >&2; exit 3; }\necho SUCCESS",
        "",
    );
    let ended = c.run();
    assert!(
        ended.code.is_some_and(|code| code == 0 || code == 10),
        "{}",
        ended.stderr
    );
    let status = json(
        &c.cvc(&["status", "campaign.toml", "--json"])
            .expect(0)
            .stdout,
    );
    let run_of = |state: &str| -> String {
        status["runs"]
            .as_array()
            .expect("runs")
            .iter()
            .find(|run| run["state"] == state)
            .unwrap_or_else(|| panic!("no run is {state}: {status}"))["run"]
            .as_str()
            .expect("an identifier")
            .to_owned()
    };

    let failed = run_of("failed");
    let shown = c
        .cvc(&["explain", "campaign.toml", &failed[..8]])
        .expect(0)
        .stdout;
    for part in [
        "failed",
        "--retry-failed",
        "mesh.dat: no such mesh",
        "attempt",
        "the end of stderr:\n  mesh.dat",
        ".failed-",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let explained = json(
        &c.cvc(&["explain", "campaign.toml", &failed, "--json"])
            .expect(0)
            .stdout,
    );
    let attempts = explained["explanations"][0]["attempts"]
        .as_array()
        .expect("attempts");
    assert_eq!(attempts.len(), 2, "{explained}");
    assert!(
        attempts[0]["took_s"].as_f64().is_some_and(|s| s >= 0.0),
        "{explained}"
    );

    let succeeded = run_of("succeeded");
    let shown = c
        .cvc(&["explain", "campaign.toml", &succeeded])
        .expect(0)
        .stdout;
    assert!(shown.contains("at the first attempt"), "{shown}");

    let points = c
        .cvc(&["explain", "campaign.toml", "processes=2,3"])
        .expect(0)
        .stdout;
    assert!(
        points.contains("three is a crowd") && points.contains("0 of 2 runs succeeded"),
        "{points}"
    );
    let unknown = c
        .cvc(&["explain", "campaign.toml", "zzzz"])
        .expect(2)
        .stderr;
    assert!(
        unknown.contains("begins with zzzz") && unknown.contains("mapping=4Nx1P"),
        "{unknown}"
    );
    let unknown = c
        .cvc(&["explain", "campaign.toml", "colour=red"])
        .expect(2)
        .stderr;
    assert!(unknown.contains("unknown factor `colour`"), "{unknown}");
}

#[test]
fn a_status_that_is_watched_ends_with_the_campaign() {
    require!(Tool::Mpich);
    let c = campaign(
        "watched",
        &format!(
            "{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 1\n"
        ),
    );
    c.script_app("script", "echo SUCCESS", "");
    c.run().expect(0);
    let shown = c
        .cvc(&["status", "campaign.toml", "--watch=50ms"])
        .expect(0)
        .stdout;
    assert_eq!(shown.matches("campaign watched: ").count(), 1, "{shown}");
    assert!(
        !shown.contains('\u{1b}'),
        "no terminal, no clearing: {shown}"
    );
}

#[test]
fn a_browser_of_this_machine_sees_the_campaign_at_the_address_that_is_printed() {
    require!(Tool::Mpich);
    let c = campaign(
        "served",
        &format!(
            "{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 1\n"
        ),
    );
    c.script_app("script", "echo SUCCESS", "");
    c.run().expect(0);
    let server = c.start(&["serve", "campaign.toml"]);
    wait_until("the address", Duration::from_secs(60), || {
        server.stdout_so_far().contains('\n')
    });
    let address = server.stdout_so_far();
    let (place, token) = address.trim().split_once("/?token=").expect("an address");
    let host = place.strip_prefix("http://").expect("a host");
    let get = |path: &str, cookie: &str| {
        let mut stream = TcpStream::connect(host).expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a limit");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        )
        .expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        // the answer comes in chunks, and the length of a chunk may stand within a character
        String::from_utf8_lossy(&answer).into_owned()
    };
    // the address redirects to a secret path, with a cookie
    let sent = get(&format!("/?token={token}"), "");
    let header = |name: &str| {
        let line = sent.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name}: {sent}"))
            .trim()
            .to_owned()
    };
    let (place, cookie) = (header("Location:"), header("Set-Cookie:"));
    let cookie = cookie.split(';').next().expect("a cookie");
    let page = get(&place, cookie);
    assert!(page.contains("100 % of 1 run done: 1 succeeded"), "{page}");
    // the report written by `cvc run`
    let report = get(&format!("{place}report"), cookie);
    assert!(report.contains("<h1>served</h1>") || report.contains("served"));
    assert!(get("/", cookie).contains("404"), "only there");
    server.kill();
}
