//! The names of the files of a report.

/// Name of the page.
pub(super) const PAGE_FILE: &str = "report.html";
/// Name of the Markdown file.
pub(super) const TEXT_FILE: &str = "report.md";
/// Name of the results as JSON.
pub(super) const RESULTS_FILE: &str = "results.json";

/// The files next to a page, to which it can link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Edition {
    /// All files of a run.
    Run,
    /// A published copy, without the results of every run.
    Published,
}

/// Maximum length of a stem; with a longer one the file name could exceed the 255 bytes that file
/// systems allow.
const STEM_LEN_MAX: usize = 200;

/// Converts a name to the stem of a file or folder, or to an anchor of a page. The middle of a long
/// name, such as a target's URL, is replaced by a hash.
pub(super) fn file_stem(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_') { letter } else { '-' }
    };
    let stem: String = name.chars().map(letter).collect();
    if stem.len() <= STEM_LEN_MAX {
        return stem;
    }
    // FNV-1a.
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    // The stem is ASCII, so every index is a character boundary.
    format!("{}-{hash:016x}-{}", &stem[..STEM_LEN_MAX / 2], &stem[stem.len() - STEM_LEN_MAX / 4..])
}

#[cfg(test)]
mod tests {
    use super::{STEM_LEN_MAX, file_stem};

    #[test]
    fn names_of_files_are_short_enough_and_differ_as_what_they_name() {
        assert_eq!(
            file_stem("tenants-url=nvme-tcp://[::1]:4420/a b"),
            "tenants-url-nvme-tcp------1--4420-a-b"
        );
        let long = |middle: &str| {
            let name = format!("{}{middle}{}-demand", "ä".repeat(150), "b".repeat(150));
            file_stem(&name)
        };
        assert!(long("x").len() <= STEM_LEN_MAX && long("x").ends_with("b-demand"));
        assert_ne!(long("x"), long("y"));
    }
}
