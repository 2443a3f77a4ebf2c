//! Merges the values of the file with those of the flags, and keeps the source of each.
//!
//! Every value is read, so that all errors are reported.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use nearflash_space::Name;

use super::cores::{allowed_cores, display_cores, parse_cores};
use super::door::{Admits, Door, DoorOptions, Protocol, parse_door};
use super::file::{File, Given, Table, Value};
use super::hosts::{Hosts, parse_host};
use super::{ConfigError, Key, Origin, Purpose, ValueError};

/// A value and its source.
#[derive(Clone, Debug)]
pub(super) struct Written<T> {
    pub(super) origin: Origin,
    pub(super) value: T,
}

/// Merges the values of a file, which may be empty, with those of the flags.
pub(super) struct Merge<'a> {
    file: &'a File,
    purpose: Purpose,
    errors: RefCell<Vec<ConfigError>>,
    /// A device was refused, so volumes on it may be right.
    lacks_device: Cell<bool>,
}

impl<T> Written<T> {
    pub(super) fn key(&self, name: &'static str) -> Key {
        Key { origin: self.origin.clone(), name }
    }

    fn refused(&self, name: &'static str, source: ValueError) -> ConfigError {
        ConfigError::Value { key: self.key(name), source }
    }
}

impl<'a> Merge<'a> {
    pub(super) fn new(file: &'a File, purpose: Purpose) -> Self {
        let (errors, lacks_device) = (RefCell::default(), Cell::new(false));
        Self { file, purpose, errors, lacks_device }
    }

    pub(super) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Whether a device or a volume of another node was refused.
    pub(super) fn lacks_device(&self) -> bool {
        self.lacks_device.get()
    }

    /// Notes an error. The result of the merge is not used.
    pub(super) fn refuse(&self, error: ConfigError) {
        self.errors.borrow_mut().push(error);
    }

    /// The value, or nothing and its error noted.
    pub(super) fn noted<T>(&self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.refuse(error)).ok()
    }

    /// All errors, in the order of their lines.
    pub(super) fn into_errors(self) -> Vec<ConfigError> {
        let mut errors = self.errors.into_inner();
        errors.sort_by_key(ConfigError::line);
        errors
    }

    fn in_file(&self, given: &Given) -> Written<Value> {
        let origin = Origin::File { path: self.file.path().to_owned(), line: given.line };
        Written { origin, value: given.value.clone() }
    }

    fn of_file(&self, key: &'static str) -> Vec<Written<Value>> {
        self.file.all(key).map(|given| self.in_file(given)).collect()
    }

    /// The texts of a key of the file, without its tables.
    fn texts(&self, key: &'static str) -> Vec<Written<String>> {
        let text = |written: Written<Value>| match written.value {
            Value::Text(value) => Some(Written { origin: written.origin, value }),
            Value::Table(_) => None,
        };
        self.of_file(key).into_iter().filter_map(text).collect()
    }

    fn parse<V, T>(
        &self,
        key: &'static str,
        written: &Written<V>,
        parse: impl Fn(&V) -> Result<T, ValueError>,
    ) -> Option<Written<T>> {
        let parsed = parse(&written.value).map_err(|source| written.refused(key, source));
        Some(Written { origin: written.origin.clone(), value: self.noted(parsed)? })
    }

    /// A single value: the flag's, otherwise the file's.
    pub(super) fn one<T>(
        &self,
        key: &'static str,
        flag: Option<String>,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Option<T> {
        Some(self.one_written(key, flag, parse)?.value)
    }

    fn one_written<T>(
        &self,
        key: &'static str,
        flag: Option<String>,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Option<Written<T>> {
        let written = flag.map(as_flag).or_else(|| self.texts(key).pop())?;
        self.parse(key, &written, |text| parse(text))
    }

    /// A path: the flag's, otherwise the file's.
    pub(super) fn path(&self, key: &'static str, flag: Option<PathBuf>) -> Option<PathBuf> {
        flag.or_else(|| Some(self.texts(key).pop()?.value.into()))
    }

    /// Whether a flag, or the file, switches it on.
    pub(super) fn is_on(&self, key: &'static str, flag: bool) -> bool {
        flag || !self.texts(key).is_empty()
    }

    /// The flags' values if there are any, otherwise the file's.
    fn either(&self, key: &'static str, flags: Vec<String>) -> Vec<Written<String>> {
        match flags.is_empty() {
            true => self.texts(key),
            false => flags.into_iter().map(as_flag).collect(),
        }
    }

    /// The values of both the file and the flags; a flag replaces the file's value of the same
    /// name.
    pub(super) fn named<T>(
        &self,
        key: &'static str,
        flags: Vec<String>,
        parse: impl Fn(&Value) -> Result<T, ValueError>,
        name_of: impl Fn(&T) -> &Name,
    ) -> Vec<Written<T>> {
        let before = self.errors.borrow().len();
        let flags = flags.into_iter().map(|text| as_flag(Value::Text(text)));
        let flags = self.distinct(key, flags.collect(), &parse, &name_of);
        let mut all = self.distinct(key, self.of_file(key), &parse, &name_of);
        all.retain(|old| flags.iter().all(|new| name_of(&new.value) != name_of(&old.value)));
        all.extend(flags);
        if self.errors.borrow().len() > before && ["device", "remote"].contains(&key) {
            self.lacks_device.set(true);
        }
        all
    }

    /// The values that are valid, each name once.
    fn distinct<T>(
        &self,
        key: &'static str,
        written: Vec<Written<Value>>,
        parse: impl Fn(&Value) -> Result<T, ValueError>,
        name_of: impl Fn(&T) -> &Name,
    ) -> Vec<Written<T>> {
        let mut read: Vec<Written<T>> = Vec::new();
        for fresh in written.iter().filter_map(|written| self.parse(key, written, &parse)) {
            let name = name_of(&fresh.value);
            if read.iter().any(|other| name_of(&other.value) == name) {
                let name = name.clone();
                self.refuse(ConfigError::Twice { key: fresh.key(key), name });
            } else {
                read.push(fresh);
            }
        }
        read
    }

    /// The tables of a key of the file, each with another identity.
    pub(super) fn tables<T, I: PartialEq + ToString>(
        &self,
        key: &'static str,
        parse: impl Fn(&Table) -> Result<T, ValueError>,
        identity: impl Fn(&T) -> I,
    ) -> Vec<Written<T>> {
        let mut read: Vec<Written<T>> = Vec::new();
        for written in self.of_file(key) {
            let Value::Table(table) = written.value else { continue };
            let written = Written { origin: written.origin, value: table };
            let Some(fresh) = self.parse(key, &written, &parse) else { continue };
            let found = identity(&fresh.value);
            if read.iter().any(|other| identity(&other.value) == found) {
                let twice = ValueError::Twice(found.to_string().into());
                self.refuse(fresh.refused(key, twice));
            } else {
                read.push(fresh);
            }
        }
        read
    }

    /// The doors of a protocol. They admit only peers that authenticate until [`Hosts::open`] says
    /// otherwise.
    pub(super) fn doors(&self, protocol: Protocol, flags: Vec<String>) -> Vec<Door> {
        let key = protocol.key();
        let mut written = self.either(key, flags);
        if written.is_empty() {
            written.extend(protocol.default_address().map(|address| as_flag(address.to_owned())));
        }
        let door = |written: Written<String>| {
            let parsed = self.parse(key, &written, |text| parse_door(text, protocol))?;
            let ((address, options), key) = (parsed.value, written.key(key));
            let DoorOptions { is_strict, tls } = options;
            Some(Door { protocol, address, admits: Admits::Proven, is_strict, tls, key })
        };
        written.into_iter().filter_map(door).collect()
    }

    /// The values of `--host`; `any` must stand alone.
    pub(super) fn hosts(&self, flags: Vec<String>) -> Hosts {
        let written = self.either("host", flags);
        if let Some(any) = written.iter().find(|written| written.value == "any")
            && written.len() > 1
        {
            self.refuse(any.refused("host", ValueError::AnyAndOthers));
        }
        let host = |written: &Written<String>| self.parse("host", written, |text| parse_host(text));
        Hosts(written.iter().filter_map(host).map(|host| host.value).collect())
    }

    pub(super) fn cores(&self, flag: Option<String>) -> Vec<usize> {
        let allowed = allowed_cores();
        let Some(written) = self.one_written("cores", flag, parse_cores) else {
            // By default a node takes one processor, the first.
            return allowed.into_iter().take(1).collect();
        };
        let is_absent = |core: &&usize| !allowed.contains(core);
        // A file may be for another machine.
        if self.purpose == Purpose::Serve
            && let Some(core) = written.value.iter().find(is_absent)
        {
            let (key, allowed) = (written.key("cores"), display_cores(&allowed));
            self.refuse(ConfigError::NoSuchCore { key, core: *core, allowed });
        }
        written.value
    }
}

fn as_flag<T>(value: T) -> Written<T> {
    Written { origin: Origin::Flag, value }
}
