//! Splits answers into pages.

use super::{fault::ec2_error, query::Parameters, server::HttpResponse};

const TOKEN: &str = "eyJ2IjoiMSJ9.";

/// Returns the requested page and the token of the next one. Items have unique names and a fixed order.
pub(super) fn page<'i, T>(
    parameters: &Parameters,
    items: &'i [T],
    name: impl Fn(&T) -> String,
) -> Result<(&'i [T], Option<String>), HttpResponse> {
    let wrong = |message: &str| ec2_error("InvalidParameterValue", 400, message);
    let begin = match parameters.get("NextToken").filter(|t| !t.is_empty()) {
        None => 0,
        Some(token) => {
            let after = token
                .strip_prefix(TOKEN)
                .and_then(|last| items.iter().position(|i| name(i) == last));
            after.ok_or_else(|| wrong("Unable to parse pagination token"))? + 1
        }
    };
    let size = match parameters.get("MaxResults") {
        None => items.len(),
        Some(text) => match text.parse::<usize>() {
            Ok(size @ 5..=1000) => size,
            _ => {
                return Err(wrong(&format!(
                    "Value ( {text} ) for parameter maxResults is invalid. Expecting a value from 5 to 1000."
                )));
            }
        },
    };
    let end = items.len().min(begin + size);
    let next = (end < items.len()).then(|| format!("{TOKEN}{}", name(&items[end - 1])));
    Ok((&items[begin.min(end)..end], next))
}
