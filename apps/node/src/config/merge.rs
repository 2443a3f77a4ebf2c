//! Merges the values of the file with those of the flags, and keeps the source of each.

use std::path::Path;

use nearflash_space::Name;

use super::args::CoreList;
use super::cores::{allowed_cores, display_cores, parse_cores};
use super::door::{Admits, Door, DoorOptions, Protocol, parse_door};
use super::hosts::{Hosts, parse_host};
use super::{ConfigError, Key, Origin, ValueError};

/// A value and its source.
#[derive(Clone, Debug)]
pub(super) struct Written<T> {
    pub(super) origin: Origin,
    pub(super) value: T,
}

/// Merges the values of a file, if there is one, with those of the flags.
pub(super) struct Merge<'a> {
    pub(super) file: &'a Path,
}

impl Written<String> {
    fn parse<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Result<Written<T>, ConfigError> {
        let parsed = parse(&self.value).map_err(|source| self.refused(key, source))?;
        Ok(Written { origin: self.origin.clone(), value: parsed })
    }
}

impl<T> Written<T> {
    fn key(&self, name: &'static str) -> Key {
        Key { origin: self.origin.clone(), name }
    }

    fn refused(&self, name: &'static str, source: ValueError) -> ConfigError {
        ConfigError::Value { key: self.key(name), source }
    }
}

impl Merge<'_> {
    fn in_file(&self, value: String) -> Written<String> {
        Written { origin: Origin::File(self.file.to_owned()), value }
    }

    /// A single value: the flag's, otherwise the file's.
    pub(super) fn one<T>(
        &self,
        key: &'static str,
        (file, flag): (Option<String>, Option<String>),
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Result<Option<T>, ConfigError> {
        Ok(self.one_written(key, (file, flag), parse)?.map(|written| written.value))
    }

    fn one_written<T>(
        &self,
        key: &'static str,
        (file, flag): (Option<String>, Option<String>),
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Result<Option<Written<T>>, ConfigError> {
        let written = flag.map(as_flag).or_else(|| file.map(|value| self.in_file(value)));
        written.map(|written| written.parse(key, parse)).transpose()
    }

    /// The flags' values if there are any, otherwise the file's.
    fn either(&self, file: Vec<String>, flags: Vec<String>) -> Vec<Written<String>> {
        if flags.is_empty() {
            file.into_iter().map(|value| self.in_file(value)).collect()
        } else {
            flags.into_iter().map(as_flag).collect()
        }
    }

    /// The values of both the file and the flags; a flag replaces the file's value of the same
    /// name.
    pub(super) fn named<T>(
        &self,
        key: &'static str,
        (file, flags): (Vec<String>, Vec<String>),
        parse: impl Fn(&str) -> Result<T, ValueError>,
        name_of: impl Fn(&T) -> &Name,
    ) -> Result<Vec<Written<T>>, ConfigError> {
        let read = |written: Vec<Written<String>>| {
            let mut read: Vec<Written<T>> = Vec::new();
            for written in written {
                let fresh = written.parse(key, &parse)?;
                let name = name_of(&fresh.value);
                if read.iter().any(|other| name_of(&other.value) == name) {
                    return Err(ConfigError::Twice { key: fresh.key(key), name: name.clone() });
                }
                read.push(fresh);
            }
            Ok(read)
        };
        let flags = read(flags.into_iter().map(as_flag).collect())?;
        let mut all = read(file.into_iter().map(|value| self.in_file(value)).collect())?;
        all.retain(|old| flags.iter().all(|new| name_of(&new.value) != name_of(&old.value)));
        all.extend(flags);
        Ok(all)
    }

    /// The doors of a protocol. They admit only peers that authenticate until [`Hosts::open`] says
    /// otherwise.
    pub(super) fn doors(
        &self,
        protocol: Protocol,
        file: Vec<String>,
        flags: Vec<String>,
    ) -> Result<Vec<Door>, ConfigError> {
        let key = protocol.key();
        let mut written = self.either(file, flags);
        if written.is_empty() {
            written.extend(protocol.default_address().map(|address| as_flag(address.to_owned())));
        }
        let door = |written: Written<String>| {
            let (address, options) = written.parse(key, |text| parse_door(text, protocol))?.value;
            let DoorOptions { is_strict, tls } = options;
            let (admits, key) = (Admits::Proven, written.key(key));
            Ok(Door { protocol, address, admits, is_strict, tls, key })
        };
        written.into_iter().map(door).collect()
    }

    /// The values of `--host`; `any` must stand alone.
    pub(super) fn hosts(
        &self,
        file: Vec<String>,
        flags: Vec<String>,
    ) -> Result<Hosts, ConfigError> {
        let written = self.either(file, flags);
        match written.iter().find(|written| written.value == "any") {
            Some(any) if written.len() > 1 => Err(any.refused("host", ValueError::AnyAndOthers)),
            _ => {
                let hosts = written.iter().map(|host| Ok(host.parse("host", parse_host)?.value));
                Ok(Hosts(hosts.collect::<Result<_, _>>()?))
            }
        }
    }

    pub(super) fn cores(
        &self,
        file: Option<CoreList>,
        flag: Option<String>,
    ) -> Result<Vec<usize>, ConfigError> {
        let allowed = allowed_cores();
        let file = file.map(CoreList::into_text);
        let Some(written) = self.one_written("cores", (file, flag), parse_cores)? else {
            // By default a node takes one processor, the first.
            return Ok(allowed.into_iter().take(1).collect());
        };
        match written.value.iter().find(|core| !allowed.contains(core)) {
            None => Ok(written.value),
            Some(core) => Err(ConfigError::NoSuchCore {
                key: written.key("cores"),
                core: *core,
                allowed: display_cores(&allowed),
            }),
        }
    }
}

fn as_flag(value: String) -> Written<String> {
    Written { origin: Origin::Flag, value }
}
