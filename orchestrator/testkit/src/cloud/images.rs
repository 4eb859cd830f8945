//! The cloud's images, like those of Debian, Ubuntu and Amazon: an older and a newer release of each.

use serde_json::{Value, json};

/// A series of images for one architecture.
struct ImageSeries {
    owner: &'static str,
    /// Name of an image; `{}` is replaced by the date of its release.
    name: &'static str,
    architecture: &'static str,
    root: &'static str,
    user: &'static str,
    /// Name of the Systems Manager parameter whose value is the newest image.
    parameter: &'static str,
}

const SERIES: [ImageSeries; 10] = [
    debian(
        "debian-12-amd64-{}",
        "x86_64",
        "/aws/service/debian/release/12/latest/amd64",
    ),
    debian(
        "debian-12-arm64-{}",
        "arm64",
        "/aws/service/debian/release/12/latest/arm64",
    ),
    debian(
        "debian-13-amd64-{}",
        "x86_64",
        "/aws/service/debian/release/13/latest/amd64",
    ),
    debian(
        "debian-13-arm64-{}",
        "arm64",
        "/aws/service/debian/release/13/latest/arm64",
    ),
    ubuntu(
        "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-{}",
        "x86_64",
        "/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id",
    ),
    ubuntu(
        "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-arm64-server-{}",
        "arm64",
        "/aws/service/canonical/ubuntu/server/22.04/stable/current/arm64/hvm/ebs-gp2/ami-id",
    ),
    ubuntu(
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-{}",
        "x86_64",
        "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id",
    ),
    ubuntu(
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-{}",
        "arm64",
        "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id",
    ),
    amazon(
        "al2023-ami-2023.9.{}.0-kernel-6.1-x86_64",
        "x86_64",
        "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.1-x86_64",
    ),
    amazon(
        "al2023-ami-2023.9.{}.0-kernel-6.1-arm64",
        "arm64",
        "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.1-arm64",
    ),
];

const fn debian(
    name: &'static str,
    architecture: &'static str,
    parameter: &'static str,
) -> ImageSeries {
    ImageSeries {
        owner: "136693071363",
        name,
        architecture,
        root: "/dev/xvda",
        user: "admin",
        parameter,
    }
}

const fn ubuntu(
    name: &'static str,
    architecture: &'static str,
    parameter: &'static str,
) -> ImageSeries {
    ImageSeries {
        owner: "099720109477",
        name,
        architecture,
        root: "/dev/sda1",
        user: "ubuntu",
        parameter,
    }
}

const fn amazon(
    name: &'static str,
    architecture: &'static str,
    parameter: &'static str,
) -> ImageSeries {
    ImageSeries {
        owner: "137112412989",
        name,
        architecture,
        root: "/dev/xvda",
        user: "ec2-user",
        parameter,
    }
}

/// Release dates, the older one first.
const RELEASES: [&str; 2] = ["20250210", "20260112"];

fn identity(series: usize, release: usize) -> String {
    format!("ami-0{:015x}{release}", 0xC0FF_EE00 + series)
}

/// Lists all images in moto's format.
pub(super) fn list_for_moto() -> Value {
    let all = SERIES
        .iter()
        .enumerate()
        .flat_map(|(n, series)| (0..RELEASES.len()).map(move |release| (n, series, release)));
    all.map(|(n, series, release)| {
        let date = RELEASES[release];
        let (year, month, day) = (&date[..4], &date[4..6], &date[6..]);
        let name = series.name.replace("{}", date);
        json!({
            "ami_id": identity(n, release), "state": "available", "public": true, "owner_id": series.owner,
            "image_location": format!("{}/{name}", series.owner), "sriov": "simple", "root_device_type": "ebs", "root_device_name": series.root,
            "description": name, "image_type": "machine", "platform": null, "architecture": series.architecture, "name": name,
            "virtualization_type": "hvm", "hypervisor": "xen", "creation_date": format!("{year}-{month}-{day}T06:00:00.000Z"),
        })
    })
    .collect()
}

/// Returns the value of a public parameter of the Systems Manager.
pub(super) fn find_parameter(name: &str) -> Option<String> {
    // Amazon's default kernel is an alias for this version
    let name = name.replace("kernel-default", "kernel-6.1");
    let series = SERIES.iter().position(|l| {
        l.parameter == name || l.parameter.replace("/hvm/ebs-gp2/", "/hvm/ebs-gp3/") == name
    })?;
    Some(identity(series, RELEASES.len() - 1))
}

/// Returns the user and the root device of an image.
pub(super) fn find_user_and_root(image: &str) -> (&'static str, &'static str) {
    let series = (0..SERIES.len())
        .find(|n| (0..RELEASES.len()).any(|r| identity(*n, r) == image))
        .map(|n| &SERIES[n]);
    series.map_or(("admin", "/dev/xvda"), |l| (l.user, l.root))
}

/// Returns the newest Debian image for this architecture, `x86_64` or `arm64`.
pub(super) fn find_debian(architecture: &str) -> String {
    let series = SERIES
        .iter()
        .rposition(|l| l.user == "admin" && l.architecture == architecture);
    identity(
        series.unwrap_or_else(|| panic!("the cloud has no image for {architecture}")),
        RELEASES.len() - 1,
    )
}
