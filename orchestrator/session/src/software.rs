//! Reports software that a site cannot install by itself, before anything is launched or paid for.

use cvc_core::campaign::{Image, Site, SiteKind, Spec};
use cvc_core::plan::Plan;
use cvc_sites::install::without_package;

/// Software that a site needs, and that no package provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftwareGap {
    /// The site.
    pub site: String,
    /// Names of the software.
    pub names: Vec<String>,
    /// Whether the site's machines certainly have neither the software nor Spack. This is so for instances of a plain image.
    pub is_certain: bool,
    /// The problem.
    pub found: String,
    /// How to get the software.
    pub hint: String,
}

impl SoftwareGap {
    /// Returns the software that no package provides, for each site that is reached by ssh or consists of instances. In the order of the campaign
    /// file.
    pub fn find(spec: &Spec, plan: &Plan) -> Vec<Self> {
        let gaps = spec.sites.iter().filter_map(|(name, site)| {
            let names = match site.kind {
                SiteKind::Ssh | SiteKind::Ec2 => without_package(spec, plan, name, site),
                SiteKind::Local | SiteKind::Slurm => Vec::new(),
            };
            (!names.is_empty()).then(|| Self::of(name, site, names))
        });
        gaps.collect()
    }

    fn of(name: &str, site: &Site, names: Vec<String>) -> Self {
        let plain = site
            .ec2
            .as_ref()
            .and_then(|ec2| match &ec2.instances.image {
                Image::Known(image) if site.install.spack.is_none() => Some(image),
                _ => None,
            });
        let list = names.join(", ");
        let (has, them) = match names.len() {
            1 => ("has", "it"),
            _ => ("have", "them"),
        };
        let (found, hint) = match plain {
            Some(image) => (
                format!(
                    "{list} {has} no package, and the image {image} has no Spack to build {them}: runs would fail on paid instances"
                ),
                format!(
                    "in [sites.{name}], an image of your own with {them} (image = \"ami-...\", then app_dirs and dmtcp.prefix), or with Spack (install.spack)"
                ),
            ),
            None => (
                format!(
                    "{list} {has} no package: the machines must have {them}, or Spack to build {them}"
                ),
                format!(
                    "list installed software: cvc doctor {name} --file FILE; set its location: app_dirs, dmtcp.prefix, install.spack in [sites.{name}]"
                ),
            ),
        };
        Self {
            site: name.to_owned(),
            names,
            is_certain: plain.is_some(),
            found,
            hint,
        }
    }

    /// Describes the problem and the remedy in one text.
    pub fn describe(&self) -> String {
        format!(
            "software of the site {}: {}; hint: {}",
            self.site, self.found, self.hint
        )
    }
}
