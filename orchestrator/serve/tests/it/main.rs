//! What a browser gets, over the loopback interface. Less than a second.

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
    time::Duration,
};

/// A campaign of three runs: one succeeded, one failed, one is under way.
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
    r#""event":"run-finished","run":"run20002","attempt":1,"outcome":{"result":"failed","cause":"application","detail":"<i>exit code 3</i>"}"#,
    r#""event":"run-intended","run":"run30003","attempt":1"#,
];

struct Running {
    port: u16,
    token: String,
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
    Running {
        port,
        token: token.to_owned(),
        over,
        thread: Some(std::thread::spawn(move || {
            server.run(|| told.load(Ordering::Relaxed))
        })),
        dir,
    }
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
        // the answer comes in chunks, whose lengths stand between its bytes, also within a character
        let answer = String::from_utf8_lossy(&answer).into_owned();
        answer
    }

    fn get(&self, path: &str) -> String {
        let headers = format!(
            "Host: 127.0.0.1:{}\r\nCookie: cvc={}\r\n",
            self.port, self.token
        );
        self.ask("GET", path, &headers)
    }
}

#[test]
fn nobody_reads_without_the_token_under_another_name_or_changes_anything() {
    let server = running();
    let own = format!("Host: 127.0.0.1:{}\r\n", server.port);
    assert!(server.ask("GET", "/", &own).starts_with("HTTP/1.1 403"));
    assert!(
        server
            .ask("GET", "/", &format!("{own}Cookie: cvc=0123\r\n"))
            .starts_with("HTTP/1.1 403")
    );
    let cookie = format!("Cookie: cvc={}\r\n", server.token);
    let foreign = format!("Host: evil.example:{}\r\n{cookie}", server.port);
    assert!(server.ask("GET", "/", &foreign).starts_with("HTTP/1.1 421"));
    assert!(
        server
            .ask("POST", "/", &format!("{own}{cookie}Content-Length: 0\r\n"))
            .starts_with("HTTP/1.1 405")
    );
    let opened = server.ask("GET", &format!("/?token={}", server.token), &own);
    assert!(
        opened.starts_with("HTTP/1.1 303") && opened.contains("\r\nLocation: /\r\n"),
        "{opened}"
    );
    assert!(opened.contains("HttpOnly; SameSite=Strict"), "{opened}");
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
    assert!(
        page.contains("66 % done: 1 run succeeded, 1 failed, 1 left"),
        "{page}"
    );
    assert!(
        page.contains("&lt;b&gt;solver&lt;/b&gt;") && !page.contains("<b>solver"),
        "{page}"
    );
    assert!(
        page.contains("/run/run20002") && page.contains("/run/run30003"),
        "{page}"
    );
    let run = server.get("/run/run20002");
    assert!(
        run.contains("no mesh &lt;script&gt;") && !run.contains("<script"),
        "{run}"
    );
    assert!(run.contains("&lt;i&gt;exit code 3"), "{run}");
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
        json.contains("\"succeeded\": 1") && json.contains("\"why\": \"<i>exit code 3</i>\""),
        "{json}"
    );
}

#[test]
fn a_campaign_that_cannot_be_read_is_told() {
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
