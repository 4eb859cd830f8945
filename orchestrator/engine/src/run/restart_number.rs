//! The number of a restart of a run, and the names of its files.

/// One of a run's successive restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartNumber {
    /// Number of the restart, from 1.
    pub number: u32,
    /// Total number of restarts.
    pub of: u32,
}

impl RestartNumber {
    /// Returns whether this restart runs to the program's end.
    pub fn is_last(self) -> bool {
        self.number >= self.of
    }

    /// Returns the prefix of the restart's files: `restart` for the last restart, `restart-NUMBER` for earlier ones.
    pub fn stem(self) -> String {
        if self.is_last() {
            "restart".to_owned()
        } else {
            format!("restart-{}", self.number)
        }
    }

    /// Returns the name of the restart's file with this suffix, in the run's directory.
    pub fn file(self, suffix: &str) -> String {
        format!("{}.{suffix}", self.stem())
    }

    /// Returns a text that names the restart in messages, with its number if there are several.
    pub fn describe(self) -> String {
        if self.of > 1 {
            format!("restart {} of {}", self.number, self.of)
        } else {
            "the restart".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_restart_has_the_names_of_a_single_one() {
        let of = |number, of| RestartNumber { number, of };
        assert_eq!(of(1, 1).file("stdout"), "restart.stdout");
        assert_eq!(of(3, 3).file("sh"), "restart.sh");
        assert_eq!(of(2, 3).file("exit.json"), "restart-2.exit.json");
        assert_eq!(
            [of(1, 1), of(2, 3)].map(RestartNumber::describe),
            ["the restart", "restart 2 of 3"]
        );
    }
}
