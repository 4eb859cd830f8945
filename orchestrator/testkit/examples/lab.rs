//! Starts a shell on the laptop of a lab, to explore it by hand: `cargo run -p cvc-testkit --example lab [NODES] [login]`, then `ssh n1`.

use cvc_testkit::Lab;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let nodes = arguments.first().and_then(|a| a.parse().ok()).unwrap_or(4);
    let lab = Lab::builder()
        .nodes(nodes)
        .login(arguments.iter().any(|a| a == "login"))
        .build();
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let _ = lab.command(shell).status();
}
