//! The manual pages of all commands. Examples keep their lines, so that they can be copied.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use clap::builder::Resettable;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// Writes the page of a command, and those of its subcommands, into a folder.
///
/// # Errors
/// When a page cannot be written.
pub(crate) fn write(command: clap::Command, folder: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_tree(&command, folder)
}

fn write_tree(command: &clap::Command, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_tree(subcommand, folder)?;
    }
    let after = command.get_after_help().map(ToString::to_string);
    let source = concat!("nearflash ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone().after_help(Resettable::Reset)).source(source);
    let mut file = File::create(folder.join(page.get_filename()))?;
    let mut text = Vec::new();
    page.render(&mut text)?;
    file.write_all(with_usage(&String::from_utf8_lossy(&text), command).as_bytes())?;
    after.map_or(Ok(()), |text| literal(&text).to_writer(&mut file))?;
    file.flush()
}

/// The page with the usage of `--help` as its synopsis, since the library names each option there, without its value.
fn with_usage(page: &str, command: &clap::Command) -> String {
    const SYNOPSIS: &str = ".SH SYNOPSIS\n";
    let place = page.split_once(SYNOPSIS).and_then(|(before, rest)| {
        let end = rest.find("\n.SH ")?;
        Some((before, &rest[end..]))
    });
    let Some((before, behind)) = place else { return page.to_owned() };
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace('-', "\\-");
    format!("{before}{SYNOPSIS}{usage}{behind}")
}

/// A section whose lines are shown as they are.
fn literal(text: &str) -> Roff {
    let (heading, text) = match text.strip_prefix("Examples:\n") {
        Some(examples) => ("EXAMPLES", examples),
        None => ("NOTES", text),
    };
    let mut roff = Roff::new();
    roff.control("SH", [heading]).control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_synopsis_of_a_page_is_the_usage_of_the_help() {
        let option = clap::Arg::new("dry-run").long("dry-run").value_name("N").required(true);
        let mut command = clap::Command::new("tool").arg(option).arg(clap::Arg::new("FILE"));
        command.build();
        let mut page = Vec::new();
        super::Man::new(command.clone()).render(&mut page).unwrap();
        let page = super::with_usage(&String::from_utf8(page).unwrap(), &command);
        let expected = ".SH SYNOPSIS\ntool \\-\\-dry\\-run <N> [FILE]\n.SH DESCRIPTION\n";
        assert!(page.contains(expected), "{page}");
    }

    #[test]
    fn the_examples_of_a_page_keep_their_lines() {
        let text = "Examples:\n  nearflash volume list --json\n\n  # Two\n  nearflash job wait 3";
        insta::assert_snapshot!(super::literal(text).to_roff(), @r#"
        .SH EXAMPLES
        .nf
          nearflash volume list \-\-json

          # Two
          nearflash job wait 3
        .fi
        "#);
    }
}
