//! Tags, including those of resources that moto lacks.

use xmltree::Element;

use super::{
    query::Parameters,
    server::{HttpRequest, HttpResponse},
    world::{CloudState, World},
    xml::{self, leaf},
};

/// Answers CreateTags and DeleteTags; moto keeps the tags of its own resources.
pub(super) fn change(
    world: &World,
    request: &HttpRequest,
    action: &str,
    parameters: &Parameters,
) -> HttpResponse {
    let wanted = parameters.tags("Tag");
    let mut of_moto = Vec::new();
    {
        let mut state = world.lock();
        for id in parameters.list("ResourceId") {
            match tags_of(&mut state, &id) {
                Some(tags) => {
                    tags.retain(|(key, _)| !wanted.iter().any(|(k, _)| k == key));
                    if action == "CreateTags" {
                        tags.extend(wanted.iter().cloned());
                    }
                }
                None => of_moto.push(id),
            }
        }
    }
    if of_moto.is_empty() {
        return HttpResponse::xml(xml::response(action, [leaf("return", "true")]));
    }
    let mut rest = parameters.clone();
    rest.remove("ResourceId");
    for (n, id) in of_moto.iter().enumerate() {
        rest.set(&format!("ResourceId.{}", n + 1), id.as_str());
    }
    world.moto.forward(request, rest.write().as_bytes())
}

fn tags_of<'s>(state: &'s mut CloudState, id: &str) -> Option<&'s mut Vec<(String, String)>> {
    let of_group = state
        .groups
        .iter_mut()
        .find(|g| g.id == id)
        .map(|g| &mut g.tags);
    of_group.or_else(|| {
        state
            .requests
            .iter_mut()
            .find(|r| r.id == id)
            .map(|r| &mut r.tags)
    })
}

/// Answers DescribeTags with moto's tags and those of resources that moto lacks.
pub(super) fn describe(
    world: &World,
    request: &HttpRequest,
    region: &str,
    parameters: &Parameters,
) -> HttpResponse {
    let answer = world.moto.forward(request, &request.body);
    let (200, Ok(mut root)) = (answer.status, Element::parse(answer.body.as_slice())) else {
        return answer;
    };
    let state = world.lock();
    let groups = state
        .groups
        .iter()
        .filter(|g| g.region == region)
        .map(|g| (&g.id, "placement-group", &g.tags));
    let requests = state
        .requests
        .iter()
        .filter(|r| r.region == region)
        .map(|r| (&r.id, "spot-instances-request", &r.tags));
    let all = groups
        .chain(requests)
        .flat_map(|(id, kind, tags)| tags.iter().map(move |tag| (id, kind, tag)));
    let passes = |id: &str, kind: &str, (key, value): &(String, String)| {
        parameters
            .filters()
            .iter()
            .all(|(name, values)| match name.as_str() {
                "key" => super::query::is_any(values, key),
                "value" => super::query::is_any(values, value),
                "resource-id" => super::query::is_any(values, id),
                "resource-type" => super::query::is_any(values, kind),
                name => {
                    name.strip_prefix("tag:") == Some(key) && super::query::is_any(values, value)
                }
            })
    };
    let found =
        all.filter(|(id, kind, tag)| passes(id, kind, tag))
            .map(|(id, kind, (key, value))| {
                xml::node(
                    "item",
                    [
                        leaf("resourceId", id),
                        leaf("resourceType", kind),
                        leaf("key", key),
                        leaf("value", value),
                    ],
                )
            });
    let found: Vec<Element> = found.collect();
    if let Some(set) = root.get_mut_child("tagSet") {
        set.children
            .extend(found.into_iter().map(xmltree::XMLNode::Element));
    }
    HttpResponse::xml(xml::bytes(&root))
}
