//! The question before a command that destroys data. Only people are asked: a program that runs the
//! command has decided already.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::failure::Failure;

/// Asks whether to go on, if a person is at the terminal and `yes` was not given.
///
/// # Errors
/// If the answer is not yes, or the terminal fails.
pub(crate) fn confirm(
    yes: bool,
    question: impl FnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    if yes || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(());
    }
    let answer = ask(&question()?, &mut io::stdin().lock(), &mut io::stderr().lock());
    if answer.map_err(Failure::Terminal)? { Ok(()) } else { Err(Failure::Declined) }
}

fn ask(question: &str, input: &mut impl BufRead, output: &mut impl Write) -> io::Result<bool> {
    write!(output, "{question} [y/N] ")?;
    output.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(answer: &str) -> bool {
        let mut output = Vec::new();
        let is_yes = ask("Remove it?", &mut answer.as_bytes(), &mut output);
        assert_eq!(String::from_utf8(output).expect("text"), "Remove it? [y/N] ");
        is_yes.expect("memory does not fail")
    }

    #[test]
    fn only_yes_is_a_yes() {
        assert!(answered("y\n") && answered("Yes\n") && answered(" YES"));
        assert!(!answered("\n") && !answered("") && !answered("no\n") && !answered("yess\n"));
    }
}
