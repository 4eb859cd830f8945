//! Starts a shell on the laptop of a lab with a cloud, to try programs by hand: `cargo run -p cvc-testkit --example cloud -- [NODES]`. NODES is the
//! number of nodes of the lab in addition to the instances of the cloud (0 by default).

#![expect(clippy::print_stdout, reason = "an example tells what it made")]

use cvc_testkit::{Cloud, Lab};

fn main() {
    let nodes = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(0);
    let lab = Lab::builder().nodes(nodes).build();
    let cloud = Cloud::start(&lab);
    for (name, value) in cloud.environment() {
        println!("{name}={value}");
    }
    println!("newest Debian image: {}", cloud.image("x86_64"));
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let _ = lab.command(shell).envs(cloud.environment()).status();
    println!("left in the cloud:\n{}", cloud.alive());
}
