//! Wrong command lines, for the programs that have one.

/// The message of the parser of a command line as one line: what is wrong, and how the command is written. The
/// last paragraph of the parser says that there is help; the usage, if it has one, says the same and more.
pub fn usage_line(message: &str) -> String {
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let words = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = message.split("\n\n").map(words).filter(|part| !part.is_empty());
    let parts: Vec<String> =
        parts.filter(|part| !part.starts_with("For more information")).collect();
    parts.join("; ")
}
