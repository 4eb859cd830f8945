//! The lab itself: nodes come up, reach each other, and go without a trace.

use std::time::{Duration, Instant};

use cvc_testkit::{Lab, Tool, require};

fn text(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn nodes_come_up_and_reach_each_other_by_ssh() {
    require!(Tool::Lab);
    let begin = Instant::now();
    let lab = Lab::builder().nodes(4).login(true).build();
    let took = begin.elapsed();
    eprintln!("up in {took:?}");
    for from in ["login", "n1", "n4"] {
        for user in ["", "ada@"] {
            let said = lab.ssh(&format!("{user}{from}"), "for n in login n1 n2 n3 n4; do ssh -o BatchMode=yes -o StrictHostKeyChecking=yes $n hostname; done; whoami");
            let who = if user.is_empty() { "root" } else { "ada" };
            assert_eq!(text(&said), format!("login\nn1\nn2\nn3\nn4\n{who}\n"));
        }
    }
    let begin = Instant::now();
    drop(lab);
    eprintln!("gone in {:?}", begin.elapsed());
    assert!(took < Duration::from_secs(20), "{took:?}");
}
