//! Learns facts about a program from the output of one run: the line that shows success, the line that counts steps, and numbers worth recording.
//!
//! The facts are guesses based on words that programs commonly print. Each is a regular expression that matches the output it comes from; the user
//! has to confirm its meaning.

use super::descriptor::{Figure, Take};
use crate::measured::{Better, Unit};
use regex::Regex;
use std::{collections::BTreeMap, sync::LazyLock};

/// Number of bytes that are examined at the beginning and at the end of the output.
const MAX_BYTES: usize = 4 << 20;
/// Maximum length of a line that is examined; longer lines are not written for people.
const MAX_LINE: usize = 400;
/// Maximum number of figures that are proposed.
const MAX_FIGURES: usize = 6;
/// Minimum number of letters before the first number of a program's last line. With fewer letters the line is not taken as a sign of success.
const MIN_LETTERS: usize = 3;

/// Pattern of a number; numbers within words, as in `heat2d`, are excluded later.
const NUMBER: &str = r"[-+]?\d+(?:\.\d*)?(?:[eEdD][-+]?\d+)?";
/// Pattern that matches any number.
const ANY_NUMBER: &str = r"[-+.\deEdD]+";
/// Pattern that captures a decimal number as a group.
const CAPTURED: &str = r"([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)";

/// Facts learned from a run's output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learned {
    /// The line that shows a run's success.
    pub success: Option<SuccessLine>,
    /// The line that counts steps.
    pub step: Option<StepLine>,
    /// Numbers that the program prints once.
    pub figures: Vec<LearnedFigure>,
    /// Lines about the program's own checkpoints.
    pub checkpoints: Option<CheckpointLines>,
}

/// A line that the program prints only if the run was successful.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuccessLine {
    /// The regular expression.
    pub pattern: String,
    /// The line from which the regular expression was made.
    pub line: String,
    /// Whether the line confirms the result, instead of only the program's end.
    pub verifies: bool,
}

/// Lines about the program's own checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointLines {
    /// The first of these lines.
    pub line: String,
    /// The steps that the lines name, ascending; empty if they name none.
    pub steps: Vec<u64>,
    /// The regular expression whose group is the duration of each checkpoint, seconds, if printed.
    pub time_s: Option<String>,
}

/// A line that is printed at every step or at regular steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepLine {
    /// The regular expression; its group is the number of the step.
    pub pattern: String,
    /// The first of the lines.
    pub line: String,
    /// The steps, ascending.
    pub steps: Vec<u64>,
}

/// A number that is printed once.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedFigure {
    /// The figure, in the form of a descriptor.
    pub figure: Figure,
    /// The line from which the regular expression was made.
    pub line: String,
    /// The value in this run, in the figure's unit.
    pub value: f64,
}

static NUMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(NUMBER).ok());
static VERIFIES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:verif\w*|valid\w*|check\w*|results?|test\w*|accuracy|solution|answer)\b.*\b(?:success\w*|pass(?:ed|es)?|ok(?:ay)?|correct|valid|verified|right)\b|\bverified\b|\bverification\s+succe\w+|\bpassed\b|\bsuccess(?:ful(?:ly)?)?\b|(?-i:\bCORRECT\b)|[:=]\s*(?:correct|right|valid|ok(?:ay)?)\s*[.!]?\s*$")
        .ok()
});
static ENDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:converged|complet(?:ed|e|ion)|finish(?:ed)?|done|normal(?:ly)?\s+(?:termination|terminated|end)|all\s+done|end\s+of\s+(?:run|simulation|program|job|execution)|terminated\s+normally|bye)\b").ok()
});
static DENIES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:fail\w*|error:|errors?\s+(?:occur|found)|unsuccess\w*|incorrect|invalid|wrong|abort\w*|warn\w*|not\s+\w+|unverified|no)\b").ok()
});
static STEP_WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:time[ _-]?step|step|iter\w*|it|cycle|epoch|sweep|generation|loop|timestep|nstep|istep|ncycle)\b").ok()
});

static CHECKPOINT_WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:checkpoint\w*|ckpt\w*|chkpt\w*|restart file|snapshot)\b").ok()
});

fn matches(regex: &Option<Regex>, text: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// Part of a line: literal text, or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Number(&'a str),
}

/// Divides a line into text and numbers.
fn pieces(line: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for found in NUMBERS.iter().flat_map(|regex| regex.find_iter(line)) {
        let before = line[..found.start()].chars().next_back();
        let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        // `3D` and `2nd` begin words, `3.2s` does not
        let after = line[found.end()..].chars().next();
        let begins_word = found.as_str().bytes().all(|b| b.is_ascii_digit())
            && after.is_some_and(|c| c.is_alphabetic() || c == '_');
        if in_word || begins_word {
            continue;
        }
        if found.start() > from {
            pieces.push(Piece::Text(&line[from..found.start()]));
        }
        pieces.push(Piece::Number(found.as_str()));
        from = found.end();
    }
    if from < line.len() {
        pieces.push(Piece::Text(&line[from..]));
    }
    pieces
}

/// Returns a text that is equal for all lines that differ only in their numbers and white space.
fn template(pieces: &[Piece<'_>]) -> String {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(words) => {
                text.push_str(&words.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            Piece::Number(_) => text.push('\0'),
        }
    }
    text
}

/// Returns a regular expression that matches a text, with any amount of white space where the text has some.
fn literal(text: &str) -> String {
    let mut pattern = String::new();
    let mut words = text.split_whitespace().peekable();
    if text.starts_with(char::is_whitespace) {
        pattern.push_str(r"\s*");
    }
    while let Some(word) = words.next() {
        pattern.push_str(&regex::escape(word));
        if words.peek().is_some() {
            pattern.push_str(r"\s+");
        }
    }
    if text.ends_with(char::is_whitespace) && !text.trim().is_empty() {
        pattern.push_str(r"\s*");
    }
    pattern
}

/// Returns a regular expression that matches a line whose beginning consists of these pieces. `group` is the position of the number to capture, and
/// the pattern that captures it; all other numbers match any number.
fn pattern_of(pieces: &[Piece<'_>], group: Option<(usize, &str)>) -> String {
    let mut pattern = String::from(r"^\s*");
    for (place, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) => {
                let text = if place == 0 { text.trim_start() } else { text };
                pattern.push_str(&literal(text));
            }
            Piece::Number(_) => match group {
                Some((at, captured)) if at == place => pattern.push_str(captured),
                Some(_) | None => pattern.push_str(ANY_NUMBER),
            },
        }
    }
    pattern
}

/// Compiles a regular expression as it is compiled for descriptors: `^` and `$` match at every line.
fn compile(pattern: &str) -> Option<Regex> {
    Regex::new(&format!("(?m){pattern}")).ok()
}

/// Returns the lines to examine: those in the first and the last [`MAX_BYTES`] of an output.
fn looked_at(output: &str) -> impl Iterator<Item = &str> {
    let (mut head, mut tail) = (
        output.len().min(MAX_BYTES),
        output.len().saturating_sub(MAX_BYTES),
    );
    if tail < head {
        (head, tail) = (output.len(), output.len());
    }
    while !output.is_char_boundary(head) {
        head -= 1;
    }
    while !output.is_char_boundary(tail) {
        tail += 1;
    }
    output[..head]
        .lines()
        .chain(output[tail..].lines())
        .filter(|line| !line.trim().is_empty() && line.len() <= MAX_LINE)
}

/// Learns from both streams of one run. Facts that are not found in standard output are searched for in standard error. The last line of standard
/// error does not count as a sign of success, because launchers print it.
pub fn learn_both(stdout: &str, stderr: &str) -> Learned {
    let (mut learned, other) = (learn(stdout), learn(stderr));
    let is_surer = |found: &SuccessLine| {
        let own = learned.success.as_ref();
        match found.verifies {
            true => own.is_none_or(|own| !own.verifies),
            false => own.is_none() && matches(&ENDS, &found.line),
        }
    };
    if let Some(found) = other.success.filter(is_surer) {
        learned.success = Some(found);
    }
    learned.step = learned.step.or(other.step);
    learned.checkpoints = learned.checkpoints.or(other.checkpoints);
    if learned.figures.is_empty() {
        learned.figures = other.figures;
    }
    learned
}

/// Learns from one stream of one run.
pub fn learn(output: &str) -> Learned {
    let lines: Vec<(&str, Vec<Piece<'_>>)> =
        looked_at(output).map(|line| (line, pieces(line))).collect();
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, (_, pieces)) in lines.iter().enumerate() {
        alike.entry(template(pieces)).or_default().push(number);
    }
    let step = find_step(output, &lines, &alike);
    let is_step = |line: &str| {
        step.as_ref()
            .and_then(|step| compile(&step.pattern))
            .is_some_and(|regex| regex.is_match(line))
    };
    let once: Vec<&(&str, Vec<Piece<'_>>)> = lines
        .iter()
        .filter(|(line, pieces)| {
            alike.get(&template(pieces)).is_some_and(|of| of.len() == 1) && !is_step(line)
        })
        .collect();
    Learned {
        success: find_success(output, &lines, &is_step),
        figures: find_figures(output, &once),
        checkpoints: find_checkpoints(output, &lines, &alike),
        step,
    }
}

/// Why a regular expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternProblem {
    /// The regular expression is invalid.
    #[error("the regular expression does not compile: {0}")]
    Syntax(String),
    /// The regular expression does not have exactly one group.
    #[error(
        "the regular expression has {0} groups instead of one: put (parentheses) around the number"
    )]
    Groups(usize),
    /// No line matches.
    #[error("it is not found in the output of this run")]
    NotFound,
    /// The group matches text that is not a number.
    #[error("its group is not a number everywhere")]
    NoNumber,
}

/// Counts the matches of a regular expression in an output, and checks that it is usable: it needs one group, and if `is_number` each match must be a
/// number.
///
/// # Errors
/// The regular expression is not usable.
pub fn try_pattern(pattern: &str, is_number: bool, output: &str) -> Result<usize, PatternProblem> {
    let regex = Regex::new(&format!("(?m){pattern}")).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        PatternProblem::Syntax(last.trim_start_matches("error: ").to_owned())
    })?;
    if is_number && regex.captures_len() != 2 {
        return Err(PatternProblem::Groups(regex.captures_len() - 1));
    }
    let found = regex.find_iter(output).count();
    if found == 0 {
        return Err(PatternProblem::NotFound);
    }
    let is_wrong = |captures: regex::Captures<'_>| {
        captures
            .get(1)
            .is_none_or(|group| group.as_str().trim().parse::<f64>().is_err())
    };
    if is_number && regex.captures_iter(output).any(is_wrong) {
        return Err(PatternProblem::NoNumber);
    }
    Ok(found)
}

/// Returns the steps that a regular expression finds, ascending and each once; empty if its group matches no whole number.
pub fn steps_of(pattern: &str, output: &str) -> Vec<u64> {
    let Some(regex) = compile(pattern) else {
        return Vec::new();
    };
    let mut steps: Vec<u64> = regex
        .captures_iter(output)
        .filter_map(|captures| captures.get(1)?.as_str().trim().parse().ok())
        .collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// Finds lines that differ only in numbers, and whose number at one position ascends from line to line: this number is the step.
fn find_step(
    output: &str,
    lines: &[(&str, Vec<Piece<'_>>)],
    alike: &BTreeMap<String, Vec<usize>>,
) -> Option<StepLine> {
    let mut best: Option<(u8, usize, StepLine)> = None;
    for members in alike.values().filter(|members| members.len() >= 2) {
        let (line, first) = &lines[members[0]];
        for (place, _) in first
            .iter()
            .enumerate()
            .filter(|(_, piece)| matches!(piece, Piece::Number(_)))
        {
            let values: Option<Vec<u64>> = members
                .iter()
                .map(|member| match lines[*member].1.get(place) {
                    Some(Piece::Number(number)) => number.parse().ok(),
                    Some(Piece::Text(_)) | None => None,
                })
                .collect();
            let Some(mut values) = values else { continue };
            // several ranks may print the same step
            let ascends = values.is_sorted();
            values.dedup();
            let before = match place.checked_sub(1).map(|before| &first[before]) {
                Some(Piece::Text(text)) => text,
                Some(Piece::Number(_)) | None => "",
            };
            let is_named = matches(&STEP_WORDS, before);
            if !ascends || values.len() < if is_named { 2 } else { 3 } {
                continue;
            }
            let letters = first[..place].iter().any(
                |piece| matches!(piece, Piece::Text(text) if text.chars().any(char::is_alphabetic)),
            );
            // if no word precedes the number, the rest of the line identifies it
            let pieces = if letters {
                &first[..=place]
            } else {
                &first[..]
            };
            let end = if letters { r"\b" } else { r"\s*$" };
            let pattern = pattern_of(pieces, Some((place, r"(\d+)"))) + end;
            let steps = steps_of(&pattern, output);
            let count = compile(&pattern).map_or(0, |regex| regex.find_iter(output).count());
            // a regular expression that also finds other lines would count wrongly
            if steps != values || count != members.len() {
                continue;
            }
            let score = 2 * u8::from(is_named) + u8::from(values.len() >= 3);
            let found = StepLine {
                pattern,
                line: line.trim().to_owned(),
                steps,
            };
            if best
                .as_ref()
                .is_none_or(|(s, n, _)| (score, values.len()) > (*s, *n))
            {
                best = Some((score, values.len(), found));
            }
            break;
        }
    }
    best.map(|(_, _, step)| step)
}

/// Returns the line that announces success most clearly; of several, the last. Lines before the first step are ignored, because the result is not
/// known at that point.
fn find_success(
    output: &str,
    lines: &[(&str, Vec<Piece<'_>>)],
    is_step: &impl Fn(&str) -> bool,
) -> Option<SuccessLine> {
    let first_step = lines.iter().position(|(line, _)| is_step(line));
    let (early, late) = lines.split_at(first_step.unwrap_or_default());
    let make = |line: &str, part: &str, verifies: bool| {
        let pieces = pieces(part);
        let pattern = pattern_of(&pieces, None);
        let regex = compile(&pattern)?;
        let is_early = early.iter().any(|(line, _)| regex.is_match(line));
        let counts_steps = late
            .iter()
            .any(|(line, _)| is_step(line) && regex.is_match(line));
        (regex.is_match(output) && !is_early && !counts_steps).then(|| SuccessLine {
            pattern,
            line: line.trim().to_owned(),
            verifies,
        })
    };
    for (words, verifies) in [(&*VERIFIES, true), (&*ENDS, false)] {
        let telling = late
            .iter()
            .rev()
            .filter(|(line, _)| matches(words, line) && !matches(&DENIES, line) && !is_step(line));
        for (line, _) in telling {
            // the text after the last known word differs between runs: times, dates, names of machines
            let end = words
                .as_ref()
                .and_then(|regex| regex.find_iter(line).last())
                .map_or(line.len(), |found| found.end());
            if let Some(found) = make(line, line[..end].trim_end(), verifies) {
                return Some(found);
            }
        }
    }
    let (line, pieces) = late
        .last()
        .filter(|(line, pieces)| !is_step(line) && !matches(&DENIES, line) && shows_end(pieces))?;
    let Some(Piece::Text(text)) = pieces.first() else {
        return None;
    };
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    (letters >= MIN_LETTERS)
        .then(|| make(line, text, false))
        .flatten()
}

/// Returns whether a program's last line only shows that the program ended: it has no number, or only times and rates. Any other number may be a
/// result, and a word after it a verdict; the last line of a run with a wrong result would then begin with the same text.
fn shows_end(pieces: &[Piece<'_>]) -> bool {
    let mut has_unit = false;
    for (place, piece) in pieces.iter().enumerate() {
        if let Piece::Text(text) = piece {
            has_unit |= words(text).any(|word| unit_of(word).is_some());
            let is_other =
                |word: &str| word.chars().any(char::is_alphabetic) && unit_of(word).is_none();
            if place > 0 && words(text).any(is_other) {
                return false;
            }
        }
    }
    has_unit || pieces.len() <= 1
}

/// Finds lines about checkpoints that differ only in their numbers, and returns the steps and seconds in them.
fn find_checkpoints(
    output: &str,
    lines: &[(&str, Vec<Piece<'_>>)],
    alike: &BTreeMap<String, Vec<usize>>,
) -> Option<CheckpointLines> {
    // lines that are printed once announce later output
    let members = alike
        .values()
        .filter(|members| matches(&CHECKPOINT_WORDS, lines[members[0]].0))
        .max_by_key(|members| (members.len(), members[0]))?;
    let (line, first) = &lines[members[0]];
    let text = |at: Option<usize>| match at.and_then(|at| first.get(at)) {
        Some(Piece::Text(text)) => *text,
        Some(Piece::Number(_)) | None => "",
    };
    let numbers = |place: &usize| matches!(first[*place], Piece::Number(_));
    let is_seconds = |place: &usize| {
        let unit = words(text(Some(place + 1))).next().and_then(unit_of);
        let unit = unit.or_else(|| words(text(place.checked_sub(1))).filter_map(unit_of).last());
        unit.is_some_and(|(unit, scale, _)| unit == Unit::Seconds && scale == 1.0)
    };
    let time_s = (0..first.len())
        .filter(numbers)
        .find(is_seconds)
        .map(|place| pattern_of(&first[..=place], Some((place, CAPTURED))))
        .filter(|pattern| try_pattern(pattern, true, output) == Ok(members.len()));
    let is_step = |place: &usize| matches(&STEP_WORDS, text(place.checked_sub(1)));
    let step = (0..first.len()).filter(numbers).find(is_step);
    let mut steps: Vec<u64> = members
        .iter()
        .filter_map(|member| match lines[*member].1.get(step?) {
            Some(Piece::Number(number)) => number.parse().ok(),
            Some(Piece::Text(_)) | None => None,
        })
        .collect();
    steps.sort_unstable();
    steps.dedup();
    Some(CheckpointLines {
        line: line.trim().to_owned(),
        steps,
        time_s,
    })
}

/// Returns the unit that a printed word stands for, the factor from the printed number to this unit, and which direction is better. `None` if the
/// word is no unit.
fn unit_of(word: &str) -> Option<(Unit, f64, Better)> {
    let rate = |unit, scale| Some((unit, scale, Better::Higher));
    match word.to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" => Some((Unit::Seconds, 1.0, Better::Lower)),
        "ms" | "msec" | "milliseconds" => Some((Unit::Seconds, 1e-3, Better::Lower)),
        "mop/s" | "mops" | "mflop/s" | "mflops" | "mflops/s" => rate(Unit::MopPerSecond, 1.0),
        "gop/s" | "gops" | "gflop/s" | "gflops" | "gflops/s" => rate(Unit::MopPerSecond, 1e3),
        "mib/s" => rate(Unit::MibPerSecond, 1.0),
        "gib/s" => rate(Unit::MibPerSecond, 1024.0),
        "mb/s" => rate(Unit::MibPerSecond, 1e6 / 1_048_576.0),
        "gb/s" => rate(Unit::MibPerSecond, 1e9 / 1_048_576.0),
        _ => None,
    }
}

/// Returns the words of a text, without the punctuation around them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "=:,;()[]{}|*#<>\"'".contains(c))
        .map(|word| word.trim_matches(['.', '-', '_']))
        .filter(|word| !word.is_empty())
}

/// Finds times and rates with their units.
fn find_figures(output: &str, once: &[&(&str, Vec<Piece<'_>>)]) -> Vec<LearnedFigure> {
    let mut figures: Vec<LearnedFigure> = Vec::new();
    for (line, pieces) in once {
        for (place, piece) in pieces.iter().enumerate() {
            let Piece::Number(number) = piece else {
                continue;
            };
            let text = |at: Option<usize>| match at.and_then(|at| pieces.get(at)) {
                Some(Piece::Text(text)) => *text,
                Some(Piece::Number(_)) | None => "",
            };
            let (label, after) = (text(place.checked_sub(1)), text(Some(place + 1)));
            // the unit follows the number (`12.3 s`, `12.3s`, `12.3 [s]`) or precedes it (`Time in seconds = 12.3`; the last unit counts)
            let behind = words(after).next().and_then(unit_of);
            let Some((unit, scale, better)) =
                behind.or_else(|| words(label).filter_map(unit_of).last())
            else {
                continue;
            };
            let has_label = label.chars().filter(|c| c.is_alphabetic()).count() >= 2;
            let Some(value) = number.parse::<f64>().ok().filter(|v| v.is_finite()) else {
                continue;
            };
            let pattern = pattern_of(&pieces[..=place], Some((place, CAPTURED)));
            if !has_label || try_pattern(&pattern, true, output) != Ok(1) {
                continue;
            }
            let name = name_of(label, unit, &figures);
            figures.push(LearnedFigure {
                figure: Figure {
                    name,
                    pattern,
                    unit,
                    better,
                    scale,
                    take: Take::Last,
                    required: false,
                },
                line: line.trim().to_owned(),
                value: value * scale,
            });
            if figures.len() == MAX_FIGURES {
                return figures;
            }
        }
    }
    figures
}

/// Returns a name for a figure, made from the words before its number and from its unit. The name differs from those of `others` and of cvc's own
/// records.
fn name_of(label: &str, unit: Unit, others: &[LearnedFigure]) -> String {
    let (suffix, alone) = match unit {
        Unit::Seconds => ("_s", "time"),
        Unit::MibPerSecond => ("_mib_s", "rate"),
        _ => ("_mop_s", "rate"),
    };
    let said: Vec<String> = words(label)
        .filter(|word| unit_of(word).is_none() && !["in", "of", "the", "is", "was"].contains(word))
        .map(|word| {
            word.to_lowercase()
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
                .collect()
        })
        .collect();
    let said = said[said.len().saturating_sub(3)..].join("_");
    let said = said.trim_matches('_');
    let begins = said.starts_with(|c: char| c.is_ascii_lowercase());
    let base = if begins { said } else { alone };
    // `wall_s`, the time of the whole run, is a record of cvc
    let base = if base == "wall" { "printed_wall" } else { base };
    let mut name = format!("{base}{suffix}");
    let mut number = 2;
    while others.iter().any(|other| other.figure.name == name) {
        name = format!("{base}_{number}{suffix}");
        number += 1;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::{learn, learn_both, try_pattern};
    use crate::measured::Unit;

    const HEAT: &str = " heat2d: 3000 x 3000, 2 processes\n iter      20  residual  0.1234E-01\n iter      40  residual  0.9E-02\n iter      60  residual  0.7E-02\n elapsed time:    12.34 s\n update rate =  345.6 Mop/s\n result check: PASSED (1.2E-07)\n";

    #[test]
    fn success_steps_and_figures_are_found() {
        let learned = learn(HEAT);
        let success = learned.success.expect("a line");
        assert_eq!(
            (success.pattern.as_str(), success.verifies),
            (r"^\s*result\s+check:\s+PASSED", true)
        );
        let step = learned.step.expect("steps");
        assert_eq!(
            (step.pattern.as_str(), step.steps.as_slice()),
            (r"^\s*iter\s*(\d+)\b", &[20, 40, 60][..])
        );
        let figures: Vec<_> = learned
            .figures
            .iter()
            .map(|f| (f.figure.name.as_str(), f.figure.unit, f.value))
            .collect();
        assert_eq!(
            figures,
            [
                ("elapsed_time_s", Unit::Seconds, 12.34),
                ("update_rate_mop_s", Unit::MopPerSecond, 345.6)
            ]
        );
        for figure in &learned.figures {
            assert_eq!(try_pattern(&figure.figure.pattern, true, HEAT), Ok(1));
        }
    }

    #[test]
    fn the_output_of_nas_programs_is_understood() {
        let text = " NAS Parallel Benchmarks 3.4 -- BT Benchmark\n\n Size:   12x  12x  12\n Iterations:   60    dt:   0.0100000\n\n Time step    1\n Time step   20\n Time step   40\n Time step   60\n Verification being performed for class S\n accuracy setting for epsilon =  0.1000000000000E-07\n Verification Successful\n\n Time in seconds =                     0.05\n Mop/s total     =                  4318.01\n Verification    =               SUCCESSFUL\n";
        let learned = learn(text);
        assert_eq!(
            learned.success.expect("a line").pattern,
            r"^\s*Verification\s+=\s+SUCCESSFUL"
        );
        assert_eq!(learned.step.expect("steps").steps, [1, 20, 40, 60]);
        let names: Vec<_> = learned
            .figures
            .iter()
            .map(|f| f.figure.name.as_str())
            .collect();
        assert_eq!(names, ["time_s", "total_mop_s"]);
    }

    #[test]
    fn lines_that_deny_success_or_say_nothing_are_not_taken_for_it() {
        let failed = learn("step 1\nstep 2\nresult check: FAILED\n");
        assert_eq!(failed.success, None);
        let ended = learn("value 1.0\nRun finished on node7 at Wed Nov 25 22:00:01 2026\n");
        let success = ended.success.expect("a line");
        assert_eq!(
            (success.pattern.as_str(), success.verifies),
            (r"^\s*Run\s+finished", false)
        );
        assert_eq!(learn("").success, None);
        assert_eq!(learn("1 2 3\n").success, None);
    }

    #[test]
    fn a_table_of_numbers_has_its_steps_in_the_column_that_ascends() {
        let learned = learn(
            "  step   energy\n  10  -1.5\n  20  -1.75\n  30  -1.5\nLoop time of 1.5 on 4 procs\n",
        );
        let step = learned.step.expect("steps");
        assert_eq!(step.steps, [10, 20, 30], "{step:?}");
        // counters that do not ascend are not steps
        assert_eq!(
            learn("rank 3 ready\nrank 1 ready\nrank 2 ready\n").step,
            None
        );
    }

    #[test]
    fn patterns_of_users_are_tried() {
        assert_eq!(try_pattern(r"^ iter\s+(\d+)", true, HEAT), Ok(3));
        for (pattern, part) in [
            ("(", "does not compile"),
            (r"iter\s+\d+", "0 groups"),
            (r"cycle (\d+)", "not found"),
            (r"result (\w+)", "not a number"),
        ] {
            let refused = try_pattern(pattern, true, HEAT)
                .expect_err(pattern)
                .to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn any_output_is_survived() {
        for text in [
            "\0\u{1}\n",
            "é 3é\n3\u{301}\n",
            "((((\n[[[[ 5 s\n",
            "-.5e s\n+ 1e999 s\nx 1e999 s",
        ] {
            learn(text);
        }
    }

    #[test]
    fn the_word_is_the_evidence_and_not_the_number() {
        let learned = learn("step 1\nstep 2\nstep 3\nsum 259231.6, exact 259231.6: CORRECT\n");
        let success = learned.success.expect("a line");
        assert!(success.verifies, "{success:?}");
        let of = |line: &str| try_pattern(&success.pattern, false, line).is_ok();
        assert!(of("sum 2.5e9, exact 259231.6: CORRECT"), "{success:?}");
        assert!(!of("sum 1.5, exact 259231.6: WRONG") && !of("sum nan, exact 1: CORRECT"));
        // without the word a wrong result could not be distinguished
        for last in [
            "sum 259231.6",
            "sum 259231.6, exact 259231.6: agrees",
            "norm = 3 of 4 modes",
        ] {
            let learned = learn(&format!("step 1\nstep 2\nstep 3\n{last}\n"));
            assert_eq!(learned.success, None, "{last}");
        }
        let ended = learn("step 1\nstep 2\nstep 3\nTotal time: 12.5 s\n");
        assert_eq!(
            ended.success.expect("a line").pattern,
            r"^\s*Total\s+time:\s*"
        );
    }

    #[test]
    fn a_line_before_the_first_step_is_no_evidence_of_the_end() {
        for early in ["input check: ok", "setup complete", "initialisation done"] {
            let learned = learn(&format!("{early}\nstep 1\nstep 2\nstep 3\n"));
            assert_eq!(learned.success, None, "{early}");
        }
        let twice = learn("phase done\nstep 1\nstep 2\nstep 3\nphase done\n");
        assert_eq!(
            twice.success, None,
            "it is printed at the beginning as well"
        );
    }

    #[test]
    fn a_pattern_is_found_on_either_stream() {
        let learned = learn_both("", HEAT);
        assert_eq!(learned.step.expect("steps").steps, [20, 40, 60]);
        assert!(learned.success.is_some_and(|line| line.verifies));
        assert_eq!(learned.figures.len(), 2);
        let split = learn_both("step 1\nstep 2\nstep 3\n", "result check: PASSED\n");
        assert!(split.success.is_some_and(|line| line.verifies) && split.step.is_some());
        let launcher = learn_both("", "mpirun has exited\n");
        assert_eq!(launcher.success, None, "a launcher's last word");
    }

    #[test]
    fn lines_about_checkpoints_have_steps_and_seconds() {
        let learned = learn(
            "checkpoint every 100 steps\nstep 50\nstep 100\ncheckpoint after step 100: 0.02 s\nstep 150\nstep 200\ncheckpoint after step 200: 0.03 s\n",
        );
        let lines = learned.checkpoints.expect("lines");
        assert_eq!(lines.steps, [100, 200]);
        let time = lines.time_s.expect("seconds");
        assert_eq!(
            try_pattern(&time, true, "checkpoint after step 9: 1.5 s"),
            Ok(1)
        );
        assert_eq!(learn(HEAT).checkpoints, None);
    }
}
