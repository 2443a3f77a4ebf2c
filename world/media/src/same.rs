//! Devices that are one file or one disk under two names.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nearflash_space::Name;

use crate::error::OpenError;
use crate::spec::{Backing, DeviceSpec};

/// The identity of a file or a disk. All paths that lead to one file have the same identity.
#[derive(Debug, Eq, PartialEq)]
enum Identity {
    Disk(u64),
    File {
        file_system: u64,
        inode: u64,
    },
    /// It does not exist yet.
    Absent(PathBuf),
}

impl Identity {
    /// `None` if the path leads nowhere: opening it fails with the reason.
    fn of(path: &Path) -> Option<Self> {
        match std::fs::metadata(path) {
            Ok(found) if found.file_type().is_block_device() => Some(Self::Disk(found.rdev())),
            Ok(found) => Some(Self::File { file_system: found.dev(), inode: found.ino() }),
            Err(_) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
                Some(Self::Absent(folder.join(path.file_name()?)))
            }
        }
    }
}

/// Refuses a file or a disk that is given twice. To be called before any of them is opened, since the second lock would
/// be refused as if another program had the first one.
///
/// # Errors
/// When two devices are one.
pub fn check_distinct<'a>(specs: impl Iterator<Item = &'a DeviceSpec>) -> Result<(), OpenError> {
    let mut seen: Vec<(Identity, &Name)> = Vec::new();
    for spec in specs {
        let (Backing::File { path, .. } | Backing::Block { path }) = &spec.backing else {
            continue;
        };
        let Some(identity) = Identity::of(path) else { continue };
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == identity) {
            let (name, path, other) = (spec.name.clone(), path.clone(), (*other).clone());
            return Err(OpenError::Twice { name, path, other });
        }
        seen.push((identity, &spec.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(specs: &[String]) -> Result<(), String> {
        let specs: Vec<DeviceSpec> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
        check_distinct(specs.iter()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_one_device_by_whatever_path() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(at("d")).unwrap();
        std::fs::write(at("a"), "").unwrap();
        std::fs::write(at("b"), "").unwrap();
        std::fs::hard_link(at("a"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("a"), at("soft")).unwrap();
        let device = |name: &str, path: &str| format!("{name}=file:{},size=8MiB", at(path));
        let others = ["x=ram:1MiB".to_owned(), "y=ram:1MiB".to_owned()];
        let distinct = [device("1a", "a"), device("2b", "b"), device("3n", "new")];
        assert_eq!(checked(&[&distinct[..], &others[..]].concat()), Ok(()));
        for (path, again) in [("a", "d/../a"), ("a", "hard"), ("soft", "a"), ("new", "d/../new")] {
            let refused = checked(&[device("one", path), device("two", again)]).unwrap_err();
            let said = format!("device 'two': {} is device 'one', too: name it once", at(again));
            assert_eq!(refused, said);
        }
    }
}
