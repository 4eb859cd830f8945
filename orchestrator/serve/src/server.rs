//! Answers requests.

use crate::{
    access::{Token, is_own_host},
    page::{self, POLICY},
    snapshot::Snapshot,
};
use camino::Utf8PathBuf;
use cvc_core::{store::CampaignDir, visible::visible};
use cvc_journal::CampaignState;
use cvc_session::{
    campaigns::read_plan,
    explanation::{Explanation, end_of_output, explain_id},
};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};
use tiny_http::{Header, Method, Request, Response};

/// The server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port.
    #[error("cannot listen on 127.0.0.1:{port}: {error}")]
    Listen {
        /// Which.
        port: u16,
        /// Why.
        error: String,
    },
    /// The token.
    #[error("no random numbers for a token: {0}")]
    Token(io::Error),
}

/// What is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// Directory of the campaign.
    pub campaign: CampaignDir,
    /// The page of its report, which need not exist.
    pub report: Utf8PathBuf,
}

/// A server that listens.
pub struct Server {
    http: tiny_http::Server,
    port: u16,
    token: Token,
    served: Served,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// An answer: status, type, text.
type Answer = (u16, &'static str, Vec<u8>);

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

impl Server {
    /// Begins to listen on the loopback interface; port 0 is any that is free.
    ///
    /// # Errors
    /// When the port is taken, or there are no random numbers.
    pub fn listen(port: u16, served: Served) -> Result<Self, ServeError> {
        let http = tiny_http::Server::http(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(
            |error| ServeError::Listen {
                port,
                error: error.to_string(),
            },
        )?;
        let port = http.server_addr().to_ip().map_or(port, |at| at.port());
        Ok(Self {
            http,
            port,
            token: Token::new().map_err(ServeError::Token)?,
            served,
        })
    }

    /// The address that opens the page, token included.
    pub fn address(&self) -> String {
        format!(
            "http://127.0.0.1:{}/?token={}",
            self.port,
            self.token.text()
        )
    }

    /// Answers requests, one after another, until `is_over` says so, which is asked several times a second.
    pub fn run(&self, is_over: impl Fn() -> bool) {
        while !is_over() {
            if let Ok(Some(request)) = self.http.recv_timeout(Duration::from_millis(200)) {
                // a reader that is gone needs no answer
                let _ = self.answer(request);
            }
        }
    }

    fn answer(&self, request: Request) -> io::Result<()> {
        let header = |name: &'static str| {
            request
                .headers()
                .iter()
                .find(|header| header.field.equiv(name))
                .map(|header| header.value.as_str().to_owned())
                .unwrap_or_default()
        };
        let url = request.url().to_owned();
        let (path, query) = url.split_once('?').unwrap_or((&url, ""));
        if !is_own_host(&header("Host"), self.port) {
            return reply(request, refused(421, "this server has another name"), None);
        }
        if !matches!(request.method(), Method::Get | Method::Head) {
            return reply(request, refused(405, "this server only shows"), None);
        }
        if self.token.is_in_query(query) {
            // the token does not stay in the address, where it would be kept
            let to = format!("{path}\r\n");
            let location = Header::from_bytes("Location", to.trim()).ok();
            let cookie = Header::from_bytes("Set-Cookie", self.token.cookie()).ok();
            return reply(
                request,
                refused(303, "see there"),
                location.into_iter().chain(cookie),
            );
        }
        if !self.token.is_in_cookies(&header("Cookie")) {
            return reply(
                request,
                refused(403, "open the address that `cvc serve` printed"),
                None,
            );
        }
        let answer = self.page(path);
        reply(request, answer, None)
    }

    fn page(&self, path: &str) -> Answer {
        match path {
            "/" => self.overview().unwrap_or_else(failed),
            "/status.json" => self.status().unwrap_or_else(failed),
            "/report" => self.report(),
            _ => match path.strip_prefix("/run/") {
                Some(id) if id.chars().all(|c| c.is_ascii_alphanumeric()) => {
                    self.explained(id).unwrap_or_else(failed)
                }
                _ => refused(404, "there is no such page"),
            },
        }
    }

    fn overview(&self) -> Result<Answer, String> {
        let snapshot = Snapshot::read(&self.served.campaign).map_err(|e| e.to_string())?;
        let page = page::overview(&snapshot, self.served.report.is_file());
        Ok((200, HTML, page.map_err(|e| e.to_string())?.into_bytes()))
    }

    fn status(&self) -> Result<Answer, String> {
        let snapshot = Snapshot::read(&self.served.campaign).map_err(|e| e.to_string())?;
        let text = serde_json::to_vec_pretty(&snapshot).map_err(|e| e.to_string())?;
        Ok((200, JSON, text))
    }

    fn report(&self) -> Answer {
        match std::fs::read(&self.served.report) {
            Ok(page) => (200, HTML, page),
            Err(_) => refused(404, "there is no report yet"),
        }
    }

    fn explained(&self, id: &str) -> Result<Answer, String> {
        let dir = &self.served.campaign;
        let plan = read_plan(dir).map_err(|e| e.to_string())?;
        let state = CampaignState::read(&dir.journal()).map_err(|e| e.to_string())?;
        let found = explain_id(dir, &plan, &state, id);
        let Some(explanation @ Explanation::Run(run)) = found
            .iter()
            .find(|e| matches!(e, Explanation::Run(r) if r.run == id))
        else {
            return Ok(refused(404, "there is no such run"));
        };
        let output: Vec<(&str, String)> = end_of_output(dir, run)
            .into_iter()
            .map(|(name, text)| (name, visible(&text).into_owned()))
            .collect();
        match page::run(explanation, &output).map_err(|e| e.to_string())? {
            Some(page) => Ok((200, HTML, page.into_bytes())),
            None => Ok(refused(404, "there is no such run")),
        }
    }
}

fn refused(status: u16, why: &str) -> Answer {
    (status, TEXT, format!("{why}\n").into_bytes())
}

fn failed(why: String) -> Answer {
    refused(500, &format!("the campaign cannot be read: {why}"))
}

fn reply(
    request: Request,
    (status, kind, text): Answer,
    more: impl IntoIterator<Item = Header>,
) -> io::Result<()> {
    let mut response = Response::from_data(text).with_status_code(status);
    let fixed = [
        ("Content-Type", kind),
        ("Content-Security-Policy", POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
    ];
    // the report brings its own, which is in the page
    let fixed = fixed
        .into_iter()
        .filter(|(name, _)| *name != "Content-Security-Policy" || request.url() != "/report");
    for header in fixed
        .filter_map(|(name, value)| Header::from_bytes(name, value).ok())
        .chain(more)
    {
        response.add_header(header);
    }
    request.respond(response)
}
