//! Times of the crews of these tests.

use cvc_engine::crew::CrewSettings;

/// Of crews in the lab.
pub const IN_LAB: CrewSettings = CrewSettings {
    beat_s: 0.25,
    lost_after_s: 3.0,
    start_limit_s: 60.0,
    close_limit_s: 60.0,
};

/// Of crews whose silence a test waits for: ten beats a second, lost after 3 s.
pub const QUICK: CrewSettings = CrewSettings {
    beat_s: 0.1,
    ..IN_LAB
};
