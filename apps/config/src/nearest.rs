//! The known word that is most like an unknown one.

use strsim::levenshtein;

/// The longest text that is compared: a longer one is no mistyped key, and comparing takes its length
/// times that of each known word.
const LEN_MAX: usize = 64;

/// The known word with the fewest changes of letters to `text`; the first of several. Empty if no word is
/// known.
pub(super) fn nearest<'known>(
    text: &str,
    known: impl IntoIterator<Item = &'known str>,
) -> &'known str {
    let text: String = text.chars().take(LEN_MAX).collect();
    known.into_iter().min_by_key(|word| levenshtein(&text, word)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_with_the_fewest_changes_is_the_nearest() {
        let known = ["device", "volume", "nvme-tcp", "direct"];
        for (text, word) in
            [("volumes", "volume"), ("nvme_tcp", "nvme-tcp"), ("divice", "device"), ("", "device")]
        {
            assert_eq!(nearest(text, known), word);
        }
        assert_eq!(levenshtein("kitten", "sitting"), 3);
        assert_eq!(nearest("x", []), "");
    }
}
