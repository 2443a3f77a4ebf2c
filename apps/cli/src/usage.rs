//! A wrong command line, in one line: what is wrong, and how the command is written.

use std::process::ExitCode;

use clap::error::ErrorKind;
use nearflash_api::usage_line;
use nearflash_units::OneLine;

/// Exit code of a wrong command line.
const USAGE: u8 = 2;

/// Prints the help that was asked for, or says what is wrong; returns the exit code.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        // Nobody is left to tell if this fails.
        let _ = error.print();
    } else {
        eprintln!("nearflash: {}", OneLine(&usage_line(&error.render().to_string())));
    }
    if error.use_stderr() { USAGE.into() } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::usage_line;
    use crate::args::Cli;

    fn refused(arguments: &[&str]) -> String {
        let arguments = ["nearflash"].iter().chain(arguments);
        let error = Cli::try_parse_from(arguments).expect_err("the command line is wrong");
        usage_line(&error.render().to_string())
    }

    #[test]
    fn a_wrong_command_line_is_one_line_with_what_is_wrong_and_how_it_is_written() {
        insta::assert_snapshot!(refused(&["volume", "show"]), @r#"the following required arguments were not provided: <NAME>; Usage: nearflash volume show <NAME>"#);
        insta::assert_snapshot!(refused(&["volume", "lst"]), @r#"unrecognized subcommand 'lst'; tip: some similar subcommands exist: 'ls', 'list'; Usage: nearflash volume [OPTIONS] <COMMAND>"#);
        insta::assert_snapshot!(refused(&["volume", "list", "--jsn"]), @r#"unexpected argument '--jsn' found; tip: a similar argument exists: '--json'; Usage: nearflash volume list --json"#);
        insta::assert_snapshot!(refused(&["volume", "create", "a", "--size", "much"]), @r#"invalid value 'much' for '--size <SIZE>': 'much' is not a size: write a whole number and a unit, for example 512, 64KiB or 8GiB"#);
        let both = ["grant", "add", "a", "data", "--range", "0..1", "--path", "/"];
        insta::assert_snapshot!(refused(&both), @r#"the argument '--range <START..END>' cannot be used with '--path <PATH>'; Usage: nearflash grant add --range <START..END> <ID> <VOLUME>"#);
        insta::assert_snapshot!(refused(&["volum"]), @r#"unrecognized subcommand 'volum'; tip: a similar subcommand exists: 'volume'; Usage: nearflash <COMMAND>"#);
    }
}
