//! Tests of modules and of a prologue before launchers, on this machine.

use crate::common::{SITE, campaign};
use cvc_testkit::{Campaign, Tool, campaign::read_json, require};
use std::{fs, process::Command};

/// A login shell with a command `module` and one module `tools/1`, which provides a program.
const PROFILE: &str = r#"
module() {
    [ "$1" = load ] || return 1
    [ "$2" = tools/1 ] || { echo "ERROR: Unable to locate a modulefile for '$2'" >&2; return 1; }
    case ":$PATH:" in *":$HOME/tools:"*) ;; *) export PATH="$HOME/tools:$PATH" ;; esac
    export LOADED="$2"
}
"#;

/// Returns a campaign of a user with such a shell, and a site with this environment. The module provides the application's program.
fn campaign_with(name: &str, environment: &str) -> Campaign {
    let text = format!(
        "{SITE}{environment}\n[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 1\nretries = 0\n"
    );
    let mut c = campaign(name, &text);
    let script = "sleep 0.1\necho \"has $LOADED $FROM_FILE $(ulimit -n) in $(pwd)\"\necho SUCCESS";
    c.script_app("script", script, "");
    c.put("home/.bash_profile", PROFILE);
    // the program is a link to a shell, with a name that exists nowhere else
    let shell = c.put("home/tools/placeholder", "");
    let link = shell.with_file_name("shell-of-the-module");
    std::os::unix::fs::symlink("/bin/sh", link).expect("links");
    let descriptor = c.dir().join("apps/script.toml");
    let written = fs::read_to_string(&descriptor).expect("the descriptor");
    fs::write(
        &descriptor,
        written.replace("[\"sh\"]", "[\"shell-of-the-module\"]"),
    )
    .expect("writes");
    c.put("env.sh", "export FROM_FILE='two words'\nsleep 1\n");
    let home = c.dir().join("home").display().to_string();
    c.env("HOME", &home);
    c
}

#[test]
fn modules_and_lines_come_before_the_launcher_and_do_not_count_as_its_time() {
    require!(Tool::Mpich);
    let c = campaign_with(
        "environment",
        "[sites.local.environment]\nmodules = [\"tools/1\"]\nprologue = [\"source env.sh\", \"ulimit -n 777\"]",
    );
    c.run().expect(0);
    let run = c.run_names().into_iter().next().expect("a run");
    let dir = c.run_dir(&run);
    let stdout = fs::read_to_string(dir.join("stdout")).expect("output");
    assert!(stdout.contains("has tools/1 two words 777 in "), "{stdout}");
    let wall_s = c
        .records(&run)
        .iter()
        .find(|record| record["name"] == "wall_s")
        .and_then(|record| record["value"].as_f64())
        .expect("a wall time");
    let exit = read_json(&dir.join("exit.json"));
    let whole_s = exit["wall_s"].as_f64().expect("a time");
    // the sourced file sleeps for a second
    assert!(
        whole_s >= 1.0 && wall_s <= whole_s - 1.0,
        "{wall_s} of {whole_s}"
    );
    let described = read_json(&dir.join("run.json"));
    assert_eq!(
        described["environment"]["modules"][0], "tools/1",
        "{described}"
    );
    // repeat the run by its script, from another directory
    let by_hand = Command::new("timeout")
        .args(["-s", "KILL", "60", "bash"])
        .arg(dir.join("launch.sh"))
        .current_dir("/")
        .output()
        .expect("bash");
    let text = String::from_utf8_lossy(&by_hand.stdout);
    assert!(
        by_hand.status.success() && text.contains("has tools/1 two words 777"),
        "{by_hand:?}"
    );
}

#[test]
fn a_module_that_is_not_there_leaves_its_points_out_in_its_own_words() {
    require!(Tool::Mpich);
    let c = campaign_with("no-module", "environment = { modules = [\"tools/2\"] }");
    let output = c.run().expect(10);
    let text = format!("{}{}", output.stdout, output.stderr).replace('\n', " ");
    assert!(
        text.contains("Unable to locate a modulefile for 'tools/2'"),
        "{text}"
    );
    assert!(c.run_names().is_empty());
}

#[test]
fn a_line_that_fails_ends_the_attempt_in_its_own_words() {
    require!(Tool::Mpich);
    // the command succeeds while the site is queried, which is before the first run
    let line = "if [ -n \"${CVC_RUN:-}\" ]; then echo the licence server is away >&2; false; fi";
    let lines = format!(
        "[sites.local.environment]\nmodules = ['tools/1']\nprologue = ['{line}', 'touch reached']"
    );
    let c = campaign_with("line-fails", &lines);
    c.run().expect(10);
    let failures = c.failures();
    let [(cause, detail)] = failures.as_slice() else {
        panic!("{failures:?}")
    };
    assert_eq!(cause, "launch", "{detail}");
    assert!(
        detail.contains("the environment could not be set up")
            && detail.contains("the licence server is away"),
        "{detail}"
    );
    // the site's query reached the next line, the run did not
    assert!(c.dir().join("reached").exists());
}
