//! Files with secrets: creates them readable only by their owner, and reads existing ones.

use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, IsTerminal as _, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nearflash_api::SecretText;

/// The reason why a file with a secret could not be created, written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretFileError {
    /// The file could not be created. There was no secret yet.
    #[error("--secret-file {}: {source}: choose another path", .path.display())]
    Create { path: PathBuf, source: io::Error },
    /// The secret could not be written.
    #[error(
        "--secret-file {}: {source}: the secret is lost: remove the credential and create it again",
        .path.display()
    )]
    Write { path: PathBuf, source: io::Error },
    /// The terminal failed.
    #[error(
        "cannot ask for the secret on the terminal: {source}: give the path of a file instead of -"
    )]
    Terminal { source: io::Error },
    /// An existing file could not be read.
    #[error("secret file {}: {source}: correct the path or its permissions", .path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// Maximum number of bytes read from a file.
const FILE_LEN_MAX: u64 = 4096;

/// Reads the secret in a file: its first line. `-` is stdin: a terminal asks for the secret, and does not show it.
pub(crate) fn read_secret(path: &Path) -> Result<SecretText, SecretFileError> {
    if path == Path::new("-") && io::stdin().is_terminal() {
        let typed = rpassword::prompt_password("Secret: ");
        return typed.map(SecretText).map_err(|source| SecretFileError::Terminal { source });
    }
    let refused = |source| SecretFileError::Read { path: path.to_owned(), source };
    let mut text = SecretText(String::new());
    let input: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).map_err(refused)?),
    };
    input.take(FILE_LEN_MAX).read_to_string(&mut text.0).map_err(refused)?;
    Ok(SecretText(text.0.lines().next().unwrap_or_default().to_owned()))
}

/// A new file for a secret. It is removed on drop unless the secret was written.
pub(crate) struct SecretFile {
    file: File,
    path: PathBuf,
    is_kept: bool,
}

impl SecretFile {
    /// Creates the file. An existing one is not touched.
    pub(crate) fn create(path: &Path) -> Result<Self, SecretFileError> {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let path = path.to_owned();
        match made {
            Ok(file) => Ok(Self { file, path, is_kept: false }),
            Err(source) => Err(SecretFileError::Create { path, source }),
        }
    }

    /// Writes the secret durably.
    pub(crate) fn keep(mut self, secret: &SecretText) -> Result<(), SecretFileError> {
        let written = writeln!(self.file, "{}", secret.0).and_then(|()| self.file.sync_all());
        self.is_kept = written.is_ok();
        written.map_err(|source| SecretFileError::Write { path: self.path.clone(), source })
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // The file is empty or incomplete.
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
    fn a_secret_is_read_without_its_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["geheimgeheim", "geheimgeheim\n", "geheimgeheim\r\nmore\n"] {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(read_secret(file.path()).unwrap().0, "geheimgeheim");
        }
        let refused = read_secret(Path::new("/does/not/exist")).unwrap_err().to_string();
        assert!(refused.starts_with("secret file /does/not/exist: No such file"), "{refused}");
    }

    #[test]
    fn a_file_without_a_secret_goes_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.secret");
        drop(SecretFile::create(&path).unwrap());
        assert!(!path.exists());
    }
}
