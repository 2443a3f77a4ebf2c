//! The text form of a device: `NAME=KIND:WHAT[,option…]`.

mod model;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nearflash_flash::model::ModelConfigError;
use nearflash_space::{Name, ParseNameError};
use nearflash_units::{
    ByteLen, Nanos, ParseDurationError, ParseSizeError, parse_duration, parse_size,
};

pub use model::{ModelConfig, ModelSpec};

/// The delays of the null device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NullDelays {
    /// The delay of a read.
    pub read: Nanos,
    /// The delay of a write, and of every other operation that changes blocks.
    pub write: Nanos,
}

/// A configured device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeviceSpec {
    /// Its name.
    pub name: Name,
    /// Its kind, with the parameters of that kind.
    pub backing: Backing,
    /// Whether to take the device even if it holds foreign data.
    pub wipe: bool,
    /// Whether a file or block device is used through the kernel's page cache.
    pub page_cache: bool,
}

/// The storage of a device's blocks.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Backing {
    /// `file:PATH[,size=SIZE][,page-cache]`: a file; an absent one is created sparse, and needs the size.
    File {
        path: PathBuf,
        /// The expected size, if given.
        size: Option<ByteLen>,
    },
    /// `block:/dev/…[,page-cache]`: a block device.
    Block { path: PathBuf },
    /// `ram:SIZE`: memory.
    Ram { size: ByteLen },
    /// `null:SIZE[,read-delay=TIME][,write-delay=TIME]`: the null device.
    Null { size: ByteLen, delays: NullDelays },
    /// `flash:SIZE[,…]` and `pcm:SIZE[,…]`: a model of flash or of phase-change memory.
    Model(ModelSpec),
}

/// The error of a text that is not a device.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ParseDeviceSpecError {
    /// The text does not have the form of a device.
    #[error(
        "'{text}' is not a valid device: write NAME=file:PATH,size=SIZE, NAME=block:/dev/…, \
         NAME=ram:SIZE, NAME=null:SIZE, NAME=flash:SIZE or NAME=pcm:SIZE"
    )]
    Form { text: Box<str> },
    /// The part before `=` is not a name.
    #[error("device name {0}")]
    Name(#[from] ParseNameError),
    /// A size is not valid.
    #[error("device '{name}': {source}")]
    Size { name: Name, source: ParseSizeError },
    /// The size is zero.
    #[error("device '{name}' has size zero: write at least 1MiB")]
    Empty { name: Name },
    /// A delay is not valid.
    #[error("device '{name}': {source}")]
    Delay { name: Name, source: ParseDurationError },
    /// The value of an option does not have its form.
    #[error("device '{name}': '{key}={text}' is not valid: write {form}")]
    Value { name: Name, key: &'static str, text: Box<str>, form: &'static str },
    /// A model's configuration is out of its bounds.
    #[error("device '{name}': {source}")]
    Model { name: Name, source: ModelConfigError },
    /// This kind of device does not have this option.
    #[error("device '{name}': '{option}' is not a valid option: use {known}")]
    Option { name: Name, option: Box<str>, known: &'static str },
}

impl DeviceSpec {
    /// The configured size of a device in memory (RAM, null or a model), which is recorded nowhere else.
    pub fn memory_size(&self) -> Option<ByteLen> {
        match &self.backing {
            Backing::Ram { size } | Backing::Null { size, .. } => Some(*size),
            Backing::Model(model) => Some(model.len()),
            Backing::File { .. } | Backing::Block { .. } => None,
        }
    }

    /// Whether reads return what was written.
    pub fn keeps_data(&self) -> bool {
        match &self.backing {
            Backing::Null { .. } => false,
            Backing::Model(model) => model.has_contents,
            Backing::File { .. } | Backing::Block { .. } | Backing::Ram { .. } => true,
        }
    }

    /// The name of its kind, as in the text form.
    pub fn kind(&self) -> &'static str {
        match &self.backing {
            Backing::File { .. } => "file",
            Backing::Block { .. } => "block",
            Backing::Ram { .. } => "ram",
            Backing::Null { .. } => "null",
            Backing::Model(ModelSpec { config: ModelConfig::Flash(_), .. }) => "flash",
            Backing::Model(ModelSpec { config: ModelConfig::Pcm(_), .. }) => "pcm",
        }
    }

    /// The configured size, if there is one.
    pub fn size(&self) -> Option<ByteLen> {
        match &self.backing {
            Backing::File { size, .. } => *size,
            _ => self.memory_size(),
        }
    }

    /// The path of the file or block device; empty for other kinds.
    pub fn path(&self) -> &Path {
        match &self.backing {
            Backing::File { path, .. } | Backing::Block { path } => path,
            Backing::Ram { .. } | Backing::Null { .. } | Backing::Model(_) => Path::new(""),
        }
    }

    /// The device of a name, a kind, the path or size of that kind, and options as in the text form. A
    /// path can have commas here.
    ///
    /// # Errors
    /// When one of them is not valid.
    pub fn of_parts(
        name: &str,
        kind: &str,
        what: &str,
        options: &[&str],
    ) -> Result<Self, ParseDeviceSpecError> {
        let name: Name = name.parse()?;
        let parser = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, parser)| parser);
        match parser {
            Some(parser) if !what.is_empty() => parser(name, what, options),
            _ => Err(ParseDeviceSpecError::Form { text: format!("{name}={kind}:{what}").into() }),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = ParseDeviceSpecError;

    fn from_str(text: &str) -> Result<Self, ParseDeviceSpecError> {
        let form = || ParseDeviceSpecError::Form { text: text.into() };
        let (name, rest) = text.split_once('=').ok_or_else(form)?;
        let _: Name = name.parse()?;
        let (kind, rest) = rest.split_once(':').ok_or_else(form)?;
        let (what, options) = rest.split_once(',').unwrap_or((rest, ""));
        let options = options.split(',').filter(|option| !option.is_empty());
        Self::of_parts(name, kind, what, &options.collect::<Vec<_>>()).map_err(
            |error| match error {
                ParseDeviceSpecError::Form { .. } => form(),
                other => other,
            },
        )
    }
}

/// The text form, which parses to the same device.
impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.name)?;
        match &self.backing {
            Backing::File { path, size: None } => write!(f, "file:{}", path.display())?,
            Backing::File { path, size: Some(size) } => {
                write!(f, "file:{},size={size}", path.display())?;
            }
            Backing::Block { path } => write!(f, "block:{}", path.display())?,
            Backing::Ram { size } => write!(f, "ram:{size}")?,
            Backing::Null { size, delays: NullDelays { read, write } } => {
                write!(f, "null:{size},read-delay={}ns,write-delay={}ns", read.0, write.0)?;
            }
            Backing::Model(model) => write!(f, "{model}")?,
        }
        f.write_str(if self.page_cache { ",page-cache" } else { "" })?;
        f.write_str(if self.wipe { ",wipe" } else { "" })
    }
}

type Parser = fn(Name, &str, &[&str]) -> Result<DeviceSpec, ParseDeviceSpecError>;

const KINDS: [(&str, Parser); 6] = [
    ("file", file),
    ("block", block),
    ("ram", ram),
    ("null", null),
    ("flash", model::flash),
    ("pcm", model::pcm),
];

fn file(name: Name, path: &str, options: &[&str]) -> Result<DeviceSpec, ParseDeviceSpecError> {
    let (mut size, mut wipe, mut page_cache) = (None, false, false);
    for option in options {
        match option.split_once('=') {
            Some(("size", text)) => size = Some(parse_nonzero(&name, text)?),
            None if *option == "wipe" => wipe = true,
            None if *option == "page-cache" => page_cache = true,
            _ => return Err(unknown(name, option, "size=SIZE, page-cache and wipe")),
        }
    }
    Ok(DeviceSpec { name, backing: Backing::File { path: path.into(), size }, wipe, page_cache })
}

fn block(name: Name, path: &str, options: &[&str]) -> Result<DeviceSpec, ParseDeviceSpecError> {
    let (mut wipe, mut page_cache) = (false, false);
    for option in options {
        match *option {
            "wipe" => wipe = true,
            "page-cache" => page_cache = true,
            _ => return Err(unknown(name, option, "page-cache and wipe")),
        }
    }
    Ok(DeviceSpec { name, backing: Backing::Block { path: path.into() }, wipe, page_cache })
}

fn ram(name: Name, size: &str, options: &[&str]) -> Result<DeviceSpec, ParseDeviceSpecError> {
    if let Some(option) = options.first() {
        return Err(unknown(name, option, "none"));
    }
    let size = parse_nonzero(&name, size)?;
    Ok(DeviceSpec { name, backing: Backing::Ram { size }, wipe: false, page_cache: false })
}

fn null(name: Name, size: &str, options: &[&str]) -> Result<DeviceSpec, ParseDeviceSpecError> {
    let mut delays = NullDelays::default();
    for option in options {
        let delay = match option.split_once('=') {
            Some(("read-delay", text)) => (&mut delays.read, text),
            Some(("write-delay", text)) => (&mut delays.write, text),
            _ => return Err(unknown(name, option, "read-delay=TIME and write-delay=TIME")),
        };
        *delay.0 = parse_duration(delay.1)
            .map_err(|source| ParseDeviceSpecError::Delay { name: name.clone(), source })?;
    }
    let size = parse_nonzero(&name, size)?;
    Ok(DeviceSpec { name, backing: Backing::Null { size, delays }, wipe: false, page_cache: false })
}

fn parse_nonzero(name: &Name, text: &str) -> Result<ByteLen, ParseDeviceSpecError> {
    match parse_size(text) {
        Ok(ByteLen(0)) => Err(ParseDeviceSpecError::Empty { name: name.clone() }),
        Ok(size) => Ok(size),
        Err(source) => Err(ParseDeviceSpecError::Size { name: name.clone(), source }),
    }
}

fn unknown(name: Name, option: &str, known: &'static str) -> ParseDeviceSpecError {
    ParseDeviceSpecError::Option { name, option: option.into(), known }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> DeviceSpec {
        text.parse().unwrap()
    }

    #[test]
    fn devices_are_read_as_people_write_them() {
        let file = parsed("flash=file:/srv/x.img,size=16GiB,wipe");
        let backing = Backing::File { path: "/srv/x.img".into(), size: Some(ByteLen(16 << 30)) };
        assert_eq!((file.name.as_str(), file.backing, file.wipe), ("flash", backing, true));
        let cached = |text: &str| parsed(text).page_cache;
        assert!(cached("c=file:x,page-cache") && cached("c=block:/dev/sdb,page-cache"));
        assert!(!cached("c=file:x,wipe") && !cached("c=block:/dev/sdb,wipe"));
        assert_eq!(parsed("b=block:/dev/sdb").backing, Backing::Block { path: "/dev/sdb".into() });
        assert_eq!(parsed("r=ram:1MiB").backing, Backing::Ram { size: ByteLen(1 << 20) });
        let delays = NullDelays { read: Nanos::from_micros(10), write: Nanos(0) };
        let null = Backing::Null { size: ByteLen(1 << 40), delays };
        assert_eq!(parsed("n=null:1TiB,read-delay=10us").backing, null);
    }

    #[test]
    fn a_written_device_is_read_back_as_the_same() {
        for text in [
            "a=file:x",
            "a=file:/x y,size=1GiB",
            "b=block:/dev/sdb,wipe",
            "b=block:/dev/sdb,page-cache",
            "c=file:x,wipe,size=1GiB,page-cache",
            "r=ram:5MiB",
            "n=null:1GiB,write-delay=3ms",
        ] {
            assert_eq!(parsed(&parsed(text).to_string()), parsed(text));
        }
    }

    #[test]
    fn what_is_no_device_is_refused_with_what_to_write() {
        let refused = |text: &str| text.parse::<DeviceSpec>().unwrap_err().to_string();
        for text in ["", "x", "x=", "x=file", "x=file:", "x=disk:/dev/sda", "file:/x"] {
            let message = refused(text);
            assert!(message.contains("write NAME=") || message.contains("is not a"), "{message}");
        }
        assert_eq!(
            refused("x=ram:2Gig"),
            "device 'x': '2Gig' is not a size: write a whole number and a unit, for example 512, \
             64KiB or 8GiB"
        );
        assert_eq!(refused("x=ram:0"), "device 'x' has size zero: write at least 1MiB");
        assert_eq!(
            refused("x=file:/f,sise=1G"),
            "device 'x': 'sise=1G' is not a valid option: use size=SIZE, page-cache and wipe"
        );
        assert_eq!(
            refused("x=null:1G,read-delay=soon"),
            "device 'x': 'soon' is not a valid time: write a whole number and a unit, for example \
             10us, 5ms or 2s"
        );
    }
}
