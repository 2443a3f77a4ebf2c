//! The help of `nearflash` itself: its commands in groups, those of the first minutes first.

/// The template of the help. A test finds each command in it.
pub(crate) const HELP: &str = "\
{about}

{usage-heading} {usage}

First steps:
  serve        run a node: serve volumes to hosts, initiators and direct clients
  status       show a running node: devices, volumes, cores, hosts
  volume       create, list, resize and remove volumes
  bench        measure a volume, a file, or the network alone
  mount        mount a volume of files on a directory; 'umount' unmounts it
  demo         compare a node with its disk and the network, or kill a node of a cluster

Volumes:
  files        copy files into a volume and out of it, list, rename and remove them
  umount       unmount a volume of files
  run          run a program that reaches mounted files without the mount
  device       list devices; return a suspect one to service
  job          follow or cancel long-running changes
  reservation  list and clear the reservations of volumes

Who may connect:
  host         volumes that a host sees; keys of NVMe/TCP hosts
  chap         CHAP accounts of iSCSI initiators
  credential   credentials of direct clients
  grant        what a credential may read and write; seals
  token        tokens of programs that use HTTP

Several nodes, and configuration:
  cluster      create, join and show a cluster; remove its nodes
  apply        make a running node match a file
  config       check a configuration file

Watch and measure:
  top          requests and latencies of a running node, live
  events       the last events of a running node, and its log as it grows
  trace        where requests spend their time
  metrics      metrics in the text format of OpenMetrics
  doctor       settings of this machine that cost speed or safety
  study        repeat published measurements of remote flash

Other:
  completions  print a shell's completion script
  help         print this, or the help of a command

Options:
{options}{after-help}
";

/// The text behind the options, also in the manual page.
pub(crate) const NOTES: &str = "\
Commands for a node take --data-dir DIR, also before the command. Without it, the variable
NEARFLASH_DATA_DIR names the node's data directory, and otherwise it is /var/lib/nearflash for root,
$XDG_STATE_HOME/nearflash for others.

Examples:
  nearflash serve --device flash=file:flash.img,size=16GiB --volume data=8GiB@flash
  nearflash status
  nearflash volume create logs=1GiB@flash
  nearflash bench nvme-tcp://127.0.0.1:4420/data --rw randread --iodepth 32

Exit codes: 0 done, 1 failed or refused, 2 wrong command line or configuration.
'nearflash COMMAND --help' has all options and more examples.";

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
