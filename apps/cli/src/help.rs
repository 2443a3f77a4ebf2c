//! The help of `nearflash` itself: its commands in groups, those of the first minutes first.

/// The template of the help. A test finds each command in it.
pub(crate) const HELP: &str = include_str!("help/help.txt");

/// The text behind the options, also in the manual page.
pub(crate) const NOTES: &str = include_str!("help/notes.txt");

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::HELP;
    use crate::args::Cli;

    /// A wrapped example cannot be copied.
    #[test]
    fn no_line_after_the_options_is_wrapped() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
        }
    }

    #[test]
    fn the_help_has_each_command_once() {
        let listed = HELP.lines().filter_map(|line| line.strip_prefix("  "));
        let listed = listed.filter(|line| line.starts_with(|it: char| it.is_ascii_lowercase()));
        let listed = listed.filter(|line| !line.starts_with("nearflash "));
        let mut listed: Vec<&str> = listed.filter_map(|line| line.split(' ').next()).collect();
        listed.sort_unstable();
        let command = Cli::command();
        let known = command.get_subcommands().filter(|it| !it.is_hide_set());
        let mut known: Vec<&str> = known.map(clap::Command::get_name).chain(["help"]).collect();
        known.sort_unstable();
        assert_eq!(listed, known);
    }
}
