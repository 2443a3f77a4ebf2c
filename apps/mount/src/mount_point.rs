//! Mount points: what is mounted where, and the checks before something is mounted.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use nearflash::direct::Url;
use rustix::io::Errno;

use crate::MountError;

/// The helper with which normal users mount.
pub(crate) const HELPER: &str = "fusermount3";

const DEVICE: &str = "/dev/fuse";
const MOUNTS: &str = "/proc/self/mountinfo";
/// The starts of the sources of our mounts: the schemes of their URLs.
const SOURCES: [&str; 3] = ["direct://", "direct+tls://", "direct+local:"];

/// A mounted file system, as proc(5) describes it in `mountinfo`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Mounted {
    /// The number of the device.
    pub(crate) device: String,
    pub(crate) dir: PathBuf,
    pub(crate) file_system: String,
    pub(crate) source: String,
    /// The user who has mounted it, if it is a FUSE file system.
    pub(crate) user: Option<u32>,
}

impl Mounted {
    /// The identity of this mount. The number of its device alone does not: the kernel gives it to
    /// another mount as soon as this one is removed from the tree, while its process may still wait for its node.
    pub(crate) fn identity(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (&self.dir, &self.source).hash(&mut hasher);
        format!("{}-{:016x}", self.device, hasher.finish())
    }

    /// Whether it is a volume of files.
    pub(crate) fn is_ours(&self) -> bool {
        self.file_system.starts_with("fuse")
            && SOURCES.iter().any(|start| self.source.starts_with(start))
    }

    /// The line of `mountinfo`; `None` if it is not complete. The kernel writes the bytes of a directory's
    /// name as they are, whether they are UTF-8 or not.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let device = String::from_utf8_lossy(fields.by_ref().nth(2)?).into_owned();
        let dir = unescaped(fields.by_ref().nth(1)?);
        // Optional fields end with a hyphen.
        fields.by_ref().find(|field| *field == b"-")?;
        let file_system = fields.next()?;
        let source = unescaped(fields.next()?);
        let options = fields.next().unwrap_or_default().split(|byte| *byte == b',');
        let user = options.filter_map(|option| option.strip_prefix(b"user_id=")).next();
        Some(Self {
            device,
            user: user.and_then(|id| std::str::from_utf8(id).ok()?.parse().ok()),
            dir: PathBuf::from(OsString::from_vec(dir)),
            file_system: String::from_utf8_lossy(file_system).into_owned(),
            source: String::from_utf8_lossy(&source).into_owned(),
        })
    }
}

/// Bytes with `\040` and the like for spaces and backslashes.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, others)) = rest.split_first() {
        let code = others.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let (byte, behind) = match (first, code) {
            (b'\\', Some(code)) => (code, &others[3..]),
            _ => (*first, others),
        };
        bytes.push(byte);
        rest = behind;
    }
    bytes
}

/// The file system that is mounted on this directory; of several, the one that is visible.
pub(crate) fn mounted_on(dir: &Path) -> io::Result<Option<Mounted>> {
    Ok(visible(&fs::read(MOUNTS)?, dir))
}

/// The last file system of a table that is mounted on this directory.
fn visible(table: &[u8], dir: &Path) -> Option<Mounted> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(Mounted::parse).rfind(|mounted| mounted.dir == dir)
}

/// The number of symbolic links in a row that are followed; the kernel's own bound (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// The absolute path of a directory, without a call to the file system that may be mounted on it,
/// whose process may be gone. A symbolic link lies in the file system of its parent, so it can be followed.
pub(crate) fn resolved(dir: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(dir)?;
    for _ in 0..LINKS_MAX {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return fs::canonicalize(path);
        };
        let parent = fs::canonicalize(parent)?;
        path = parent.join(name);
        match fs::read_link(&path) {
            Ok(target) => path = parent.join(target),
            // It is no link.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::from(Errno::LOOP))
}

/// The directory, if something can be mounted on it.
pub(crate) fn checked(dir: &Path) -> Result<PathBuf, MountError> {
    let failed = |source| MountError::MountPoint { dir: dir.to_owned(), source };
    let path = resolved(dir).map_err(failed)?;
    // A symbolic link leads to the mount point.
    let path = match fs::canonicalize(&path) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTCONN) => path,
        resolved => resolved.map_err(failed)?,
    };
    match mounted_on(&path).map_err(failed)? {
        Some(mounted) if mounted.is_ours() && is_abandoned(&path) => {
            Err(MountError::Abandoned(path))
        }
        Some(mounted) => Err(MountError::Mounted { dir: path, mounted: mounted.source }),
        None if fs::metadata(&path).map_err(failed)?.is_dir() => Ok(path),
        None => Err(MountError::NotDirectory(path)),
    }
}

fn is_abandoned(dir: &Path) -> bool {
    let asked = fs::metadata(dir).err();
    asked.and_then(|error| Errno::from_io_error(&error)) == Some(Errno::NOTCONN)
}

/// Checks that this process can use FUSE.
pub(crate) fn check_fuse() -> Result<(), MountError> {
    OpenOptions::new().read(true).write(true).open(DEVICE).map_err(MountError::Device)?;
    match rustix::process::geteuid().is_root() || has_helper() {
        true => Ok(()),
        false => Err(MountError::NoHelper),
    }
}

pub(crate) fn has_helper() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(HELPER).is_file())
}

/// The source of a mount, which programs such as df(1) show: the URL without its options. The helper
/// divides its arguments at commas.
pub(crate) fn source(url: &Url) -> String {
    url.to_string().replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn parsed(line: &str) -> Mounted {
        Mounted::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_mount_of_a_volume_is_recognised_by_its_source() {
        let ours = parsed(
            "36 35 0:42 / /mnt/a\\040b rw,nosuid - fuse direct://127.0.0.1:4421/data rw,user_id=0",
        );
        assert_eq!(ours.dir, Path::new("/mnt/a b"));
        assert!(ours.is_ours());
        assert_eq!((&*ours.device, ours.user), ("0:42", Some(0)));
        let elsewhere = Mounted { dir: "/mnt/b".into(), ..ours.clone() };
        assert_ne!(ours.identity(), elsewhere.identity(), "a number of a device is used again");
        assert_eq!(ours.identity(), ours.clone().identity());
        let local = "36 35 0:42 / /m rw shared:1 - fuse.nearflash direct+local:/run/n.sock/d rw";
        assert!(parsed(local).is_ours());
        assert!(!parsed("36 35 0:42 / /m rw - fuse.sshfs host:/ rw").is_ours());
        assert!(parsed("36 35 0:42 / /m rw - fuse direct+tls://n:4421/d rw").is_ours());
        assert!(!parsed("36 35 8:1 / / rw - ext4 direct://x/y rw").is_ours());
        for incomplete in ["", "36 35", "36 35 0:42 / /m rw - fuse"] {
            assert_eq!(Mounted::parse(incomplete.as_bytes()), None);
        }
    }

    #[test]
    fn escaped_bytes_of_the_mount_table_are_read() {
        assert_eq!(unescaped(b"a\\040b\\134\\011"), b"a b\\\t");
        assert_eq!(unescaped(b"end\\04"), b"end\\04");
        assert_eq!(unescaped(b"\\999"), b"\\999");
    }

    #[test]
    fn a_mount_point_that_is_not_utf_8_hides_no_other() {
        let table =
            b"35 1 0:41 / /x/\xff rw - tmpfs none rw\n36 35 0:42 / /m rw - fuse direct://n/d rw\n";
        assert!(visible(table, Path::new("/m")).unwrap().is_ours());
        let foreign = visible(table, Path::new(OsStr::from_bytes(b"/x/\xff"))).unwrap();
        assert_eq!(foreign.file_system, "tmpfs");
    }

    #[test]
    fn a_symbolic_link_leads_to_its_mount_point() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("point")).unwrap();
        symlink("point", root.join("near")).unwrap();
        symlink(root.join("near"), root.join("far")).unwrap();
        symlink("round", root.join("round")).unwrap();
        for (name, path) in
            [("point", "point"), ("near", "point"), ("far", "point"), ("new", "new")]
        {
            assert_eq!(resolved(&root.join(name)).unwrap(), root.join(path));
        }
        assert!(resolved(&root.join("round")).is_err());
    }

    #[test]
    fn a_mount_point_that_is_missing_or_a_file_or_in_use_is_refused_by_name() {
        let folder = std::env::temp_dir().join(format!("nearflash-point-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("file");
        fs::write(&file, "").unwrap();
        let refused = |dir: &Path| checked(dir).unwrap_err().to_string();
        assert!(refused(&folder.join("none")).contains("create the directory"));
        assert!(refused(&folder.join("none/none")).contains("none/none"));
        assert!(refused(&file).ends_with("it is not a directory"));
        assert!(refused(Path::new("/proc")).contains("'proc' is mounted there"));
        assert_eq!(checked(&folder).unwrap(), folder.canonicalize().unwrap());
        fs::remove_dir_all(&folder).unwrap();
    }
}
