//! A file for a secret: new, and for its owner alone.

use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nearflash_node::api::SecretText;

/// Why a secret's file could not be made or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretFileError {
    /// Before there was a secret.
    #[error("--secret-file {}: {source}: choose another path", .path.display())]
    Create { path: PathBuf, source: io::Error },
    /// When there was one.
    #[error(
        "--secret-file {}: {source}: the secret is lost, remove the credential and make it again",
        .path.display()
    )]
    Write { path: PathBuf, source: io::Error },
}

/// A file that waits for its secret. It goes again when there is none.
pub(crate) struct SecretFile {
    file: File,
    path: PathBuf,
    is_kept: bool,
}

impl SecretFile {
    /// Makes it; one that is there is left alone.
    pub(crate) fn create(path: &Path) -> Result<Self, SecretFileError> {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let path = path.to_owned();
        match made {
            Ok(file) => Ok(Self { file, path, is_kept: false }),
            Err(source) => Err(SecretFileError::Create { path, source }),
        }
    }

    /// Writes the secret to it, durably.
    pub(crate) fn keep(mut self, secret: &SecretText) -> Result<(), SecretFileError> {
        let written = writeln!(self.file, "{}", secret.0).and_then(|()| self.file.sync_all());
        self.is_kept = written.is_ok();
        written.map_err(|source| SecretFileError::Write { path: self.path.clone(), source })
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // Empty, or not whole; whoever sees it there knows what it is.
            let _ = remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_is_written_for_its_owner_alone_and_over_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.secret");
        SecretFile::create(&path).unwrap().keep(&SecretText("5ec2e7".to_owned())).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "5ec2e7\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let refused = SecretFile::create(&path).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("File exists"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "5ec2e7\n");
    }

    #[test]
    fn a_file_without_a_secret_goes_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.secret");
        drop(SecretFile::create(&path).unwrap());
        assert!(!path.exists());
    }
}
