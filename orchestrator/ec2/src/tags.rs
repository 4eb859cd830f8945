//! Converts tags and filters between cvc's form and the SDK's.

use aws_sdk_ec2::types::{Filter, ResourceType, Tag, TagSpecification};
use cvc_journal::lease::Tags;

/// Returns a filter that matches any of the values.
pub(crate) fn filter<V: Into<String>>(
    name: impl Into<String>,
    values: impl IntoIterator<Item = V>,
) -> Filter {
    let values = values.into_iter().map(Into::into).collect();
    Filter::builder()
        .name(name)
        .set_values(Some(values))
        .build()
}

/// Returns filters for cvc's tags with this owner and fleet.
pub(crate) fn ours(owner: Option<&str>, fleet: Option<&str>) -> Vec<Filter> {
    let mut filters = Vec::new();
    if let Some(owner) = owner {
        // an owner's name may contain wildcards
        filters.push(filter(format!("tag:{}", Tags::OWNER), [literal(owner)]));
    }
    filters.push(match fleet {
        Some(fleet) => filter(format!("tag:{}", Tags::FLEET), [literal(fleet)]),
        None => filter("tag-key", [Tags::FLEET]),
    });
    filters
}

/// Escapes wildcards in a filter's value.
pub(crate) fn literal(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '*' | '?' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// Returns the tag that contains the expiry.
pub(crate) fn expiry(expires: jiff::Timestamp) -> Tag {
    Tag::builder()
        .key(Tags::EXPIRES)
        .value(expires.to_string())
        .build()
}

/// Converts cvc's tags to the SDK's form.
pub(crate) fn written(tags: &Tags) -> Vec<Tag> {
    tags.pairs()
        .into_iter()
        .map(|(name, value)| Tag::builder().key(name).value(value).build())
        .collect()
}

/// Returns the specification of tags for a resource that is being created.
pub(crate) fn of_new(kind: ResourceType, tags: &Tags) -> TagSpecification {
    TagSpecification::builder()
        .resource_type(kind)
        .set_tags(Some(written(tags)))
        .build()
}

/// Converts tags from the SDK's form; `None` if they are not cvc's.
pub(crate) fn read(tags: &[Tag]) -> Option<Tags> {
    Tags::read(tags.iter().filter_map(|t| Some((t.key()?, t.value()?))))
}
