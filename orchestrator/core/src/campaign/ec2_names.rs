//! Checks the form of region and instance type names, so that a typing error is found before any query or payment. New regions, families and sizes
//! have the same form.

/// Known regions, for suggestions.
pub(super) const REGIONS: [&str; 34] = [
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
    "af-south-1",
    "ap-east-1",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-7",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ca-central-1",
    "ca-west-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-gov-east-1",
    "us-gov-west-1",
];

/// Possible middle parts of a region's name, as `east` in `us-east-1`.
const DIRECTIONS: [&str; 9] = [
    "north",
    "south",
    "east",
    "west",
    "central",
    "northeast",
    "southeast",
    "northwest",
    "southwest",
];

/// Sizes that are not multiples of `xlarge`, for suggestions.
pub(super) const SIZES: [&str; 8] = [
    "nano", "micro", "small", "medium", "large", "xlarge", "2xlarge", "metal",
];

/// Returns whether a text has the form of a region's name: area, direction, number.
pub(super) fn is_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [area @ .., direction, number] = parts.as_slice() else {
        return false;
    };
    let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
    matches!(area.len(), 1 | 2)
        && area[0].len() == 2
        && area.iter().all(is_word)
        && DIRECTIONS.contains(direction)
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
}

/// Returns whether a text has the form of an instance size: a word, a multiple of `xlarge`, or bare metal.
pub(super) fn is_size(text: &str) -> bool {
    let multiple = |ending: &str, of: &str| {
        of.strip_suffix(ending)
            .is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
    };
    SIZES.contains(&text)
        || multiple("xlarge", text)
        || text
            .strip_prefix("metal-")
            .is_some_and(|rest| multiple("xl", rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_today_and_tomorrow_are_known_from_typing_errors() {
        for region in REGIONS.iter().chain(&["cn-northwest-1", "ap-southeast-9"]) {
            assert!(is_region(region), "{region}");
        }
        for wrong in [
            "us-esat-1",
            "mars-1",
            "us-east",
            "us-east-",
            "east-1",
            "US-EAST-1",
            "",
        ] {
            assert!(!is_region(wrong), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_words_multiples_or_bare_metal() {
        for size in [
            "nano",
            "xlarge",
            "2xlarge",
            "112xlarge",
            "metal",
            "metal-24xl",
        ] {
            assert!(is_size(size), "{size}");
        }
        for wrong in ["xlarg", "xxlarge", "2xl", "metal-", "", "Large"] {
            assert!(!is_size(wrong), "{wrong}");
        }
    }
}
