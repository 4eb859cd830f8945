//! Checks whether files have the sizes that their program reports: on a full disk, an MPI library may report success although only half of a file was
//! written.

use crate::{
    crew,
    run::{RunContext, RunError, RunFailure, SOON, files, patterns, patterns_below},
};
use camino::Utf8Path;
use cvc_core::app::descriptor::{Descriptor, OutputFiles, Take};
use cvc_core::outcome::Cause;
use cvc_core::point::Point;
use cvc_probe::sentinel::{self, FileFound, MountSpace, SentinelAnswer, SentinelRequest};
use std::ops::RangeInclusive;

/// The files found for one output in the descriptor, and the free space of the disks.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) claim: OutputFiles,
    /// Patterns that were searched.
    patterns: Vec<String>,
    found: Vec<(String, FileFound)>,
    free: Vec<(String, MountSpace)>,
}

/// Finds files that match these patterns, for an ended run whose working directory was kept on this machine.
pub(super) fn found_below(
    app: &Descriptor,
    point: &Point,
    work: &Utf8Path,
    templates: &[String],
) -> Result<Vec<(String, FileFound)>, RunError> {
    let patterns = patterns_below(app, point, work, templates)?;
    let request = SentinelRequest::Globs {
        dir: work.into(),
        patterns,
    };
    match sentinel::answer(&request) {
        Ok(SentinelAnswer::Globs(files)) => Ok(files
            .into_iter()
            .map(|file| ("localhost".to_owned(), file))
            .collect()),
        Ok(other) => Err(RunError::Broken(format!("{other:?} answers {request:?}"))),
        Err(problem) => Err(RunError::Descriptor {
            app: app.name.clone(),
            problem: problem.to_string(),
        }),
    }
}

/// Finds the files that the program should write according to the descriptor.
pub(super) async fn find_outputs(run: &RunContext) -> Result<Vec<Outputs>, RunError> {
    let mut all = Vec::new();
    if run.used.has_lost_files() {
        return Ok(all);
    }
    for claim in &run.app.outputs {
        let patterns = patterns(run, &claim.files)?;
        let used = &run.used;
        let found = files(run, &patterns).await?;
        let places = crew::whole(
            used.crew
                .free(&used.places(), &[run.work.clone().into()], SOON)
                .await,
        )?;
        let free = places
            .into_iter()
            .filter_map(|(node, spaces)| Some((node, spaces.into_iter().next()?)))
            .collect();
        all.push(Outputs {
            claim: claim.clone(),
            patterns,
            found,
            free,
        });
    }
    Ok(all)
}

/// Returns the range of bytes that a printed number may mean, by its number of decimals: `419.43` with the scale 10⁶ is 419.425 to 419.435 million
/// bytes.
fn claimed(printed: &str, scale: f64) -> Option<RangeInclusive<u64>> {
    let value: f64 = printed.parse().ok()?;
    let (mantissa, exponent) = printed
        .split_once(['e', 'E', 'd', 'D'])
        .unwrap_or((printed, "0"));
    let decimals = mantissa.split_once('.').map_or(0, |(_, d)| d.len());
    let unit = 10f64.powi(
        exponent
            .parse::<i32>()
            .ok()?
            .checked_sub(i32::try_from(decimals).ok()?)?,
    ) * scale;
    let bytes = value * scale;
    // a whole number of bytes is exact
    let slack = if unit <= 1.0 { 0.0 } else { unit / 2.0 };
    if !(0.0..=9e15).contains(&bytes) {
        return None;
    }
    let (low, high) = ((bytes - slack).max(0.0).round(), (bytes + slack).round());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 10^16"
    )]
    Some(low as u64..=high as u64)
}

/// Selects or sums the ranges of bytes that the program reports as written; `printed` is in the order of the output.
fn taken(take: Take, printed: &[RangeInclusive<u64>]) -> Option<RangeInclusive<u64>> {
    match take {
        Take::First => printed.first().cloned(),
        Take::Last => printed.last().cloned(),
        Take::Max => printed.iter().max_by_key(|r| *r.end()).cloned(),
        Take::Sum => printed
            .iter()
            .cloned()
            .reduce(|a, b| a.start().saturating_add(*b.start())..=a.end().saturating_add(*b.end())),
    }
}

impl Outputs {
    /// Finds the files of an output in the descriptor, for an ended run whose working directory was kept on this machine.
    pub(super) fn below(
        app: &Descriptor,
        point: &Point,
        work: &Utf8Path,
        claim: &OutputFiles,
    ) -> Result<Self, RunError> {
        let patterns = patterns_below(app, point, work, &claim.files)?;
        Ok(Self {
            claim: claim.clone(),
            patterns,
            found: found_below(app, point, work, &claim.files)?,
            free: Vec::new(),
        })
    }

    /// Returns the total size of the files found, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.found.iter().map(|(_, f)| f.bytes).sum()
    }

    /// Compares the files with the sizes that the program reports, and returns the failure if they differ. Without a report there is nothing to
    /// compare.
    pub(super) fn judge(&self, message: &[&str]) -> Option<RunFailure> {
        let printed: Vec<_> = message
            .iter()
            .filter_map(|text| claimed(text, self.claim.scale))
            .collect();
        let range = taken(self.claim.take, &printed)?;
        let bytes = self.bytes();
        let headers = self
            .claim
            .header_bytes
            .saturating_mul(self.found.len() as u64);
        let most = range.end().saturating_add(headers);
        if bytes >= *range.start() && (self.claim.at_least || bytes <= most) {
            return None;
        }
        let missing = range.start().saturating_sub(bytes);
        let patterns = self.patterns.join(", ");
        let files = match &self.found[..] {
            [] => format!("no file {patterns} exists"),
            [(node, file)] => format!("{} on {node} has {bytes} bytes", file.path.display()),
            several => format!(
                "the {} files {patterns} have {bytes} bytes together",
                several.len()
            ),
        };
        let claim = if range.start() == range.end() {
            format!("{}", range.start())
        } else {
            format!("{} to {}", range.start(), range.end())
        };
        let with_headers = if headers > 0 {
            format!(", not counting up to {headers} of headers")
        } else {
            String::new()
        };
        let text = format!("{files}, but the program says that it wrote {claim}{with_headers}");
        // if the disk has no space for the missing part, the full disk is the reason
        let full = self
            .free
            .iter()
            .find(|(_, space)| missing > 0 && space.free_bytes < missing);
        Some(match full {
            Some((node, space)) => {
                let free = format!(
                    "{} on {node} has {} bytes free",
                    space.place.existing.display(),
                    space.free_bytes
                );
                RunFailure::new(Cause::DiskFull, format!("{text}; {free}"))
            }
            None => RunFailure::new(Cause::Application, text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_probe::sentinel::MountPlace;

    fn file(node: &str, path: &str, inode: u64, bytes: u64) -> (String, FileFound) {
        (
            node.to_owned(),
            FileFound {
                path: path.into(),
                bytes,
                modified_ns: 7,
                inode,
                device: 1,
            },
        )
    }

    fn outputs(found: Vec<(String, FileFound)>, scale: f64, at_least: bool) -> Outputs {
        let (files, size) = (vec!["out*".into()], "wrote (.*)".into());
        let claim = OutputFiles {
            files,
            size,
            scale,
            take: Take::Last,
            at_least,
            header_bytes: 0,
            name: None,
        };
        let place = MountPlace {
            path: "/s/run".into(),
            existing: "/s".into(),
            file_system: "xfs".into(),
            source: "/dev/sdb".into(),
            mount_point: "/s".into(),
            device: 1,
            inode: 2,
        };
        let free = MountSpace {
            place,
            free_bytes: 5000,
            total_bytes: 1 << 30,
            free_files: None,
        };
        Outputs {
            claim,
            patterns: vec!["out*".into()],
            found,
            free: vec![("n2".into(), free)],
        }
    }

    #[test]
    fn a_printed_number_means_as_much_as_its_digits_say() {
        assert_eq!(claimed("419430400", 1.0), Some(419_430_400..=419_430_400));
        assert_eq!(claimed("419.43", 1e6), Some(419_425_000..=419_435_000));
        assert_eq!(claimed("0.4194E+03", 1e6), Some(419_350_000..=419_450_000));
        assert_eq!(claimed("18.21", 1_048_576.0), Some(19_089_326..=19_099_812));
        assert_eq!(claimed("12", 1024.0), Some(11_776..=12_800));
        assert_eq!(claimed("0.01", 1e6), Some(5_000..=15_000));
        assert_eq!(
            claimed("1.5e-2147483648", 1e6),
            None,
            "an exponent at the limit of its type"
        );
        for nothing in ["", "x", "-5", "inf", "NaN", "1e300", "***"] {
            assert_eq!(claimed(nothing, 1e6), None, "{nothing}");
        }
    }

    #[test]
    fn files_with_other_content_fail_with_the_missing_part() {
        let whole = outputs(
            vec![
                file("n1", "/s/out.1", 5, 600),
                file("n2", "/s/out.2", 6, 400),
            ],
            1.0,
            false,
        );
        assert_eq!(whole.judge(&["900", "1000"]), None);
        assert_eq!(whole.judge(&[]), None, "nothing is claimed");
        let RunFailure {
            cause,
            detail: text,
        } = whole.judge(&["1001"]).expect("one byte is missing");
        assert_eq!(cause, Cause::Application);
        assert_eq!(
            text,
            "the 2 files out* have 1000 bytes together, but the program says that it wrote 1001"
        );
        assert_eq!(
            whole.judge(&["900"]).expect("too much").cause,
            Cause::Application
        );
        let more = outputs(vec![file("n1", "/s/out.1", 5, 600)], 1.0, true);
        assert_eq!(more.judge(&["500"]), None);
        assert!(more.judge(&["700"]).is_some());
        let none = outputs(vec![], 1.0, false).judge(&["10"]).expect("no file");
        assert_eq!(
            none.detail,
            "no file out* exists, but the program says that it wrote 10"
        );
    }

    /// FLASH-IO reports the data that it put into three files as 36.52 MiB. The files have 38,299,732 bytes, because their format has headers.
    #[test]
    fn headers_of_the_format_may_come_on_top_in_each_file_but_no_more() {
        let of = |bytes: u64, header_bytes: u64| {
            let mut outputs = outputs(
                vec![file("n1", "/s/a", 5, bytes - 10), file("n1", "/s/b", 6, 10)],
                1_048_576.0,
                false,
            );
            outputs.claim.header_bytes = header_bytes;
            outputs.judge(&["36.52"])
        };
        let without = of(38_299_732, 0).expect("more than was reported").detail;
        assert_eq!(
            without,
            "the 2 files out* have 38299732 bytes together, but the program says that it wrote 38288753 to 38299238"
        );
        assert_eq!(
            of(38_299_732, 247),
            None,
            "494 bytes of headers in two files"
        );
        let beyond = of(38_299_733, 247)
            .expect("one byte more than headers explain")
            .detail;
        assert!(
            beyond.ends_with("wrote 38288753 to 38299238, not counting up to 494 of headers"),
            "{beyond}"
        );
        assert!(
            of(38_288_752, 4096).is_some(),
            "headers do not make up for what is missing"
        );
    }

    /// Half of a file, on a disk without space for the other half, as OMPIO leaves it with exit code 0.
    #[test]
    fn a_full_disk_is_the_reason_where_the_missing_part_has_no_room() {
        let half = outputs(vec![file("n2", "/s/out.1", 5, 209_715_200)], 1e6, false);
        let RunFailure {
            cause,
            detail: text,
        } = half.judge(&["419.43"]).expect("half is missing");
        assert_eq!(cause, Cause::DiskFull);
        assert_eq!(
            text,
            "/s/out.1 on n2 has 209715200 bytes, but the program says that it wrote 419425000 to 419435000; /s on n2 has 5000 bytes free"
        );
    }
}
