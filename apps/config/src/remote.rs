//! Volumes of other nodes that this node serves: `NAME=direct://HOST:PORT/VOLUME`.

use std::str::FromStr;

use nearflash::direct::{Place, Url};
use nearflash_space::Name;

use super::ValueError;

/// A configured volume of another node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RemoteSpec {
    /// Its name on this node.
    pub name: Name,
    /// Its node, and its name there.
    pub url: Url,
}

impl FromStr for RemoteSpec {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let form = || ValueError::Remote(text.into());
        let (name, url) = text.split_once('=').ok_or_else(form)?;
        Self::of_parts(name, url)
    }
}

impl RemoteSpec {
    /// The volume of another node at a URL, under a name of this node.
    ///
    /// # Errors
    /// When the name or the URL is not valid.
    pub fn of_parts(name: &str, url: &str) -> Result<Self, ValueError> {
        let form = || ValueError::Remote(format!("{name}={url}").into());
        let url: Url = url.parse()?;
        match (&url.place, &url.volume) {
            (Place::Tcp { .. }, Some(_)) => Ok(Self { name: name.parse()?, url }),
            _ => Err(form()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_volume_is_a_name_and_a_url_over_tcp_with_a_volume() {
        let spec: RemoteSpec = "data=direct://n1:4421/disk?key=a&secret-file=/x".parse().unwrap();
        assert_eq!(spec.name.as_str(), "data");
        assert_eq!(spec.url.volume.as_deref(), Some("disk"));
        for text in ["data", "data=direct://n1", "data=direct+local:/run/a.sock/disk"] {
            let refused = text.parse::<RemoteSpec>().unwrap_err().to_string();
            assert!(refused.contains("write NAME=direct://HOST:PORT/VOLUME"), "{refused}");
        }
        assert!("data=nvme://n1/disk".parse::<RemoteSpec>().is_err());
    }
}
