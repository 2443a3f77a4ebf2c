//! A volume of files that a test mounts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::Pid;

use crate::{Door, Key, Node, Place, nearflash};

/// The longest name of the socket that the process of a mount has.
const SOCKET_LEN_MAX: usize = 108;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(nearflash());
    command.args(arguments).stdin(Stdio::null()).output().expect("nearflash is a program")
}

/// Runs a `nearflash` command.
///
/// # Panics
/// When it fails.
pub fn done(arguments: &[&str]) {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Runs a `nearflash` command that fails with this exit code, and with one line that has these parts.
///
/// # Panics
/// When it does not.
pub fn refused_command(arguments: &[&str], code: i32, reasons: &[&str]) {
    let output = run(arguments);
    let message = String::from_utf8(output.stderr).expect("messages are text");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert_eq!(message.matches('\n').count(), 1, "one line: {message}");
    for reason in reasons {
        assert!(message.contains(reason), "{message} names {reason}");
    }
}

/// A node with a volume that is formatted for files, and a directory to mount it on.
#[derive(Debug)]
pub struct MountBench<'a> {
    place: &'a Place,
    node: Node<'a>,
    flags: Vec<String>,
    door: Door,
    url: String,
    dir: PathBuf,
}

impl<'a> MountBench<'a> {
    /// A volume of 128 MiB on a file device.
    ///
    /// # Panics
    /// When the node does not start, or the volume cannot be formatted.
    pub fn new(place: &'a Place, door: Door) -> Self {
        Self::with_volume(place, door, "128MiB")
    }

    /// A volume of this size on a file device of 8 GiB.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn with_volume(place: &'a Place, door: Door, size: &str) -> Self {
        Self::with_flags(place, door, size, &[])
    }

    /// A volume of 128 MiB whose files the node owns.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn shared(place: &'a Place, door: Door) -> Self {
        Self::shared_with_volume(place, door, "128MiB")
    }

    /// A volume of this size whose files the node owns.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn shared_with_volume(place: &'a Place, door: Door, size: &str) -> Self {
        Self::with_flags(place, door, size, &["--files", "data"])
    }

    /// A volume of 128 MiB on a node whose only device is a file, which loses nothing with the node.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn lasting(place: &'a Place, door: Door) -> Self {
        Self::with_devices(place, door, "128MiB", &[])
    }

    /// On a node with a second device, of memory: a restart of the node may lose writes.
    fn with_flags(place: &'a Place, door: Door, size: &str, more: &[&str]) -> Self {
        let memory = ["--device", "memory=ram:16MiB"];
        Self::with_devices(place, door, size, &[&memory, more].concat())
    }

    fn with_devices(place: &'a Place, door: Door, size: &str, more: &[&str]) -> Self {
        let (device, volume) = (place.flash("8GiB"), format!("data={size}@flash"));
        let flags = [&["--device", &device, "--volume", &volume], more].concat();
        let flags: Vec<String> = flags.into_iter().map(str::to_owned).collect();
        let node = start(place, &flags);
        let url = format!("{}/data", door.url(&node));
        done(&["files", "format", &url]);
        let dir = place.path("mnt");
        fs::create_dir(&dir).expect("the folder is new");
        let dir = dir.canonicalize().expect("it exists");
        Self { place, node, flags, door, url, dir }
    }

    /// The path of a file in the mount.
    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The mount point.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The mount point as text, for commands.
    ///
    /// # Panics
    /// Never: temporary folders have plain names.
    pub fn dir_text(&self) -> &str {
        self.dir.to_str().expect("temporary folders have plain names")
    }

    /// The URL of the volume.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The node.
    pub fn node(&self) -> &Node<'a> {
        &self.node
    }

    /// From now on, the node asks for a credential, which the URL of the volume names.
    ///
    /// # Panics
    /// When the node refuses it.
    #[must_use]
    pub fn with_credential(self) -> Self {
        let key = Key::create(&self.node, "app", &[]);
        key.grant(&self.node, "data", &["--rights", "rw"]);
        let file = self.place.text("app.secret");
        fs::write(&file, key.secret()).expect("the folder of the test is writable");
        let url = format!("{}?key={}&secret-file={file}", self.url, key.id());
        Self { url, ..self }
    }

    /// Kills the node, and starts it again. The URL of a socket stays the same.
    ///
    /// # Panics
    /// When it does not start again.
    #[must_use]
    pub fn restart_node(self) -> Self {
        assert_eq!(self.door, Door::Local, "only the address of a socket stays the same");
        self.node.crash();
        let node = start(self.place, &self.flags);
        Self { node, ..self }
    }

    /// The path of a file in the second mount.
    pub fn at_second(&self, name: &str) -> PathBuf {
        self.second().join(name)
    }

    fn second(&self) -> PathBuf {
        self.dir.with_file_name("mnt-2")
    }

    /// Mounts the volume once more, on another directory.
    ///
    /// # Panics
    /// When the command fails.
    pub fn mount_second(&self, more: &[&str]) -> Mounted {
        let dir = self.second();
        fs::create_dir_all(&dir).expect("the folder of the test is writable");
        let text = dir.to_str().expect("temporary folders have plain names");
        let log = self.place.text("mount-2.log");
        done(&[&["mount", &self.url, text, "--log", &log], more].concat());
        Mounted { dir, log: self.place.path("mount-2.log"), is_mounted: true }
    }

    /// Mounts the volume with these flags.
    ///
    /// # Panics
    /// When the command fails.
    pub fn mount(&self, more: &[&str]) -> Mounted {
        let log = self.place.text("mount.log");
        done(&[&["mount", &self.url, self.dir_text(), "--log", &log], more].concat());
        Mounted { dir: self.dir.clone(), log: self.place.path("mount.log"), is_mounted: true }
    }

    /// The contents of a file, as another process reads them without the mount.
    ///
    /// # Panics
    /// When they cannot be read.
    pub fn direct(&self, name: &str) -> Vec<u8> {
        let (volume, options) = self.url.split_at(self.url.find('?').unwrap_or(self.url.len()));
        let output = run(&["files", "get", &format!("{volume}/{name}{options}"), "-"]);
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// Checks all metadata.
    ///
    /// # Panics
    /// When there are faults.
    pub fn check(&self) {
        done(&["files", "check", &self.url]);
    }

    /// Ends the node.
    ///
    /// # Panics
    /// When it does not end with success.
    pub fn terminate(self) {
        self.node.terminate();
    }
}

fn start<'a>(place: &'a Place, flags: &[String]) -> Node<'a> {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Node::with_direct(place, &flags)
}

/// A mount, which is removed when dropped.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
    log: PathBuf,
    is_mounted: bool,
}

impl Mounted {
    /// Unmounts with `nearflash umount`.
    ///
    /// # Panics
    /// When the command fails.
    pub fn unmount(mut self) {
        done(&["umount", self.dir.to_str().expect("temporary folders have plain names")]);
        self.is_mounted = false;
        let below = fs::read_dir(&self.dir).expect("it is an empty folder again");
        assert_eq!(below.count(), 0, "the folder below is empty");
    }

    /// Removes the mount point of a process that was killed.
    ///
    /// # Panics
    /// When it cannot be unmounted.
    pub fn abandon(mut self) {
        done(&["umount", self.dir.to_str().expect("temporary folders have plain names")]);
        self.is_mounted = false;
    }

    /// The process of the mount. Its socket's name has the number.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn pid(&self) -> Pid {
        let mut name = [0; SOCKET_LEN_MAX];
        let len = rustix::fs::getxattr(&self.dir, "user.nearflash.mount", &mut name);
        let name = String::from_utf8_lossy(&name[..len.expect("a mount names its socket")]);
        let number = name.split('-').nth(2).and_then(|number| number.parse().ok());
        number.and_then(Pid::from_raw).expect("the name has the number of the process")
    }

    /// The log.
    ///
    /// # Panics
    /// When the log does not exist.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a mount has a log")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted {
            // The process may have unmounted it, which umount reports.
            let _ = Command::new("umount").arg("-l").arg(&self.dir).output();
        }
    }
}
