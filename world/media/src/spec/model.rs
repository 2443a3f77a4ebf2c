//! The options of the model devices. The bounds of their values are those of the models.

use nearflash_flash::ftl::{Collector, Moves};
use nearflash_flash::model::{FlashConfig, ModelConfigError, PcmConfig};
use nearflash_space::Name;
use nearflash_units::{ByteLen, Nanos, parse_duration, parse_size};

use super::{Backing, DeviceSpec, ParseDeviceSpecError, parse_nonzero, unknown};

/// The model of a device, and whether it has contents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ModelSpec {
    /// The model.
    pub config: ModelConfig,
    /// Whether memory holds what is written; otherwise, reads return zeroes.
    pub has_contents: bool,
}

/// The configuration of a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ModelConfig {
    /// Flash.
    Flash(FlashConfig),
    /// Phase-change memory.
    Pcm(PcmConfig),
}

impl ModelSpec {
    /// The bytes that a host can address.
    pub fn len(&self) -> ByteLen {
        match &self.config {
            ModelConfig::Flash(config) => config.len,
            ModelConfig::Pcm(config) => config.len,
        }
    }

    /// Always `false`: the configuration has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The bytes of memory that the device takes when all of it is written.
    ///
    /// # Errors
    /// When a bound of the configuration does not hold.
    pub fn memory(&self) -> Result<ByteLen, ModelConfigError> {
        let tables = match &self.config {
            ModelConfig::Flash(config) => config.memory()?,
            ModelConfig::Pcm(config) => config.memory()?,
        };
        let contents = if self.has_contents { self.len() } else { ByteLen(0) };
        Ok(ByteLen(tables.0.saturating_add(contents.0)))
    }
}

/// An option: its key, the form of its value with an example, and how it is set. A value that does
/// not have that form is refused.
type Setting<C> = (&'static str, &'static str, fn(&mut C, &str) -> Option<()>);

const FLASH: [Setting<FlashConfig>; 10] = [
    ("spare", "a percentage, such as 12%", |config, text| {
        config.spare_percent = percent(text)?;
        Some(())
    }),
    ("page", "a size, such as 4KiB", |config, text| {
        config.page = parse_size(text).ok()?;
        Some(())
    }),
    ("block", "a size, such as 1MiB", |config, text| {
        config.block = parse_size(text).ok()?;
        Some(())
    }),
    ("gc", "greedy, cost-benefit or fifo", |config, text| {
        config.collector = named(&COLLECTORS, text)?;
        Some(())
    }),
    ("moves", "apart or mixed", |config, text| {
        config.moves = named(&MOVES, text)?;
        Some(())
    }),
    ("dies", "a number, such as 8", |config, text| {
        config.dies = text.parse().ok()?;
        Some(())
    }),
    ("read", TIME, |config, text| {
        config.times.read = time(text)?;
        Some(())
    }),
    ("program", TIME, |config, text| {
        config.times.program = time(text)?;
        Some(())
    }),
    ("erase", TIME, |config, text| {
        config.times.erase = time(text)?;
        Some(())
    }),
    ("endurance", "a number, such as 3000", |config, text| {
        config.endurance = text.parse().ok()?;
        Some(())
    }),
];

const PCM: [Setting<PcmConfig>; 4] = [
    ("start-gap", "a number of writes, such as 100", |config, text| {
        config.writes_per_move = Some(text.parse().ok()?);
        Some(())
    }),
    ("read", TIME, |config, text| {
        config.read = time(text)?;
        Some(())
    }),
    ("write", TIME, |config, text| {
        config.write = time(text)?;
        Some(())
    }),
    ("endurance", "a number, such as 100000000", |config, text| {
        config.endurance = text.parse().ok()?;
        Some(())
    }),
];

const COLLECTORS: [(&str, Collector); 3] = [
    ("greedy", Collector::Greedy),
    ("cost-benefit", Collector::CostBenefit),
    ("fifo", Collector::Fifo),
];

const MOVES: [(&str, Moves); 2] = [("apart", Moves::Apart), ("mixed", Moves::Mixed)];

const TIME: &str = "a time with its unit, such as 60us, 48ns or 2ms";

const FLASH_KEYS: &str = "spare, page, block, gc, moves, dies, read, program, erase, endurance and \
     data=none";

const PCM_KEYS: &str = "start-gap, randomise, read, write, endurance and data=none";

pub(super) fn flash(
    name: Name,
    size: &str,
    options: &[&str],
) -> Result<DeviceSpec, ParseDeviceSpecError> {
    let mut config = FlashConfig::typical(parse_nonzero(&name, size)?);
    let mut has_contents = true;
    for option in options {
        match *option {
            "data=none" => has_contents = false,
            option => set(&name, &FLASH, &mut config, (option, FLASH_KEYS))?,
        }
    }
    checked(name, ModelSpec { config: ModelConfig::Flash(config), has_contents })
}

pub(super) fn pcm(
    name: Name,
    size: &str,
    options: &[&str],
) -> Result<DeviceSpec, ParseDeviceSpecError> {
    let mut config = PcmConfig::typical(parse_nonzero(&name, size)?);
    let mut has_contents = true;
    for option in options {
        match *option {
            "data=none" => has_contents = false,
            "randomise" => config.randomise = true,
            option => set(&name, &PCM, &mut config, (option, PCM_KEYS))?,
        }
    }
    checked(name, ModelSpec { config: ModelConfig::Pcm(config), has_contents })
}

fn set<C>(
    name: &Name,
    settings: &[Setting<C>],
    config: &mut C,
    (option, known): (&str, &'static str),
) -> Result<(), ParseDeviceSpecError> {
    let (key, text) = option.split_once('=').unwrap_or((option, ""));
    let Some((key, form, set)) = settings.iter().find(|(known, ..)| *known == key) else {
        return Err(unknown(name.clone(), option, known));
    };
    set(config, text).ok_or_else(|| ParseDeviceSpecError::Value {
        name: name.clone(),
        key,
        text: text.into(),
        form,
    })
}

fn checked(name: Name, model: ModelSpec) -> Result<DeviceSpec, ParseDeviceSpecError> {
    match model.memory() {
        Ok(_) => {
            Ok(DeviceSpec { name, backing: Backing::Model(model), wipe: false, page_cache: false })
        }
        Err(source) => Err(ParseDeviceSpecError::Model { name, source }),
    }
}

fn percent(text: &str) -> Option<u32> {
    text.strip_suffix('%')?.parse().ok()
}

/// A time. A number alone would be seconds, which nobody means here.
fn time(text: &str) -> Option<Nanos> {
    let has_unit = !text.ends_with(|last: char| last.is_ascii_digit());
    parse_duration(text).ok().filter(|_| has_unit)
}

fn named<T: Copy>(names: &[(&str, T)], text: &str) -> Option<T> {
    names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    let found = names.iter().find(|(_, known)| known == value);
    found.expect("each value has a name").0
}

/// The text form, with all options.
impl std::fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.config {
            ModelConfig::Flash(config) => {
                let FlashConfig { len, spare_percent, page, block, dies, times, endurance, .. } =
                    config;
                let gc = name_of(&COLLECTORS, &config.collector);
                let moves = name_of(&MOVES, &config.moves);
                let (read, program, erase) = (times.read.0, times.program.0, times.erase.0);
                write!(
                    f,
                    "flash:{len},spare={spare_percent}%,page={page},block={block},gc={gc},\
                     moves={moves},dies={dies},read={read}ns,program={program}ns,erase={erase}ns,\
                     endurance={endurance}"
                )?;
            }
            ModelConfig::Pcm(config) => {
                let PcmConfig { len, writes_per_move, randomise, read, write, endurance } = config;
                write!(f, "pcm:{len}")?;
                if let Some(writes) = writes_per_move {
                    write!(f, ",start-gap={writes}")?;
                }
                f.write_str(if *randomise { ",randomise" } else { "" })?;
                write!(f, ",read={}ns,write={}ns,endurance={endurance}", read.0, write.0)?;
            }
        }
        f.write_str(if self.has_contents { "" } else { ",data=none" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> DeviceSpec {
        text.parse().unwrap()
    }

    fn refused(text: &str) -> String {
        text.parse::<DeviceSpec>().unwrap_err().to_string()
    }

    #[test]
    fn every_option_of_flash_is_read() {
        let text = "f=flash:16GiB,spare=7%,page=16KiB,block=4MiB,gc=greedy,moves=mixed,dies=4,\
                    read=50us,program=1ms,erase=3ms,endurance=1000,data=none";
        let Backing::Model(model) = parsed(text).backing else { panic!("it is a model") };
        let ModelConfig::Flash(config) = model.config else { panic!("it is flash") };
        assert_eq!((config.len, config.spare_percent), (ByteLen(16 << 30), 7));
        assert_eq!((config.page, config.block), (ByteLen(16 << 10), ByteLen(4 << 20)));
        assert_eq!((config.collector, config.moves), (Collector::Greedy, Moves::Mixed));
        let times = [config.times.read, config.times.program, config.times.erase];
        assert_eq!(times, [50, 1_000, 3_000].map(Nanos::from_micros));
        assert_eq!((config.dies, config.endurance, model.has_contents), (4, 1_000, false));
    }

    #[test]
    fn every_option_of_phase_change_memory_is_read() {
        let text = "p=pcm:1GiB,start-gap=100,randomise,read=50ns,write=1us,endurance=7";
        let Backing::Model(model) = parsed(text).backing else { panic!("it is a model") };
        let config = PcmConfig {
            len: ByteLen(1 << 30),
            writes_per_move: Some(100),
            randomise: true,
            read: Nanos(50),
            write: Nanos(1_000),
            endurance: 7,
        };
        assert_eq!(model, ModelSpec { config: ModelConfig::Pcm(config), has_contents: true });
    }

    #[test]
    fn a_written_model_is_read_back_as_the_same() {
        for text in [
            "f=flash:1GiB",
            "f=flash:1GiB,spare=28%,gc=fifo,moves=mixed,data=none,read=0ns",
            "p=pcm:1MiB",
            "p=pcm:1MiB,start-gap=7,randomise,data=none",
        ] {
            assert_eq!(parsed(&parsed(text).to_string()), parsed(text));
        }
    }

    #[test]
    fn an_invalid_option_is_refused_with_its_form_or_its_bounds() {
        let flash = |option: &str| refused(&format!("f=flash:1GiB,{option}"));
        assert_eq!(
            flash("spare=12"),
            "device 'f': 'spare=12' is not valid: write a percentage, such as 12%"
        );
        assert_eq!(
            flash("read=60"),
            "device 'f': 'read=60' is not valid: write a time with its unit, such as 60us, 48ns or \
             2ms"
        );
        for option in ["gc=lru", "dies=-1", "dies", "page=big", "moves=", "endurance=3k"] {
            assert!(flash(option).contains("is not valid: write "), "{}", flash(option));
        }
        assert_eq!(flash("spare=0%"), "device 'f': spare=0% is outside 1% to 400%: use spare=12%");
        assert!(flash("page=5KiB").contains("is not a power of two"), "{}", flash("page=5KiB"));
        assert_eq!(
            flash("streams=4"),
            "device 'f': 'streams=4' is not a valid option: use spare, page, block, gc, moves, \
             dies, read, program, erase, endurance and data=none"
        );
        assert_eq!(
            refused("p=pcm:1GiB,program=1us"),
            "device 'p': 'program=1us' is not a valid option: use start-gap, randomise, read, write, \
             endurance and data=none"
        );
        assert!(refused("p=pcm:1GiB,randomise").contains("add start-gap=100"));
        assert!(refused("f=flash:0").contains("has size zero"));
        assert!(refused("f=flash:8MiB").contains("garbage collection needs 4"));
    }
}
