//! Finds the image of a site for an architecture, and the user who may log in to it.

use crate::{Region, tags};
use aws_sdk_ec2::types;
use cvc_cloud::provider::{ErrorKind, ImageFacts, ProviderError};
use cvc_core::campaign::Image;

/// How the cloud finds an image.
#[derive(Debug, PartialEq, Eq)]
enum ImageLookup {
    Id(String),
    Named { owner: String, name: String },
    Parameter(String),
}

const DEBIAN: &str = "136693071363";
const CANONICAL: &str = "099720109477";

/// The name of an image that cvc does not know.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown image {0:?}")]
struct UnknownImage(String);

/// Returns how to find the site's image for an architecture.
fn way(image: &Image, architecture: &str) -> Result<ImageLookup, UnknownImage> {
    // Debian and Ubuntu use this name of the architecture
    let short = if architecture == "x86_64" {
        "amd64"
    } else {
        architecture
    };
    let named = |owner: &str, name: String| ImageLookup::Named {
        owner: owner.into(),
        name,
    };
    Ok(match image {
        Image::Id(id) => ImageLookup::Id(id.clone()),
        Image::Named { owner, name } => named(owner, name.clone()),
        Image::Parameter(name) => ImageLookup::Parameter(name.clone()),
        Image::Known(known) => match known.as_str() {
            "debian-12" => named(DEBIAN, format!("debian-12-{short}-*")),
            "debian-13" => named(DEBIAN, format!("debian-13-{short}-*")),
            "ubuntu-22.04" => named(
                CANONICAL,
                format!("ubuntu/images/hvm-ssd*/ubuntu-*-22.04-{short}-server-*"),
            ),
            "ubuntu-24.04" => named(
                CANONICAL,
                format!("ubuntu/images/hvm-ssd*/ubuntu-*-24.04-{short}-server-*"),
            ),
            "amazon-linux-2023" => ImageLookup::Parameter(format!(
                "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{architecture}"
            )),
            other => return Err(UnknownImage(other.to_owned())),
        },
    })
}

impl Region {
    /// Returns the image for each architecture.
    pub(crate) async fn images(
        &self,
        image: &Image,
        architectures: &[String],
    ) -> Result<Vec<ImageFacts>, ProviderError> {
        let mut found = Vec::new();
        for architecture in architectures {
            found.push(self.image(image, architecture).await?);
        }
        Ok(found)
    }

    async fn image(&self, image: &Image, architecture: &str) -> Result<ImageFacts, ProviderError> {
        let what = "looking for the image";
        let refuse =
            |message: String| ProviderError::before(ErrorKind::Invalid, what, &self.name, message);
        let found = match way(image, architecture).map_err(|unknown| refuse(unknown.to_string()))? {
            ImageLookup::Id(id) => self.image_by_id(what, &id).await?,
            ImageLookup::Parameter(name) => {
                let answer = match self
                    .ask(what, |s| s.ssm.get_parameter().name(&name).send())
                    .await
                {
                    Err(e) if e.kind == ErrorKind::NotFound => {
                        return Err(refuse(format!("unknown parameter {name}")));
                    }
                    other => other?,
                };
                let id = answer
                    .parameter()
                    .and_then(|p| p.value())
                    .unwrap_or_default()
                    .trim()
                    .to_owned();
                if !id.starts_with("ami-") {
                    return Err(refuse(format!(
                        "the parameter {name} does not name an image"
                    )));
                }
                self.image_by_id(what, &id).await?
            }
            ImageLookup::Named { owner, name } => {
                let filters = [
                    tags::filter("name", [name.as_str()]),
                    tags::filter("architecture", [architecture]),
                    tags::filter("state", ["available"]),
                    tags::filter("root-device-type", ["ebs"]),
                    tags::filter("virtualization-type", ["hvm"]),
                ];
                let all = self
                    .ask(what, |s| {
                        let call = s
                            .ec2
                            .describe_images()
                            .owners(&owner)
                            .set_filters(Some(filters.to_vec()));
                        call.into_paginator().items().send().try_collect()
                    })
                    .await?;
                // ISO 8601 dates can be compared as text
                let newest = all.into_iter().max_by(|a, b| {
                    (a.creation_date(), a.image_id()).cmp(&(b.creation_date(), b.image_id()))
                });
                newest.ok_or_else(|| {
                    refuse(format!(
                        "{owner} has no image for {architecture} with a name like {name:?}"
                    ))
                })?
            }
        };
        let facts = facts(&found)
            .ok_or_else(|| refuse("the answer lacks the image or its root device".into()))?;
        if facts.architecture != architecture {
            return Err(refuse(format!(
                "{} is for {}, but the site has instance types for {architecture}",
                facts.id, facts.architecture
            )));
        }
        Ok(facts)
    }

    async fn image_by_id(&self, what: &str, id: &str) -> Result<types::Image, ProviderError> {
        let refuse =
            |message: String| ProviderError::before(ErrorKind::Invalid, what, &self.name, message);
        let answer = self
            .ask(what, |s| s.ec2.describe_images().image_ids(id).send())
            .await?;
        let image = answer.images.unwrap_or_default().into_iter().next();
        let image = image.ok_or_else(|| {
            refuse(format!(
                "the image {id} does not exist, or is not shared with this account"
            ))
        })?;
        match image.state() {
            Some(types::ImageState::Available) | None => Ok(image),
            Some(state) => Err(refuse(format!("image {id} is {}", state.as_str()))),
        }
    }
}

fn facts(image: &types::Image) -> Option<ImageFacts> {
    let root_device = image.root_device_name()?.to_owned();
    let root = image
        .block_device_mappings()
        .iter()
        .find(|m| m.device_name() == Some(&root_device));
    let size = root.and_then(|m| m.ebs()).and_then(|e| e.volume_size());
    let name = image.name().unwrap_or_default().to_owned();
    Some(ImageFacts {
        id: image.image_id()?.to_owned(),
        architecture: image
            .architecture()
            .map(|a| a.as_str().to_owned())
            .unwrap_or_default(),
        root_device,
        root_gib: size.and_then(|s| u32::try_from(s).ok()).unwrap_or(0),
        user: user(&name, image.description().unwrap_or_default()).to_owned(),
        name,
    })
}

/// Returns the login user of an image, by the conventions of image publishers.
fn user(name: &str, description: &str) -> &'static str {
    const HABITS: [(&str, &str); 6] = [
        ("ubuntu", "ubuntu"),
        ("debian", "admin"),
        ("rocky", "rocky"),
        ("fedora", "fedora"),
        ("centos", "centos"),
        ("alma", "ec2-user"),
    ];
    let of = |text: &str| {
        let text = text.to_lowercase();
        HABITS
            .iter()
            .find(|(word, _)| text.contains(word))
            .map(|(_, user)| *user)
    };
    of(name).or_else(|| of(description)).unwrap_or("ec2-user")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_images_are_found_for_each_architecture() {
        let of = |image: &str, architecture: &str| way(&Image::Known(image.into()), architecture);
        assert_eq!(
            of("debian-12", "x86_64"),
            Ok(ImageLookup::Named {
                owner: DEBIAN.into(),
                name: "debian-12-amd64-*".into()
            })
        );
        assert_eq!(
            of("debian-13", "arm64"),
            Ok(ImageLookup::Named {
                owner: DEBIAN.into(),
                name: "debian-13-arm64-*".into()
            })
        );
        let name = "ubuntu/images/hvm-ssd*/ubuntu-*-24.04-arm64-server-*".into();
        assert_eq!(
            of("ubuntu-24.04", "arm64"),
            Ok(ImageLookup::Named {
                owner: CANONICAL.into(),
                name
            })
        );
        let name = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64".into();
        assert_eq!(
            of("amazon-linux-2023", "x86_64"),
            Ok(ImageLookup::Parameter(name))
        );
        assert!(of("windows-95", "x86_64").is_err());
    }

    #[test]
    fn who_logs_in_follows_from_the_name() {
        assert_eq!(user("debian-12-amd64-20260112", ""), "admin");
        assert_eq!(
            user(
                "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260112",
                ""
            ),
            "ubuntu"
        );
        assert_eq!(
            user("al2023-ami-2023.9.1-kernel-6.1-x86_64", "Amazon Linux 2023"),
            "ec2-user"
        );
        assert_eq!(user("our-own-3", "Debian with our libraries"), "admin");
    }
}
