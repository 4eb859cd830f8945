//! Tests of what a user sees who types `cvc` for the first time.

use cvc_testkit::Campaign;

fn empty() -> Campaign {
    Campaign::new(env!("CARGO_BIN_EXE_cvc"), "first", "")
}

#[test]
fn cvc_alone_says_what_to_type_and_ends_like_a_wrong_command_line() {
    let c = empty();
    let screen = c.cvc(&[]).expect(2).stdout;
    assert!(screen.lines().count() <= 10, "{screen}");
    for command in ["cvc demo", "cvc try", "cvc init", "cvc help"] {
        assert!(screen.contains(command), "{screen}");
    }
}

#[test]
fn help_explains_commands_topics_and_words_and_suggests_the_nearest() {
    let c = empty();
    for (words, expected) in [
        (&["mapping"][..], "processes on nodes"),
        (&["held-out", "point"], "kept out of fits"),
        (&["exit-codes"], "130  interrupted"),
        (&["commands"], "Run a campaign, or what remains of it"),
        (&["delta", "make"], "Usage: cvc delta make"),
        (&["image"], "Usage: cvc image"),
    ] {
        let answer = c.cvc(&[&["help"], words].concat()).expect(0).stdout;
        assert!(answer.contains(expected), "{words:?}: {answer}");
    }
    let list = c.cvc(&["help"]).expect(0).stdout;
    assert!(
        list.contains("exit-codes") && list.contains("checkpointer"),
        "{list}"
    );
    let refused = c.cvc(&["help", "maping"]).expect(2).stderr;
    assert!(
        refused.contains("did you mean `cvc help mapping`?"),
        "{refused}"
    );
}

#[test]
fn the_demo_names_packages_without_an_mpi_library_and_leaves_changed_files_alone() {
    let c = empty();
    let mut command = c.command(&["demo"]);
    let refused = command.env("PATH", c.dir()).output().expect("starts");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(5), "{message}");
    assert!(
        message.contains("make is not installed")
            && message.contains("apt-get install mpich libmpich-dev"),
        "{message}"
    );
    c.put("cvc-demo/quickstart.toml", "# mine\n");
    let refused = c.cvc(&["demo"]).expect(2).stderr;
    assert!(refused.contains("cvc run quickstart.toml"), "{refused}");
    let file = c.dir().join("cvc-demo/quickstart.toml");
    assert_eq!(std::fs::read_to_string(file).expect("a file"), "# mine\n");
}
