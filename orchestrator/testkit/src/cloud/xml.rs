//! Parses, changes and writes answers in the format of EC2's query protocol.

use xmltree::{Element, XMLNode};

/// The XML namespace of all answers of EC2.
pub(super) const NAMESPACE: &str = "http://ec2.amazonaws.com/doc/2016-11-15";

/// Returns the text of the child of this name.
pub(super) fn text(element: &Element, name: &str) -> Option<String> {
    Some(
        element
            .get_child(name)?
            .get_text()
            .map(|t| t.into_owned())
            .unwrap_or_default(),
    )
}

/// Returns the text of the element at a path of child names.
pub(super) fn text_at(element: &Element, path: &[&str]) -> Option<String> {
    let (last, above) = path.split_last()?;
    text(
        above
            .iter()
            .try_fold(element, |e, name| e.get_child(*name))?,
        last,
    )
}

/// Replaces or adds a child that contains a text.
pub(super) fn set(element: &mut Element, name: &str, value: &str) {
    put(element, leaf(name, value));
}

/// Replaces the child of the same name, or adds it.
pub(super) fn put(element: &mut Element, child: Element) {
    match element.get_mut_child(child.name.as_str()) {
        Some(there) => *there = child,
        None => element.children.push(XMLNode::Element(child)),
    }
}

/// Creates an element that contains a text.
pub(super) fn leaf(name: &str, value: &str) -> Element {
    let mut leaf = Element::new(name);
    leaf.children.push(XMLNode::Text(value.to_owned()));
    leaf
}

/// Makes an element with children.
pub(super) fn node(name: &str, children: impl IntoIterator<Item = Element>) -> Element {
    let mut node = Element::new(name);
    node.children
        .extend(children.into_iter().map(XMLNode::Element));
    node
}

/// Makes a list in EC2's format.
pub(super) fn list(name: &str, items: impl IntoIterator<Item = Vec<Element>>) -> Element {
    node(
        name,
        items.into_iter().map(|children| node("item", children)),
    )
}

/// Makes a list of tags in EC2's format.
pub(super) fn tags(tags: &[(String, String)]) -> Element {
    list(
        "tagSet",
        tags.iter()
            .map(|(key, value)| vec![leaf("key", key), leaf("value", value)]),
    )
}

/// Reads the tags of an element.
pub(super) fn tags_of(element: &Element) -> Vec<(String, String)> {
    items(element, "tagSet")
        .filter_map(|item| Some((text(item, "key")?, text(item, "value")?)))
        .collect()
}

/// Returns the items of a list.
pub(super) fn items<'e>(element: &'e Element, list: &str) -> impl Iterator<Item = &'e Element> {
    element
        .get_child(list)
        .into_iter()
        .flat_map(|l| l.children.iter().filter_map(XMLNode::as_element))
}

/// Returns the items of a list, mutable.
pub(super) fn items_mut<'e>(
    element: &'e mut Element,
    list: &str,
) -> impl Iterator<Item = &'e mut Element> {
    element
        .get_mut_child(list)
        .into_iter()
        .flat_map(|l| l.children.iter_mut().filter_map(XMLNode::as_mut_element))
}

/// Keeps the items of a list for which `keep` returns true.
pub(super) fn retain(element: &mut Element, list: &str, mut keep: impl FnMut(&Element) -> bool) {
    if let Some(list) = element.get_mut_child(list) {
        list.children
            .retain(|c| c.as_element().is_none_or(&mut keep));
    }
}

/// Serializes an answer.
pub(super) fn bytes(element: &Element) -> Vec<u8> {
    let mut bytes = Vec::new();
    element.write(&mut bytes).expect("memory takes it");
    bytes
}

/// Creates the answer to an action, with these children.
pub(super) fn response(action: &str, children: impl IntoIterator<Item = Element>) -> Vec<u8> {
    let mut root = node(&format!("{action}Response"), children);
    root.attributes.insert("xmlns".into(), NAMESPACE.into());
    set(&mut root, "requestId", &super::query::identity("req-"));
    bytes(&root)
}
