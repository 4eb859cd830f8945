//! Finds, starts and calls moto's server.

use parking_lot::Mutex;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use tempfile::TempDir;
use ureq::Agent;
use xmltree::Element;

use super::{
    images,
    query::Parameters,
    server::{HttpRequest, HttpResponse},
    xml,
};

/// The version of moto that the set-up installs.
const VERSION: &str = "5.2.5";

/// Starts moto, which ends and removes its files when its standard input closes, even if the test was killed.
const LAUNCHER: &str = "import os, shutil, sys, threading
def end():
    sys.stdin.read()
    shutil.rmtree(os.path.dirname(os.environ['MOTO_AMIS_PATH']), ignore_errors=True)
    os._exit(0)
threading.Thread(target=end, daemon=True).start()
from moto.server import main
main(sys.argv[1:])
";

/// Finds the Python of the private environment that has moto.
pub(crate) fn python() -> Option<PathBuf> {
    let environment = crate::user_cache::user_cache()?
        .join("cvc")
        .join(format!("moto-{VERSION}"))
        .join("bin");
    environment
        .join("moto_server")
        .is_file()
        .then(|| environment.join("python"))
}

/// A running moto.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
    log: Arc<Mutex<String>>,
    _files: TempDir,
}

impl Server {
    /// Starts moto with files in a directory. `command` creates the command for a program.
    pub(super) fn start(directory: &Path, command: impl FnOnce(&Path) -> Command) -> Self {
        let python = python().expect("moto, which the set-up installs");
        let files = tempfile::Builder::new()
            .prefix("cvc-moto-")
            .tempdir_in(directory)
            .expect("a directory");
        let list = files.path().join("images.json");
        fs::write(&list, images::list_for_moto().to_string()).expect("the list of images");
        let mut command = command(&python);
        command
            .args(["-c", LAUNCHER, "-H", "127.0.0.1", "-p", "0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
            .env("MOTO_AMIS_PATH", list)
            .env("PYTHONUNBUFFERED", "1");
        for check in [
            "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION",
            "MOTO_ENABLE_KEYPAIR_VALIDATION",
            "MOTO_ENABLE_AMI_VALIDATION",
        ] {
            command.env(check, "1");
        }
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", python.display()));
        let (sender, receiver) = mpsc::channel();
        let output = BufReader::new(child.stderr.take().expect("its standard error"));
        let log: Arc<Mutex<String>> = Arc::default();
        let into = Arc::clone(&log);
        thread::spawn(move || {
            let noise = [
                "Press CTRL+C",
                "development server",
                "\"POST / HTTP/1.1\" 200",
            ];
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, port)) = line.split_once("Running on http://127.0.0.1:") {
                    let _ = sender.send(port.trim().parse::<u16>());
                } else if !noise.iter().any(|t| line.contains(t)) {
                    into.lock().push_str(&format!("{line}\n"));
                }
            }
        });
        match receiver.recv_timeout(Duration::from_secs(240)) {
            Ok(Ok(port)) => Self {
                child,
                port,
                log,
                _files: files,
            },
            other => {
                let _ = (child.kill(), child.wait());
                panic!("moto did not start ({other:?}): {}", log.lock());
            }
        }
    }

    /// Returns moto's error messages.
    pub(super) fn log(&self) -> String {
        self.log.lock().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// Calls moto from the network of the calling thread.
#[derive(Clone, Debug)]
pub(super) struct Client {
    agent: Agent,
    url: String,
}

impl Client {
    pub(super) fn at(port: u16) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(240)));
        Self {
            agent: config.build().into(),
            url: format!("http://127.0.0.1:{port}"),
        }
    }

    /// Forwards a request with this body.
    pub(super) fn forward(&self, request: &HttpRequest, body: &[u8]) -> HttpResponse {
        let mut to = ureq::http::Request::builder()
            .method(request.method.as_str())
            .uri(format!("{}{}", self.url, request.path));
        for (name, value) in &request.headers {
            if ![
                "host",
                "content-length",
                "connection",
                "expect",
                "transfer-encoding",
                "accept-encoding",
            ]
            .contains(&name.as_str())
            {
                to = to.header(name, value);
            }
        }
        let answer = to
            .body(body)
            .map_err(ureq::Error::from)
            .and_then(|r| self.agent.run(r));
        let read = answer.and_then(|mut answer| {
            let header = |name: &str| {
                answer
                    .headers()
                    .get(name)
                    .and_then(|v| v.to_str().ok())
                    .map(ToOwned::to_owned)
            };
            let kind = header("content-type").unwrap_or_else(|| "text/xml".into());
            let status = answer.status().as_u16();
            Ok(HttpResponse::new(
                status,
                &kind,
                answer
                    .body_mut()
                    .with_config()
                    .limit(64 << 20)
                    .read_to_vec()?,
            ))
        });
        read.unwrap_or_else(|e| HttpResponse::new(502, "text/plain", format!("moto: {e}")))
    }

    /// Calls EC2 in a region for the simulated cloud itself.
    pub(super) fn ask(
        &self,
        region: &str,
        action: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Element, String> {
        let mut all = Parameters::default();
        all.set("Action", action);
        all.set("Version", "2016-11-15");
        parameters
            .iter()
            .for_each(|(name, value)| all.set(name, *value));
        let scope = format!(
            "AWS4-HMAC-SHA256 Credential=cloud/20260101/{region}/ec2/aws4_request, SignedHeaders=host, Signature=0"
        );
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("authorization", scope.as_str()),
        ]
        .map(|(name, value)| {
            (
                hyper::header::HeaderName::from_static(name),
                hyper::header::HeaderValue::from_str(value).expect("plain characters"),
            )
        });
        let request = HttpRequest {
            method: hyper::Method::POST,
            path: "/".into(),
            headers: headers.into_iter().collect(),
            body: Vec::new(),
        };
        let answer = self.forward(&request, all.write().as_bytes());
        if answer.status != 200 {
            return Err(format!(
                "{action} in {region}: {}: {}",
                answer.status,
                String::from_utf8_lossy(&answer.body)
            ));
        }
        Element::parse(answer.body.as_slice()).map_err(|e| format!("{action} in {region}: {e}"))
    }

    /// Lists all instances of a region in any state.
    pub(super) fn reservations(
        &self,
        request: &HttpRequest,
        parameters: &Parameters,
    ) -> Result<Element, HttpResponse> {
        let mut parameters = parameters.clone();
        parameters.remove("NextToken");
        parameters.remove("MaxResults");
        if parameters.list("InstanceId").is_empty() {
            parameters.set("MaxResults", "100000");
        }
        let answer = self.forward(request, parameters.write().as_bytes());
        if answer.status != 200 {
            return Err(answer);
        }
        Element::parse(answer.body.as_slice())
            .map_err(|e| HttpResponse::new(502, "text/plain", format!("moto: {e}")))
    }

    /// Waits until moto answers.
    pub(super) fn wait(&self) {
        crate::wait_until("moto", Duration::from_secs(240), || {
            self.ask("us-east-1", "DescribeKeyPairs", &[]).is_ok()
        });
    }
}

/// Returns the text of the first descendant of this name.
pub(super) fn find(element: &Element, name: &str) -> Option<String> {
    let here = xml::text(element, name);
    here.or_else(|| {
        element
            .children
            .iter()
            .filter_map(|c| c.as_element())
            .find_map(|child| find(child, name))
    })
}
