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
    page.render(&mut file)?;
    after.map_or(Ok(()), |text| literal(&text).to_writer(&mut file))?;
    file.flush()
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
