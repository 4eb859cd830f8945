//! Tests of `cvc strategy`. They take about a second.

use crate::common::campaign;
use serde_json::{Value, json as json_value};

/// The example of the slide on SCR: measured costs on 128 nodes, one failure in twelve hours.
const SCR: [&str; 12] = [
    "strategy",
    "--nodes",
    "128",
    "--mtbf",
    "12h",
    "--cost",
    "sync=170s",
    "--cost",
    "thread=17s/170s",
    "--cost",
    "partner=13.1s",
    "--of-a-node=85%",
];

fn json(arguments: &[&str]) -> Value {
    let c = campaign("unused", "");
    let finished = c.cvc(&[arguments, &["--json"]].concat()).expect(0);
    serde_json::from_str(&finished.stdout).expect("JSON")
}

/// Returns the only row of a strategy.
fn row(of: &Value, way: &str) -> Value {
    let mut ways = of["ways"].as_array().expect("ways").iter();
    ways.find(|row| row["way"] == way)
        .unwrap_or_else(|| panic!("{way}: {of}"))
        .clone()
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of}"))
}

/// Returns the waste of a strategy with a method of flushing, in percent with two decimals.
fn waste(of: &Value, way: &str, flush: Option<&str>) -> f64 {
    let mut ways = of["ways"].as_array().expect("ways").iter();
    let found = ways.find(|row| row["way"] == way && row["flush"].as_str() == flush);
    (found.unwrap_or_else(|| panic!("{way} {flush:?}: {of}"))["waste"]
        .as_f64()
        .expect("a number")
        * 1e4)
        .round()
        / 100.0
}

#[test]
fn measured_costs_give_the_waste_of_each_way() {
    let found = json(&SCR);
    assert_eq!(waste(&found, "sync", None), 9.42);
    assert_eq!(waste(&found, "thread", None), 3.22);
    assert_eq!(waste(&found, "partner", Some("waits")), 5.71);
    assert_eq!(waste(&found, "partner", Some("behind")), 3.36);
    assert_eq!(found["best"], "thread");
    let left_out: Vec<&str> = found["left_out"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|of| of["way"].as_str())
        .collect();
    assert_eq!(left_out, ["local", "xor"]);
}

#[test]
fn sizes_and_bandwidths_give_the_costs_and_the_drain_binds_the_interval() {
    let of = |nodes: &str, stored: &str| {
        json(&[
            "strategy",
            "--nodes",
            nodes,
            "--stored",
            stored,
            "--mtbf",
            "1d",
            "--shared",
            "3GiB",
            "--memory",
            "40GiB/s",
            "--traffic",
            "7",
            "--overhead=30%",
            "--dollars-per-hour",
            "60",
        ])
    };
    let small = of("128", "800GiB");
    let thread = |of: &Value| {
        let mut ways = of["ways"].as_array().expect("ways").clone();
        ways.retain(|row| row["way"] == "thread");
        ways.remove(0)
    };
    let row = thread(&small);
    assert!(
        (row["latency_s"].as_f64().expect("s") - row["overhead_s"].as_f64().expect("s") - 266.67)
            .abs()
            < 0.01
    );
    assert!((row["overhead_s"].as_f64().expect("s") - 7.0 * 6.25 / 40.0).abs() < 1e-9);
    assert!(row["usd"].as_f64() > Some(24.0 * 60.0) && row["affordable"].as_f64() > Some(1000.0));
    assert_eq!(row["remarks"], Value::Array(vec![]));
    // with 500 nodes, flushing takes longer than the best interval
    let row = thread(&of("500", "3125GiB"));
    assert!((row["interval_s"].as_f64().expect("s") - 1041.67).abs() < 0.01);
    assert!(
        row["remarks"][0]
            .as_str()
            .expect("a remark")
            .contains("as long as a checkpoint takes to be safe")
    );
}

#[test]
fn the_answer_is_a_sentence_and_a_table_within_80_columns() {
    let c = campaign("unused", "");
    let finished = c.cvc(&SCR).expect(0);
    // texts are wrapped at the terminal's width; rows have gaps between columns
    let mut rows = finished
        .stdout
        .lines()
        .filter(|line| line.contains("  ") || line.contains('─'));
    assert!(
        rows.all(|row| row.chars().count() <= 80),
        "{}",
        finished.stdout
    );
    insta::assert_snapshot!(finished.stdout);
}

#[test]
fn wrong_costs_and_shares_are_refused_with_a_hint() {
    let c = campaign("unused", "");
    for (arguments, expected) in [
        (&["--mtbf", "12h", "--cost", "sync"][..], "partner=13s"),
        (
            &["--mtbf", "12h", "--cost", "raid=3s"],
            "`raid` is not a way",
        ),
        (
            &["--mtbf", "12h", "--cost", "thread=170s/17s"],
            "shorter time first",
        ),
        (
            &["--mtbf", "0s", "--cost", "sync=3s"],
            "must be above 0 seconds",
        ),
        (&["--cost", "sync=3s"], "--mtbf"),
        (
            &["--mtbf", "12h", "--cost", "sync=3s", "--of-a-node=150%"],
            "above 100 %",
        ),
        (
            &[
                "--mtbf",
                "12h",
                "--cost",
                "sync=3s",
                "--of-a-node=10%",
                "--of-processes=20%",
            ],
            "includes it",
        ),
        (
            &["--mtbf", "12h", "--cost", "sync=3s", "--at-once=150%"],
            "cannot write at once",
        ),
        (&["--mtbf", "12h"], "--stored"),
    ] {
        let finished = c.cvc(&[&["strategy", "--nodes", "4"], arguments].concat());
        assert_ne!(finished.code, Some(0), "{arguments:?}");
        assert!(
            finished.stderr.contains(expected),
            "{arguments:?}: {}",
            finished.stderr
        );
    }
    let finished = c.cvc(&[
        "strategy",
        "--nodes",
        "4",
        "--mtbf",
        "10s",
        "--cost",
        "sync=300s",
    ]);
    let reason = "left out: sync: no interval pays";
    assert!(finished.stdout.contains(reason), "{}", finished.stdout);
    // no strategy can be evaluated, because no bandwidth is given
    let finished = c.cvc(&[
        "strategy", "--nodes", "4", "--stored", "4GiB", "--mtbf", "12h",
    ]);
    assert_ne!(finished.code, Some(0));
    assert!(
        finished.stdout.contains("No way can be judged"),
        "{}",
        finished.stdout
    );
}

#[test]
fn bandwidths_measured_on_a_node_are_the_costs_of_its_ways() {
    let c = campaign("bandwidth", "");
    let dir = c.dir().display().to_string();
    let measured = c
        .cvc(&[
            "bandwidth",
            "--storage",
            &dir,
            "--writers",
            "1,2",
            "--size",
            "4MiB",
            "--time",
            "50ms",
            "--json",
        ])
        .expect(0);
    let found: Value = serde_json::from_str(&measured.stdout).expect("JSON");
    assert_eq!(found["storage"].as_array().map(Vec::len), Some(2));
    let file = c.put("node.json", &measured.stdout).display().to_string();
    let ask = |more: &[&str]| {
        let known = [
            "strategy",
            "--nodes",
            "1",
            "--mtbf",
            "12h",
            "--stored",
            "8GiB",
            "--shared",
            "100MiB",
            "--of-processes",
            "90%",
            "--json",
            "--measured",
        ];
        let finished = c.cvc(&[&known[..], &[&file], more].concat()).expect(0);
        serde_json::from_str::<Value>(&finished.stdout).expect("JSON")
    };
    let overhead_s = |of: &Value, way: &str| number(&row(of, way)["overhead_s"]);
    let of = ask(&[]);
    let two = &found["storage"][1];
    assert_eq!(two["writers"], 2);
    let expected_s = 8192.0 / number(&two["write_mib_s"]);
    assert!((overhead_s(&of, "local") / expected_s - 1.0).abs() < 1e-9);
    assert_eq!(
        of["traffic_source"],
        match number(&found["memory_with_writer"]["traffic"]) > 0.0 {
            true => found["memory_with_writer"]["traffic_source"].clone(),
            false => "published".into(),
        }
    );
    // options override measurements
    let of = ask(&["--local", "1GiB", "--memory", "8GiB", "--traffic", "5"]);
    assert!((overhead_s(&of, "local") - 8.0).abs() < 1e-9);
    assert!((overhead_s(&of, "thread") - 5.0).abs() < 1e-9);
    assert_eq!(of["traffic_source"], "given");

    // storage that cannot keep a node's checkpoints
    let left_out = |file_system: &str, memory_mib: f64| {
        let in_memory = file_system == "tmpfs";
        let node = json_value!({
            "memory_mib": memory_mib,
            "storage": [{
                "dir": "/s", "file_system": file_system, "in_memory": in_memory, "writers": 1,
                "each_mib": 8.0, "write_mib_s": 100.0, "read_mib_s": 100.0,
            }],
        });
        c.put("node.json", &node.to_string());
        let of = ask(&[]);
        let mut all = of["left_out"].as_array().expect("a list").iter();
        let local = all.find(|of| of["way"] == "local")?;
        local["reason"].as_str().map(str::to_owned)
    };
    assert_eq!(left_out("ext4", 4096.0), None);
    assert_eq!(left_out("tmpfs", 65536.0), None);
    // 8 GiB, twice while one is written
    let reason = left_out("tmpfs", 4096.0).expect("too small");
    assert!(
        reason.contains("need 16.0 GiB on each node, which has 4096 MiB"),
        "{reason}"
    );
    let reason = left_out("fuse.glusterfs", 65536.0).expect("shared");
    assert!(
        reason.contains("the measured storage is shared"),
        "{reason}"
    );

    // copies that do not fit into memory
    let refused_copy = |more: &[&str]| {
        let of = ask(more);
        let mut all = of["left_out"].as_array().expect("a list").iter();
        let thread = all.find(|of| of["way"] == "thread").expect("left out");
        thread["reason"].as_str().expect("a reason").to_owned()
    };
    let reason = refused_copy(&["--memory", "1GiB", "--memory-limit", "1GiB"]);
    let expected = "needs 8192 MiB of memory on each node, and 1024 MiB are allowed";
    assert!(reason.contains(expected), "{reason}");
    assert_eq!(left_out("ext4", 4096.0), None);
    let reason = refused_copy(&["--memory", "1GiB"]);
    let expected = "needs 8192 MiB of memory on each node, and 4096 MiB are there";
    assert!(reason.contains(expected), "{reason}");

    for wrong in [
        "{}",
        "no JSON",
        "{\"memory\": {\"threads\": 1, \"triad_mib_s\": -1, \"xor_mib_s\": 1}}",
    ] {
        c.put("node.json", wrong);
        let refused = c.cvc(&[
            "strategy",
            "--nodes",
            "1",
            "--mtbf",
            "12h",
            "--stored",
            "8GiB",
            "--measured",
            &file,
        ]);
        assert_eq!(refused.code, Some(6), "{wrong}: {}", refused.stderr);
        assert!(refused.stderr.contains("node.json") && refused.stderr.contains("hint: "));
    }
}

#[test]
fn spot_markets_limits_and_uncertain_costs_change_the_answer() {
    let base = ["strategy", "--nodes", "16", "--mtbf", "240h"];
    let market = [
        "--cost",
        "sync=60s",
        "--cost",
        "thread=5s/300s",
        "--reclaims-per-hour",
        "0.02",
        "--restart-time",
        "5min",
        "--dollars-per-hour",
        "10",
        "--spot-dollars-per-hour",
        "3",
    ];
    let found = json(&[&base[..], &market].concat());
    let (sync, thread) = (row(&found, "sync"), row(&found, "thread"));
    assert_eq!(sync["spot"]["notice_suffices"], true);
    assert_eq!(thread["spot"]["notice_suffices"], false);
    // 0.32 reclaims per hour, each with a checkpoint of 60 s and a restart of 300 s
    let expected_s = number(&sync["expected_s"]) * (1.0 + 16.0 * 0.02 / 3600.0 * 360.0);
    assert!((number(&sync["spot"]["expected_s"]) / expected_s - 1.0).abs() < 1e-9);
    let usd = number(&sync["spot"]["expected_s"]) / 3600.0 * 3.0;
    assert!((number(&sync["spot"]["usd"]) / usd - 1.0).abs() < 1e-9);
    assert!(number(&thread["spot"]["expected_s"]) > number(&thread["expected_s"]));
    assert!(
        thread["remarks"]
            .to_string()
            .contains("notice is too short")
    );

    // no strategy ends in time; with a short interval the program waits for flushing
    let tight = ["--cost", "sync=60s", "--deadline", "24h"];
    let found = json(&[&base[..], &tight].concat());
    assert_eq!(row(&found, "sync")["in_time"], false);
    assert!(found["sentence"].as_str().expect("text").contains("No way"));
    let often = ["--cost", "thread=5s/300s", "--every", "100s"];
    let wait = row(&json(&[&base[..], &often].concat()), "thread");
    assert!(number(&wait["waste"]) > 1.9, "{wait}");
    let skip = row(
        &json(&[&base[..], &often, &["--when-late", "skip"]].concat()),
        "thread",
    );
    assert_eq!(number(&skip["interval_s"]), 300.0);

    // the intervals overlap: the advice is to measure the strategy with the wider interval
    let alike = ["--cost", "sync=60s+-5%", "--cost", "thread=58s/58s+-20%"];
    let found = json(&[&base[..], &alike].concat());
    let text = found["sentence"].as_str().expect("text");
    assert!(
        text.contains("indistinguishable from sync: measure the cost of thread"),
        "{text}"
    );
    let thread = row(&found, "thread");
    assert!(number(&thread["waste_low"]) < number(&thread["waste"]));
    assert!(number(&thread["waste"]) < number(&thread["waste_high"]));
}

#[test]
fn the_share_of_time_gives_a_schedule_by_the_published_rule_and_its_waste() {
    let found = json(&[&SCR[..], &["--overhead=30%", "--work=4h"]].concat());
    let sync = row(&found, "sync");
    // ⌊0.3 · 14400 / 170⌋ = 25 are paid for; the rule takes one fewer
    assert_eq!(sync["affordable"], 25);
    assert_eq!(sync["by_rule"]["count"], 24);
    let interval_s = number(&sync["by_rule"]["interval_s"]);
    assert!((interval_s - 1.3 * 14400.0 / 25.0).abs() < 1e-9);
    // the same interval by --every; no interval wastes less than the best
    let tau = format!("{}s", interval_s - 170.0);
    let every = json(&[&SCR[..], &["--work=4h", "--every", &tau]].concat());
    let waste = number(&sync["by_rule"]["waste"]);
    assert!((waste / number(&row(&every, "sync")["waste"]) - 1.0).abs() < 1e-6);
    assert!(waste > number(&sync["waste"]));
    // a checkpoint that takes longer than the share is not taken
    let none = json(&[&SCR[..], &["--overhead=1%", "--work=1h"]].concat());
    let sync = row(&none, "sync");
    assert!(
        sync["affordable"] == 0 && sync["by_rule"].is_null(),
        "{sync}"
    );
    let c = campaign("unused", "");
    let text = c.cvc(&[&SCR[..], &["--overhead=30%"]].concat()).expect(0);
    assert!(text.stdout.contains("by rule"), "{}", text.stdout);
}

#[test]
fn nodes_that_write_in_turn_are_a_way_of_their_own() {
    let base = [
        "strategy", "--nodes", "128", "--stored", "800GiB", "--mtbf", "1d", "--shared", "3GiB",
        "--memory", "40GiB",
    ];
    let found = json(&base);
    let ways = found["ways"].to_string() + &found["left_out"].to_string();
    assert!(!ways.contains("staggered"), "{ways}");
    let turns = [&base[..], &["--at-once=12.5%", "--shared-at-once=4GiB"]].concat();
    let found = json(&turns);
    let (thread, staggered) = (row(&found, "thread"), row(&found, "staggered"));
    let drain_s = |of: &Value| number(&of["latency_s"]) - number(&of["overhead_s"]);
    assert!((drain_s(&staggered) - 200.0).abs() < 1e-6 && drain_s(&thread) > 266.0);
    assert_eq!(thread["overhead_s"], staggered["overhead_s"]);
    // the links of 16 nodes
    let slow = row(
        &json(&[&turns[..], &["--network=100MiB"]].concat()),
        "staggered",
    );
    assert!(
        (drain_s(&slow) - 800.0 * 1024.0 / 1600.0).abs() < 1e-6,
        "{slow}"
    );
    let measured = json(&[&SCR[..], &["--cost", "staggered=17s/300s"]].concat());
    assert_eq!(number(&row(&measured, "staggered")["latency_s"]), 300.0);
}

#[test]
fn levels_need_space_for_what_they_keep() {
    let base = [
        "strategy",
        "--nodes",
        "4",
        "--stored",
        "40GiB",
        "--mtbf",
        "1d",
        "--shared",
        "1GiB",
        "--local",
        "1GiB",
        "--network",
        "1GiB",
        "--of-a-node=85%",
        "--group=4",
    ];
    let peaks = |more: &[&str]| {
        let found = json(&[&base[..], more].concat());
        let partner = row(&found, "partner");
        let gib = |of: &str| number(&partner[of]) / 1024.0;
        (gib("peak_on_node_mib"), gib("peak_on_shared_mib"), partner)
    };
    let (node, shared, _) = peaks(&[]);
    assert_eq!((node, shared), (40.0, 80.0));
    let (node, shared, _) = peaks(&["--keep=2", "--keep-shared=3"]);
    assert_eq!((node, shared), (60.0, 160.0));
    let (node, shared, partner) = peaks(&["--keep=overwrite", "--keep-shared=overwrite"]);
    assert_eq!((node, shared), (20.0, 40.0));
    assert!(partner["remarks"].to_string().contains("overwritten"));
    let c = campaign("unused", "");
    let text = c.cvc(&base).expect(0);
    assert!(
        text.stdout.contains("on shared storage while"),
        "{}",
        text.stdout
    );
    for wrong in ["--keep=0", "--keep=all", "--keep-shared=1001"] {
        let refused = c.cvc(&[&base[..], &[wrong]].concat());
        assert_eq!(refused.code, Some(2), "{wrong}");
        assert!(
            refused.stderr.contains("or overwrite"),
            "{}",
            refused.stderr
        );
    }
}
