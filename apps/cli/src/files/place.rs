//! A place of a command line: the URL of a volume, and a path in the volume.

use std::str::FromStr;

use nearflash::direct::Url;
use nearflash::url::decode_bytes;
use nearflash_files_service::{NameError, PATH_LEN_MAX, Path};

use super::FilesFailure;

/// A path in a volume.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The URL of the volume.
    pub(super) url: Url,
    pub(super) path: Path,
    /// Whether the path ends with a slash, as that of a directory.
    pub(super) is_directory: bool,
}

/// `direct://HOST:PORT/VOLUME[/PATH][?OPTIONS]`, or the same with `direct+tls` or `direct+local:PATH.sock`. The path
/// is percent-encoded; its bytes need not be UTF-8.
impl FromStr for Place {
    type Err = FilesFailure;

    fn from_str(text: &str) -> Result<Self, FilesFailure> {
        let (body, options) = match text.split_once('?') {
            Some((body, options)) => (body, format!("?{options}")),
            None => (text, String::new()),
        };
        let (volume, path) = body.split_at(end_of_volume(body));
        let url = format!("{volume}{options}").parse()?;
        Ok(Self { url, path: parsed(path)?, is_directory: path.ends_with('/') })
    }
}

/// The beginnings of URLs.
const SCHEMES: [&str; 3] = ["direct:", "direct+tls:", "direct+local:"];

impl Place {
    /// The path of another place in this volume: a URL, or a path from the root.
    pub(super) fn sibling(&self, text: &str) -> Result<Path, FilesFailure> {
        if !SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(Path::parse(text.as_bytes())?);
        }
        let other: Self = text.parse()?;
        let is_same = other.url.place == self.url.place && other.url.volume == self.url.volume;
        match is_same {
            true => Ok(other.path),
            false => {
                let (from, to) = (self.url.to_string(), other.url.to_string());
                Err(FilesFailure::OtherVolume { from, to })
            }
        }
    }

    /// Refuses a path where a volume is meant.
    pub(super) fn refuse_path(&self) -> Result<(), FilesFailure> {
        match self.path.is_root() {
            true => Ok(()),
            false => Err(FilesFailure::PathOfVolume {
                url: self.url.to_string(),
                path: self.path.to_string(),
            }),
        }
    }
}

/// The path, decoded. A long one is refused before it is copied.
fn parsed(path: &str) -> Result<Path, FilesFailure> {
    let encoded_len_max = 3 * PATH_LEN_MAX + 1;
    if path.len() > encoded_len_max {
        return Err(NameError::PathTooLong(path.len()).into());
    }
    let path = path.strip_prefix('/').unwrap_or(path);
    Ok(Path::parse(&decode_bytes(path)?)?)
}

/// The end of the volume's name: the second slash behind the node's address.
fn end_of_volume(body: &str) -> usize {
    let address = match body.split_once("://") {
        Some((scheme, _)) => scheme.len() + "://".len(),
        None => body.find(".sock/").map_or(body.len(), |at| at + ".sock".len()),
    };
    let slash = |from: usize| body[from..].find('/').map(|at| from + at);
    slash(address).and_then(|first| slash(first + 1)).unwrap_or(body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(text: &str) -> (String, String) {
        let place: Place = text.parse().unwrap();
        (place.url.to_string(), place.path.to_string())
    }

    #[test]
    fn a_place_is_a_volume_and_a_path() {
        for (text, url, path) in [
            ("direct://n:1/data", "direct://n:1/data", "/"),
            ("direct://n:1/data/", "direct://n:1/data", "/"),
            ("direct+tls://n/data/a?key=app&secret-file=/s", "direct+tls://n:4421/data", "/a"),
            ("direct://n:1/data/a//b/?key=app&secret-file=/s/t", "direct://n:1/data", "/a/b"),
            ("direct://[::1]/data/100%25%20%3F", "direct://[::1]:4421/data", "/100% ?"),
            (
                "direct+local:/run/n.sock/data/a.sock/b",
                "direct+local:/run/n.sock/data",
                "/a.sock/b",
            ),
            ("direct+local:n.sock/data", "direct+local:n.sock/data", "/"),
        ] {
            assert_eq!(divided(text), (url.to_owned(), path.to_owned()), "{text}");
        }
        let place: Place = "direct://n/data/%FF/%0A".parse().unwrap();
        assert_eq!(place.path, Path::parse(b"/\xFF/\n").unwrap());
        let place: Place = "direct://n/data/a?key=app&secret-file=/s".parse().unwrap();
        assert_eq!(place.url.key.as_deref(), Some("app"));
    }

    #[test]
    fn a_wrong_place_is_refused_on_one_line_with_its_reason() {
        let long = format!("direct://n/data/{}", "a/".repeat(2049));
        let name = format!("direct://n/data/{}", "a".repeat(256));
        let huge = format!("direct://n/data/{}", "a".repeat(1 << 20));
        for (text, reason) in [
            ("/tmp/x", "direct://HOST:PORT/VOLUME"),
            ("direct://n/data/a%2", "%25"),
            ("direct://n/data/../a", "'..'"),
            (&long, "4098 bytes is too long: the maximum is 4096"),
            (&name, "256 bytes is too long: the maximum is 255"),
            (&huge, "too long"),
        ] {
            let message = text.parse::<Place>().unwrap_err().to_string();
            assert!(message.contains(reason) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn a_new_name_is_a_path_or_a_url_of_the_same_volume() {
        let place: Place = "direct://n/data/a".parse().unwrap();
        for to in ["b/c", "/b/c", "direct://n:4421/data/b/c"] {
            assert_eq!(place.sibling(to).unwrap().to_string(), "/b/c");
        }
        for to in ["direct://m/data/b", "direct://n/other/b"] {
            let message = place.sibling(to).unwrap_err().to_string();
            assert!(message.contains("within its volume"), "{message}");
        }
    }
}
