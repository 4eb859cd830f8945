//! Faults between a program and the cloud.

use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp, Zoned, civil::DateTime, tz::TimeZone};

use super::{
    query::Parameters,
    server::{HttpRequest, HttpResponse},
    xml,
};

/// A fault that occurs in calls of an action.
#[derive(Clone, Debug)]
pub struct Fault {
    pub(super) action: String,
    pub(super) matching: Vec<(String, String)>,
    pub(super) kind: FaultKind,
    /// Number of remaining occurrences; `None` for no limit.
    pub(super) count: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum FaultKind {
    Error {
        code: String,
        http: u16,
        message: String,
    },
    Delay(Duration),
    LostRequest,
    LostAnswer,
}

impl Fault {
    fn new(action: &str, kind: FaultKind) -> Self {
        Self {
            action: action.to_owned(),
            matching: Vec::new(),
            kind,
            count: Some(1),
        }
    }

    /// Answers the next call of an action (`*`: any action) with this error, without carrying it out.
    pub fn error(action: &str, code: &str, http: u16) -> Self {
        Self::new(
            action,
            FaultKind::Error {
                code: code.to_owned(),
                http,
                message: "injected by the test".to_owned(),
            },
        )
    }

    /// Throttles the next call.
    pub fn throttle(action: &str) -> Self {
        Self::error(action, "RequestLimitExceeded", 503).message("Request limit exceeded.")
    }

    /// Reports that the zone has no capacity for the instance type.
    pub fn no_capacity() -> Self {
        Self::error("RunInstances", "InsufficientInstanceCapacity", 500).message(
            "We currently do not have sufficient capacity in the Availability Zone you requested.",
        )
    }

    /// Delays the next call of an action.
    pub fn delay(action: &str, by: Duration) -> Self {
        Self::new(action, FaultKind::Delay(by))
    }

    /// Closes the connection before the action is carried out.
    pub fn lost_request(action: &str) -> Self {
        Self::new(action, FaultKind::LostRequest)
    }

    /// Carries out the action, but closes the connection instead of answering.
    pub fn lost_answer(action: &str) -> Self {
        Self::new(action, FaultKind::LostAnswer)
    }

    /// Restricts the fault to calls with this parameter, named as in EC2's query protocol: `Placement.AvailabilityZone`. May be called repeatedly.
    /// For a launch without a zone, the zone is that of its subnet, or the region's first zone.
    pub fn matching(mut self, parameter: &str, value: &str) -> Self {
        self.matching.push((parameter.to_owned(), value.to_owned()));
        self
    }

    /// Sets the message of the error.
    pub fn message(mut self, text: &str) -> Self {
        if let FaultKind::Error { message, .. } = &mut self.kind {
            text.clone_into(message);
        }
        self
    }

    /// Makes the fault occur `count` times instead of once.
    pub fn times(mut self, count: usize) -> Self {
        self.count = Some(count);
        self
    }

    /// Makes the fault occur every time.
    pub fn always(mut self) -> Self {
        self.count = None;
        self
    }

    fn concerns(&self, action: &str, parameters: &Parameters) -> bool {
        (self.action == "*" || self.action == action)
            && self.count != Some(0)
            && self
                .matching
                .iter()
                .all(|(name, value)| parameters.get(name) == Some(value))
    }
}

/// Returns the faults that occur in this call, and counts them.
pub(super) fn take_faults(
    faults: &mut Vec<Fault>,
    action: &str,
    parameters: &Parameters,
) -> Vec<FaultKind> {
    let mut kinds = Vec::new();
    for fault in faults.iter_mut().filter(|f| f.concerns(action, parameters)) {
        // a call gets only one error; other errors occur in the next calls
        if kinds.iter().any(|k| !matches!(k, FaultKind::Delay(_))) {
            break;
        }
        if let Some(count) = &mut fault.count {
            *count -= 1;
        }
        kinds.push(fault.kind.clone());
    }
    faults.retain(|f| f.count != Some(0));
    kinds
}

/// The cloud's clock, which may be wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CloudClock(pub(super) SignedDuration);

impl CloudClock {
    pub(super) fn now(self) -> Timestamp {
        Timestamp::try_from(SystemTime::now())
            .unwrap_or(Timestamp::UNIX_EPOCH)
            .saturating_add(self.0)
            .unwrap_or(Timestamp::MAX)
    }

    /// Returns the value of the `Date` header of answers.
    pub(super) fn date(self) -> String {
        self.now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    /// Returns the error for a request whose signature is more than five minutes off; `None` if the request is accepted.
    pub(super) fn refuses(self, request: &HttpRequest) -> Option<HttpResponse> {
        let signed = request.header("x-amz-date")?;
        let when: Zoned = DateTime::strptime("%Y%m%dT%H%M%SZ", signed)
            .ok()?
            .to_zoned(TimeZone::UTC)
            .ok()?;
        let late = self.now().duration_since(when.timestamp());
        let limit = SignedDuration::from_mins(5);
        // JSON services return another error for an old signature than for expired credentials
        if late > limit && request.header("x-amz-target").is_some() {
            Some(error(
                request,
                "InvalidSignatureException",
                400,
                "Signature expired: it is earlier than five minutes ago.",
            ))
        } else if late > limit {
            Some(error(
                request,
                "RequestExpired",
                400,
                "Request has expired.",
            ))
        } else if late < -limit {
            Some(error(
                request,
                "AuthFailure",
                401,
                "AWS was not able to validate the provided access credentials",
            ))
        } else {
            None
        }
    }
}

/// Creates an error in the format of the requested service.
pub(super) fn error(request: &HttpRequest, code: &str, http: u16, message: &str) -> HttpResponse {
    if request.header("x-amz-target").is_some() {
        let code = match code {
            "RequestExpired" => "ExpiredTokenException",
            "AuthFailure" => "InvalidSignatureException",
            "RequestLimitExceeded" => "ThrottlingException",
            code => code,
        };
        let body = serde_json::json!({ "__type": code, "message": message, "Message": message });
        let mut answer = HttpResponse::new(http, "application/x-amz-json-1.1", body.to_string());
        answer
            .headers
            .push(("x-amzn-ErrorType".into(), code.to_owned()));
        return answer;
    }
    if request
        .header("authorization")
        .is_some_and(|a| a.contains("/sts/"))
    {
        let code = if code == "RequestExpired" {
            "ExpiredToken"
        } else {
            code
        };
        let one = xml::node(
            "Error",
            [
                xml::leaf("Type", "Sender"),
                xml::leaf("Code", code),
                xml::leaf("Message", message),
            ],
        );
        return HttpResponse::new(
            http,
            "text/xml",
            xml::bytes(&xml::node("ErrorResponse", [one])),
        );
    }
    ec2_error(code, http, message)
}

/// Creates an error of EC2.
pub(super) fn ec2_error(code: &str, http: u16, message: &str) -> HttpResponse {
    let one = xml::node(
        "Error",
        [xml::leaf("Code", code), xml::leaf("Message", message)],
    );
    let root = xml::node(
        "Response",
        [
            xml::node("Errors", [one]),
            xml::leaf("RequestID", &super::query::identity("req-")),
        ],
    );
    HttpResponse::new(http, "text/xml;charset=UTF-8", xml::bytes(&root))
}
