//! Prevents line breaks between a sign and its number, and between a number and its unit.

/// U+2212 MINUS SIGN: as wide as a digit, and not a break opportunity, unlike a hyphen.
const MINUS: char = '\u{2212}';
/// U+00A0 NO-BREAK SPACE.
const GAP: char = '\u{a0}';
/// Units that follow numbers in sentences.
const UNITS: [&str; 9] = ["%", "µs", "µJ", "kIOPS", "MB/s", "KiB", "MiB", "B", "times"];

/// Replaces signs and spaces so that numbers are not broken across lines.
pub(super) fn unbroken(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for (index, letter) in text.char_indices() {
        let rest = &text[index + letter.len_utf8()..];
        out.push(match letter {
            '-' if matches!(before, ' ' | '(')
                && rest.starts_with(|it: char| it.is_ascii_digit()) =>
            {
                MINUS
            }
            ' ' if before.is_ascii_digit() && has_unit(rest) => GAP,
            other => other,
        });
        before = letter;
    }
    out
}

/// Whether a text begins with a unit.
fn has_unit(text: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    UNITS.iter().any(|unit| text.strip_prefix(unit).is_some_and(ends))
}

#[cfg(test)]
mod tests {
    use super::unbroken;

    #[test]
    fn a_number_keeps_its_sign_and_its_unit_on_its_line() {
        for (text, meant) in [
            ("by -79 % (direct) to +4.1 %.", "by −79_% (direct) to +4.1_%."),
            ("-5 % and (-0.5 µs)", "−5_% and (−0.5_µs)"),
            ("64 KiB blocks, 1,210 kIOPS; 2.5 times", "64_KiB blocks, 1,210_kIOPS; 2.5_times"),
            ("4 Bytes, 3 tenants, 512 B.", "4 Bytes, 3 tenants, 512_B."),
            ("NVMe-oF, 2026-11-22, 3 - 4, --quick -x", "NVMe-oF, 2026-11-22, 3 - 4, --quick -x"),
            ("µ", "µ"),
        ] {
            assert_eq!(unbroken(text), meant.replace('_', "\u{a0}"));
        }
    }
}
