//! Requests of EC2's query protocol: parameters, lists, filters.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

/// The parameters of one request, by name: `Filter.1.Value.2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters(pub(super) BTreeMap<String, String>);

impl Parameters {
    /// Parses the body of a request.
    pub(super) fn read(body: &[u8]) -> Self {
        Self(
            form_urlencoded::parse(body)
                .map(|(k, v)| (k.into_owned(), v.into_owned()))
                .collect(),
        )
    }

    /// Writes the body of a request.
    pub(super) fn write(&self) -> String {
        form_urlencoded::Serializer::new(String::new())
            .extend_pairs(&self.0)
            .finish()
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// Returns the values of a list: `InstanceId.1`, `InstanceId.2`.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        self.members(name)
            .into_values()
            .filter_map(|m| m.get("").map(ToOwned::to_owned))
            .collect()
    }

    /// Returns the members of a list by number, each with its own parameters. `Filter.1.Name` is the parameter `Name` of member 1 of the list
    /// `Filter`.
    pub(super) fn members(&self, name: &str) -> BTreeMap<u32, Self> {
        let mut members: BTreeMap<u32, Self> = BTreeMap::new();
        for (key, value) in &self.0 {
            let Some(rest) = key.strip_prefix(name).and_then(|r| r.strip_prefix('.')) else {
                continue;
            };
            let (number, below) = rest.split_once('.').unwrap_or((rest, ""));
            let Ok(number) = number.parse() else { continue };
            members
                .entry(number)
                .or_default()
                .set(below, value.as_str());
        }
        members
    }

    /// Removes a parameter and everything below it.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|key, _| {
            key != name
                && !key
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with('.'))
        });
    }

    /// Returns the filters: names and accepted values.
    pub(super) fn filters(&self) -> Vec<(String, Vec<String>)> {
        let members = self.members("Filter").into_values();
        members
            .filter_map(|filter| Some((filter.get("Name")?.to_owned(), filter.list("Value"))))
            .collect()
    }

    pub(super) fn set_filters(&mut self, filters: &[(String, Vec<String>)]) {
        self.remove("Filter");
        for (n, (name, values)) in filters.iter().enumerate() {
            self.set(&format!("Filter.{}.Name", n + 1), name.as_str());
            for (m, value) in values.iter().enumerate() {
                self.set(&format!("Filter.{}.Value.{}", n + 1, m + 1), value.as_str());
            }
        }
    }

    /// Returns the tags for new resources of a type.
    pub(super) fn tags_for(&self, kind: &str) -> Vec<(String, String)> {
        let of_kind = self
            .members("TagSpecification")
            .into_values()
            .filter(|s| s.get("ResourceType") == Some(kind));
        of_kind.flat_map(|s| s.tags("Tag")).collect()
    }

    /// Returns a list of tags.
    pub(super) fn tags(&self, list: &str) -> Vec<(String, String)> {
        let members = self.members(list).into_values();
        members
            .filter_map(|tag| {
                Some((
                    tag.get("Key")?.to_owned(),
                    tag.get("Value").unwrap_or_default().to_owned(),
                ))
            })
            .collect()
    }
}

/// Returns whether a resource with these tags passes a filter; `None` if the filter is not about tags.
pub(super) fn by_tags(tags: &[(String, String)], name: &str, values: &[String]) -> Option<bool> {
    if name == "tag-key" {
        return Some(tags.iter().any(|(key, _)| is_any(values, key)));
    }
    let wanted = name.strip_prefix("tag:")?;
    Some(
        tags.iter()
            .any(|(key, value)| key == wanted && is_any(values, value)),
    )
}

/// Returns whether a text matches one of these patterns, in which `*` matches any characters and `?` one.
pub(super) fn is_any(patterns: &[String], text: &str) -> bool {
    patterns
        .iter()
        .any(|p| is_like(p.as_bytes(), text.as_bytes()))
}

fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            is_like(&pattern[1..], text) || (!text.is_empty() && is_like(pattern, &text[1..]))
        }
        (Some(b'?'), Some(_)) => is_like(&pattern[1..], &text[1..]),
        (Some(p), Some(t)) if p == t => is_like(&pattern[1..], &text[1..]),
        _ => false,
    }
}

/// Makes a unique identifier, such as `sir-0a1b2c3d4e5f60718`.
pub(super) fn identity(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // spread over all digits, as in EC2
    let spread = (count + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(std::process::id());
    format!("{prefix}0{spread:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_filters_and_tags_are_read_and_written() {
        let body = b"Action=X&Filter.1.Name=tag%3Aa&Filter.1.Value.1=b*&Filter.2.Name=state&Filter.2.Value.1=x&Filter.2.Value.2=y+z&InstanceId.2=i-2&InstanceId.10=i-10";
        let mut parameters = Parameters::read(body);
        assert_eq!(parameters.list("InstanceId"), ["i-2", "i-10"]);
        let filters = parameters.filters();
        assert_eq!(
            filters,
            [
                ("tag:a".into(), vec!["b*".into()]),
                ("state".into(), vec!["x".into(), "y z".into()])
            ]
        );
        parameters.set_filters(&filters[1..]);
        assert_eq!(
            Parameters::read(parameters.write().as_bytes()).filters(),
            filters[1..]
        );
        let tags = [("a".to_owned(), "bcd".to_owned())];
        assert_eq!(by_tags(&tags, "tag:a", &filters[0].1), Some(true));
        assert_eq!(by_tags(&tags, "tag:a", &["b?".into()]), Some(false));
        assert_eq!(by_tags(&tags, "state", &[]), None);
    }
}
