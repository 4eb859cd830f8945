//! Answers to requests.

use crate::{
    access::{Token, is_own_host},
    current::{Current, ReadingError, Served},
    page::{self, POLICY},
};
use cvc_session::explanation::{Explanation, end_of_output, explain_id};
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderName, HeaderValue},
};

/// An answer: status, content type, and body.
pub(crate) type ServedAnswer = (StatusCode, &'static str, Bytes);

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// The data that answers are made from.
pub(crate) struct ServedAnswers {
    pub port: u16,
    pub token: Token,
    /// Path below which all pages are: `/` and letters, without a slash at the end.
    pub place: String,
    pub served: Served,
    pub current: Current,
}

/// What to do with a request, decided from its head.
pub(crate) enum ServedVerdict {
    /// Send this answer: the request is refused or redirected.
    Done(Response<Full<Bytes>>),
    /// Send this page: the client has shown the token.
    Page(String),
}

impl ServedAnswers {
    /// Decides on a request from its head, without reading files.
    pub fn judge<B>(&self, request: &Request<B>) -> ServedVerdict {
        let text = |name: HeaderName| {
            let value = request.headers().get(name).map(HeaderValue::to_str);
            value.and_then(Result::ok).unwrap_or_default()
        };
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or(""));
        if !is_own_host(text(header::HOST), self.port) {
            let status = StatusCode::MISDIRECTED_REQUEST;
            return ServedVerdict::Done(reply(refused(
                status,
                "this server does not serve this host name",
            )));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return ServedVerdict::Done(reply(refused(status, "this server only shows")));
        }
        if self.token.is_in_query(query) && is_page(path) {
            // redirect to the address without the token, because browsers store addresses
            return ServedVerdict::Done(self.redirect(path));
        }
        if !self.token.is_in_cookies(text(header::COOKIE), self.port) {
            let why = "open the address that `cvc serve` printed";
            return ServedVerdict::Done(reply(refused(StatusCode::FORBIDDEN, why)));
        }
        match path.strip_prefix(&self.place).filter(|page| is_page(page)) {
            Some(page) => ServedVerdict::Page(page.to_owned()),
            None => ServedVerdict::Done(reply(no_such("page"))),
        }
    }

    fn redirect(&self, path: &str) -> Response<Full<Bytes>> {
        let mut response = reply(refused(StatusCode::SEE_OTHER, "redirected"));
        let headers = response.headers_mut();
        insert(headers, header::LOCATION, &format!("{}{path}", self.place));
        let cookie = self.token.cookie(self.port, &self.place);
        insert(headers, header::SET_COOKIE, &cookie);
        response
    }

    /// Returns the page of a path. Reading files may take some time.
    pub fn page(&self, path: &str) -> Response<Full<Bytes>> {
        let mut response = reply(match path {
            "/" => self
                .current
                .reading(&self.served)
                .map_or_else(failed, |r| (StatusCode::OK, HTML, r.page.clone())),
            "/status.json" => self
                .current
                .reading(&self.served)
                .map_or_else(failed, |r| (StatusCode::OK, JSON, r.json.clone())),
            "/report" => match self.current.report(&self.served.report) {
                Some(page) => (StatusCode::OK, HTML, page),
                None => refused(StatusCode::NOT_FOUND, "there is no report yet"),
            },
            _ => {
                let id = path.strip_prefix("/run/").unwrap_or_default();
                self.explained(id).unwrap_or_else(failed)
            }
        });
        if path == "/report" {
            // the report contains its own Content-Security-Policy
            response
                .headers_mut()
                .remove(header::CONTENT_SECURITY_POLICY);
        }
        response
    }

    fn explained(&self, id: &str) -> Result<ServedAnswer, ReadingError> {
        let dir = &self.served.campaign;
        let reading = self.current.reading(&self.served)?;
        let found = explain_id(dir, &reading.plan, &reading.state, id);
        let Some(explanation @ Explanation::Run(run)) = found
            .iter()
            .find(|e| matches!(e, Explanation::Run(r) if r.run == id))
        else {
            return Ok(no_such("run"));
        };
        let page = page::run(explanation, &end_of_output(dir, run))?;
        Ok(page.map_or_else(
            || no_such("run"),
            |page| (StatusCode::OK, HTML, page.into()),
        ))
    }
}

/// Returns whether a page with this path may exist. A client is redirected only to such paths, because `//x` would be another server.
fn is_page(path: &str) -> bool {
    matches!(path, "/" | "/status.json" | "/report")
        || path
            .strip_prefix("/run/")
            .is_some_and(|id| id.chars().all(|c| c.is_ascii_alphanumeric()))
}

fn refused(status: StatusCode, why: &str) -> ServedAnswer {
    (status, TEXT, format!("{why}\n").into())
}

fn no_such(what: &str) -> ServedAnswer {
    refused(StatusCode::NOT_FOUND, &format!("there is no such {what}"))
}

fn failed(error: ReadingError) -> ServedAnswer {
    refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn reply((status, kind, text): ServedAnswer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        insert(response.headers_mut(), name, value);
    }
    response
}
