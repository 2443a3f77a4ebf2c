//! The known word that is most like an unknown one.

/// The longest text that is compared: a longer one is no mistyped key, and comparing takes its length
/// times that of each known word.
const LEN_MAX: usize = 64;

/// The known word with the fewest changes of letters to `text`; the first of several. Empty if no word is
/// known.
pub(super) fn nearest<'known>(
    text: &str,
    known: impl IntoIterator<Item = &'known str>,
) -> &'known str {
    let text: Vec<char> = text.chars().take(LEN_MAX).collect();
    known.into_iter().min_by_key(|word| distance(&text, word)).unwrap_or_default()
}

/// The number of letters to insert, remove or replace: the Levenshtein distance.
fn distance(text: &[char], word: &str) -> usize {
    let mut row: Vec<usize> = (0..=text.len()).collect();
    for (above, letter) in word.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (place, other) in text.iter().enumerate() {
            let replaced = diagonal + usize::from(*other != letter);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row[text.len()]
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
        let kitten: Vec<char> = "kitten".chars().collect();
        assert_eq!(distance(&kitten, "sitting"), 3);
        assert_eq!(nearest("x", []), "");
    }
}
