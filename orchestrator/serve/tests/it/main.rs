//! Tests of `cvc serve` over the loopback interface: what a browser receives, and what a client without the token can do. Takes a few seconds.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::CampaignDir;
use cvc_serve::{Served, Server, Snapshot};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A campaign with three runs: one succeeded, one failed, one is in progress.
const PLAN: &str = r#"{"schema":1,"campaign":"browsed","seed":1,"points":[{"id":"aaaa1111","point":{"site":"local","app":"<b>solver</b>",
"class":"S","mapping":"1Nx2P","mpi":"mpich","checkpointer":"none","compression":"none","storage":"run"}}],"runs":[
{"id":"run10001","point":"aaaa1111","repeat":{"measured":1}},{"id":"run20002","point":"aaaa1111","repeat":{"measured":2}},
{"id":"run30003","point":"aaaa1111","repeat":{"measured":3}}],"excluded":[]}"#;

const EVENTS: [&str; 7] = [
    r#""event":"opened","format":1,"campaign":"browsed","cvc":"0.1.0""#,
    r#""event":"started","plan":"0","runs":3,"pid":1"#,
    r#""event":"run-intended","run":"run10001","attempt":1"#,
    r#""event":"run-finished","run":"run10001","attempt":1,"outcome":{"result":"succeeded"}"#,
    r#""event":"run-intended","run":"run20002","attempt":1"#,
    r#""event":"run-finished","run":"run20002","attempt":1,"outcome":{"result":"failed","cause":"application","detail":"<i>exit code 3</i>\u001b]0;x\u0007"}"#,
    r#""event":"run-intended","run":"run30003","attempt":1"#,
];

struct Running {
    port: u16,
    token: String,
    /// The path below which all pages are.
    place: String,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    dir: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server");
        }
    }
}

fn campaign(dir: &Utf8Path) {
    fs::create_dir_all(dir.join("runs/run10001")).expect("a directory");
    fs::create_dir_all(dir.join("runs/run20002.failed-1")).expect("a directory");
    fs::write(
        dir.join("runs/run20002.failed-1/stderr"),
        "no mesh <script>x</script>\n",
    )
    .expect("a file");
    fs::write(dir.join("plan.json"), PLAN).expect("a plan");
    let lines: String = EVENTS
        .iter()
        .zip(1..)
        .map(|(event, seq)| {
            format!("{{\"seq\":{seq},\"at\":\"2026-01-01T00:00:0{seq}Z\",{event}}}\n")
        })
        .collect();
    fs::write(dir.join("journal.jsonl"), lines).expect("a journal");
}

fn running() -> Running {
    let dir = tempfile::tempdir().expect("a directory");
    let root = Utf8PathBuf::from_path_buf(dir.path().to_owned()).expect("UTF-8");
    campaign(&root);
    let server = Server::listen(
        0,
        Served {
            campaign: CampaignDir::at(&root),
            report: root.join("report.html"),
        },
    )
    .expect("a server");
    let address = server.address();
    let (place, token) = address.split_once("/?token=").expect("an address");
    let port = place
        .rsplit_once(':')
        .expect("a port")
        .1
        .parse()
        .expect("a number");
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    let mut running = Running {
        port,
        token: token.to_owned(),
        place: String::new(),
        over,
        thread: Some(std::thread::spawn(move || {
            server.run(|| told.load(Ordering::Relaxed));
        })),
        dir,
    };
    let own = format!("Host: 127.0.0.1:{port}\r\n");
    let opened = running.ask("GET", &format!("/?token={token}"), &own);
    let (_, to) = opened.split_once("\r\nLocation: ").expect("sent elsewhere");
    running.place = to.split("/\r\n").next().expect("a path").to_owned();
    running
}

impl Running {
    fn ask(&self, method: &str, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a limit");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"
        )
        .expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");

        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str) -> String {
        let headers = format!(
            "Host: 127.0.0.1:{0}\r\nCookie: cvc-{0}={1}\r\n",
            self.port, self.token
        );
        self.ask("GET", &format!("{}{path}", self.place), &headers)
    }
}

#[test]
fn no_client_reads_without_the_token_under_another_name_or_changes_anything() {
    let server = running();
    let own = format!("Host: 127.0.0.1:{}\r\n", server.port);
    assert!(server.ask("GET", "/", &own).starts_with("HTTP/1.1 403"));
    assert!(
        server
            .ask(
                "GET",
                "/",
                &format!("{own}Cookie: cvc-{}=0123\r\n", server.port)
            )
            .starts_with("HTTP/1.1 403")
    );
    let cookie = format!("Cookie: cvc-{}={}\r\n", server.port, server.token);
    let foreign = format!("Host: evil.example:{}\r\n{cookie}", server.port);
    assert!(server.ask("GET", "/", &foreign).starts_with("HTTP/1.1 421"));
    assert!(
        server
            .ask("POST", "/", &format!("{own}{cookie}Content-Length: 0\r\n"))
            .starts_with("HTTP/1.1 405")
    );
    let opened = server.ask("GET", &format!("/?token={}", server.token), &own);
    let place = &server.place;
    assert!(
        opened.starts_with("HTTP/1.1 303") && place.len() == 33,
        "{opened}"
    );
    let kept = format!(
        "cvc-{}={}; HttpOnly; SameSite=Strict; Path={place}\r\n",
        server.port, server.token
    );
    assert!(opened.contains(&kept), "{opened}");
    // no client is redirected to another server
    for path in [
        "//evil.example/",
        "/\\evil.example",
        "/plan.json",
        "http://evil.example/x",
    ] {
        let answer = server.ask("GET", &format!("{path}?token={}", server.token), &own);
        assert!(
            answer.starts_with("HTTP/1.1 4") && !answer.contains("Location"),
            "{path}: {answer}"
        );
    }
    // pages are below a path that only readers with the token know
    assert!(
        server
            .ask("GET", "/status.json", &format!("{own}{cookie}"))
            .starts_with("HTTP/1.1 404")
    );
}

#[test]
fn progress_failures_and_output_are_shown_and_nothing_in_them_is_markup() {
    let server = running();
    let page = server.get("/");
    assert!(
        page.starts_with("HTTP/1.1 200")
            && page.contains("Content-Security-Policy: default-src 'none'"),
        "{page}"
    );
    assert!(page.contains("67 % of 3 runs done: 1 succeeded"), "{page}");
    assert!(
        page.contains("&lt;b&gt;solver&lt;/b&gt;") && !page.contains("<b>solver"),
        "{page}"
    );
    assert!(
        page.contains("\"run/run20002") && page.contains("\"run/run30003"),
        "{page}"
    );
    let run = server.get("/run/run20002");
    assert!(
        run.contains("no mesh &lt;script&gt;") && !run.contains("<script"),
        "{run}"
    );
    assert!(run.contains("&lt;i&gt;exit code 3"), "{run}");
    for text in [&page, &run] {
        assert!(
            !text.contains(['\u{1b}', '\u{7}']) && text.contains("\\u{1b}]0;x"),
            "{text}"
        );
    }
    for missing in [
        "/run/run9",
        "/run/../plan.json",
        "/plan.json",
        "/report",
        "/run/aaaa1111",
    ] {
        assert!(server.get(missing).starts_with("HTTP/1.1 404"), "{missing}");
    }
    fs::write(server.dir.path().join("report.html"), "<p>the report</p>").expect("a report");
    assert!(server.get("/report").contains("the report"));
    let status = server.get("/status.json");
    let json = status.split_once("\r\n\r\n").expect("a body").1;
    assert!(
        json.contains("\"succeeded\": 1") && json.contains("\"why\": \"<i>exit code 3</i>"),
        "{json}"
    );
}

#[test]
fn a_campaign_that_cannot_be_read_is_reported() {
    let server = running();
    fs::remove_file(server.dir.path().join("plan.json")).expect("a file");
    let page = server.get("/");
    assert!(
        page.starts_with("HTTP/1.1 500") && page.contains("plan.json"),
        "{page}"
    );
    let root = Utf8Path::from_path(server.dir.path()).expect("UTF-8");
    Snapshot::read(&CampaignDir::at(root)).expect_err("no plan");
}

/// A client without the token that repeats `act` until the flag is set.
fn hostile(
    server: &Running,
    end: &Arc<AtomicBool>,
    act: fn(u16) -> std::io::Result<()>,
) -> JoinHandle<()> {
    let (port, end) = (server.port, Arc::clone(end));
    std::thread::spawn(move || {
        while !end.load(Ordering::Relaxed) {
            // an error is expected: the server may refuse the client at any moment
            let _ = act(port);
        }
    })
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    Ok(stream)
}

/// Sends a head or a body without end; the server must close the connection.
fn endless(port: u16, beginning: &str) -> std::io::Result<()> {
    let mut stream = connect(port)?;
    stream.write_all(beginning.as_bytes())?;
    loop {
        stream.write_all(&[b'x'; 1 << 14])?;
    }
}

#[test]
fn whoever_has_no_token_stops_nothing_and_fills_no_memory() {
    let server = running();
    let end = Arc::new(AtomicBool::new(false));
    let before = resident_kib();
    let idle: Vec<TcpStream> = (0..512).filter_map(|_| connect(server.port).ok()).collect();
    let actors: Vec<JoinHandle<()>> = [
        |port: u16| {
            let mut stream = connect(port)?;
            write!(stream, "GET /x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")?;
            stream.read_to_end(&mut Vec::new()).map(drop)
        },
        // many requests at the same time whose answers are not read
        |port| {
            let mut stream = connect(port)?;
            stream.write_all(
                "GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
                    .repeat(20_000)
                    .as_bytes(),
            )
        },
        |port| endless(port, "GET / HTTP/1.1\r\nX: "),
        |port| {
            endless(
                port,
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
            )
        },
        |port| {
            endless(
                port,
                "POST / HTTP/1.1\r\nContent-Length: 100000000000\r\n\r\n",
            )
        },
        |port| {
            endless(
                port,
                "POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n",
            )
        },
        |port| {
            // a body that is announced but never sent
            connect(port)?.write_all(b"POST / HTTP/1.1\r\nContent-Length: 2000\r\n\r\n")
        },
    ]
    .into_iter()
    .map(|act| hostile(&server, &end, act))
    .collect();
    let begun = Instant::now();
    let mut took = Vec::new();
    while begun.elapsed() < Duration::from_secs(4) {
        let asked = Instant::now();
        assert!(server.get("/").starts_with("HTTP/1.1 200"));
        took.push(asked.elapsed());
    }
    end.store(true, Ordering::Relaxed);
    for actor in actors {
        actor.join().expect("it ends");
    }
    drop(idle);
    took.sort();
    // single requests may be slow on a busy machine
    let (median, slowest) = (took[took.len() / 2], took[took.len() - 1]);
    assert!(median < Duration::from_secs(1), "{took:?}");
    assert!(slowest < Duration::from_secs(5), "{took:?}");
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more");
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a file");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .expect("a number")
}

#[test]
fn a_reader_that_rests_in_an_answer_delays_no_other_and_a_change_is_seen() {
    let server = running();
    let report = server.dir.path().join("report.html");
    fs::write(&report, vec![b'x'; 8 << 20]).expect("a report");
    let resting: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = connect(server.port).expect("a connection");
            write!(
                stream,
                "GET {}/report HTTP/1.1\r\nHost: 127.0.0.1:{1}\r\nCookie: cvc-{1}={2}\r\n\r\n",
                server.place, server.port, server.token
            )
            .expect("a request");
            stream
        })
        .collect();
    assert!(server.get("/").contains("1 succeeded"));
    let journal = server.dir.path().join("journal.jsonl");
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(journal)
        .expect("a journal");
    writeln!(
        file,
        r#"{{"seq":8,"at":"2026-01-01T00:00:08Z","event":"run-finished","run":"run30003","attempt":1,"outcome":{{"result":"succeeded"}}}}"#
    )
    .expect("a line");
    fs::create_dir_all(server.dir.path().join("runs/run30003")).expect("a directory");
    assert!(server.get("/").contains("2 succeeded"));
    drop(resting);
}
