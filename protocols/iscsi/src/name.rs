//! Texts as parts of iSCSI names.
//!
//! Spec: RFC 7143, 4.2.7 (names) and RFC 3722 (their preparation): names are compared after folding to
//! lower case, and of the printable ASCII characters only letters, digits, '-', '.' and ':' may be in one.

/// The text as the last part of an iSCSI name: in lower case, and with `-` for each character that no
/// such name may have. Different texts can become the same part.
pub fn name_part(text: &str) -> String {
    let allowed = |it: &char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | ':');
    let part = |it: char| if allowed(&it) { it.to_ascii_lowercase() } else { '-' };
    text.chars().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_only_what_a_name_may_have_after_its_preparation() {
        assert_eq!(name_part("Backup_2.a-b"), "backup-2.a-b");
        assert_eq!(name_part("a b\u{212a}/\n"), "a-b---");
        assert!(name_part(&name_part("My_Vol")) == "my-vol", "a second time changes nothing");
    }
}
