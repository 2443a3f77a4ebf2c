//! The configuration file: TOML, whose keys have the names and values of the flags. A resource can also
//! be a table, with a key for each of its parts.
//!
//! The file is read to its end: all errors are reported, each with its line. This module knows which keys
//! there are and the TOML type of each; the values are texts, which others parse.

use std::path::{Path, PathBuf};

use nearflash_units::OneLine;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::nearest::nearest;
use super::tables;

/// The length in bytes of the longest configuration file that is read.
const FILE_LEN_MAX: u64 = 1 << 20;

/// The remedy for a key that is there twice, as TOML does not permit.
const TWICE: &str =
    "write one list, of strings and tables in braces, or only tables in double brackets";

/// The TOML type of a key's value.
#[derive(Clone, Copy)]
enum Form {
    /// A string.
    One,
    /// A string, or an integer.
    Number,
    /// `true` or `false`.
    Switch,
    /// A string, or a list of strings, as a flag is given once or several times.
    Many,
    /// [`Self::Many`], where each string can be a table.
    Resources(&'static TableForm),
    Tables(&'static TableForm),
}

const KEYS: [(&str, Form); 31] = [
    ("device", Form::Resources(&tables::DEVICE)),
    ("volume", Form::Resources(&tables::VOLUME)),
    ("remote", Form::Resources(&tables::REMOTE)),
    ("files", Form::Many),
    ("cluster", Form::Switch),
    ("slice", Form::Resources(&tables::SLICE)),
    ("node", Form::One),
    ("pulse", Form::One),
    ("pulse-proof", Form::One),
    ("nvme-tcp", Form::Many),
    ("advertise", Form::One),
    ("direct", Form::Many),
    ("direct-local", Form::One),
    ("iscsi", Form::Many),
    ("http", Form::One),
    ("http-cert", Form::One),
    ("http-key", Form::One),
    ("host", Form::Resources(&tables::HOST)),
    ("chap", Form::Tables(&tables::CHAP)),
    ("credential", Form::Tables(&tables::CREDENTIAL)),
    ("grant", Form::Tables(&tables::GRANT)),
    ("cores", Form::Number),
    ("data-dir", Form::One),
    ("pool", Form::One),
    ("spin", Form::One),
    ("unlisted-hosts", Form::One),
    ("anonymous", Form::One),
    ("ktls", Form::One),
    ("login-timeout", Form::One),
    ("stall-timeout", Form::One),
    ("log", Form::One),
];

/// The keys of a table.
pub(super) struct TableForm {
    /// The key of the list of tables.
    pub(super) name: &'static str,
    pub(super) keys: &'static [TableKey],
}

pub(super) struct TableKey {
    pub(super) name: &'static str,
    pub(super) is_required: bool,
    pub(super) form: KeyForm,
}

/// The TOML type of a key's value in a table.
#[derive(Clone, Copy)]
pub(super) enum KeyForm {
    /// A string, or an integer.
    Text,
    /// `true` or `false`.
    Switch,
    /// A list of strings and tables.
    List(&'static TableForm),
}

#[derive(Debug, Default)]
pub(super) struct File {
    path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    key: &'static str,
    given: Given,
}

/// A value, and its line in the file, from 1.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A value of a flag or a file.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Table(Table),
}

/// A table, whose keys are known, and which has all that are required.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// The keys with their values; a switch that is on has the value `true`, and one that is off is absent.
    fields: Vec<(&'static str, String)>,
    /// The keys whose values are lists.
    lists: Vec<(&'static str, Vec<Value>)>,
}

impl Table {
    /// The text of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(name, _)| *name == key);
        found.map(|(_, text)| text.as_str())
    }

    /// The text of a required key.
    pub(super) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    pub(super) fn list(&self, key: &str) -> Option<&[Value]> {
        let found = self.lists.iter().find(|(name, _)| *name == key);
        found.map(|(_, values)| values.as_slice())
    }

    /// All keys with their texts.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.fields.iter().map(|(key, text)| (*key, text.as_str()))
    }
}

impl File {
    /// Reads and parses a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read(path: &Path) -> Result<(Self, Vec<ConfigError>), Vec<ConfigError>> {
        let refused = |source| vec![ConfigError::Unreadable { path: path.to_owned(), source }];
        let len = std::fs::metadata(path).map_err(refused)?.len();
        if len > FILE_LEN_MAX {
            return Err(refused(std::io::ErrorKind::FileTooLarge.into()));
        }
        Ok(Self::parse(path, &std::fs::read_to_string(path).map_err(refused)?))
    }

    /// Parses a file: all that is valid, and all errors of its form, in the order of their lines.
    pub(super) fn parse(path: &Path, text: &str) -> (Self, Vec<ConfigError>) {
        let (root, faults) = DeTable::parse_recoverable(text);
        let file = Self { path: path.to_owned(), entries: Vec::new() };
        let mut reader = Reader { file, lines: Lines::of(text), errors: Vec::new() };
        for fault in &faults {
            let span = fault.span().unwrap_or_default();
            match text.get(span.clone()) {
                Some(key) if fault.message() == "duplicate key" => {
                    let key = key.trim_matches(['[', ']']);
                    reader.refuse(span.start, &format!("the key '{key}' is there twice: {TWICE}"));
                }
                _ => match without_quotes(text, span.start) {
                    Some((key, value)) => reader.refuse(
                        span.start,
                        &format!("a text is in quotes: write {key} = \"{value}\""),
                    ),
                    None => reader.refuse(span.start, fault.message()),
                },
            }
        }
        // The rest of a file that is not TOML may be misread.
        if faults.is_empty() {
            for (key, value) in root.get_ref() {
                reader.read_key(key.span().start, key.get_ref(), value);
            }
        }
        reader.errors.sort_by_key(ConfigError::line);
        (reader.file, reader.errors)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// All values of a key.
    pub(super) fn all(&self, key: &str) -> impl Iterator<Item = &Given> {
        self.entries.iter().filter(move |entry| entry.key == key).map(|entry| &entry.given)
    }
}

/// Reads a file to its end.
struct Reader {
    file: File,
    lines: Lines,
    errors: Vec<ConfigError>,
}

impl Reader {
    fn refuse(&mut self, start: usize, message: &str) {
        let (path, line) = (self.file.path.clone(), self.lines.line_of(start));
        let message = OneLine(message.trim().replace('\n', " ")).to_string().into();
        self.errors.push(ConfigError::Toml { path, line, message });
    }

    fn read_key(&mut self, start: usize, name: &str, value: &Spanned<DeValue<'_>>) {
        match KEYS.iter().find(|(known, _)| *known == name) {
            Some((key, form)) => self.read_value(key, *form, value),
            None => {
                let near = nearest(name, KEYS.iter().map(|(known, _)| *known));
                self.refuse(start, &format!("unknown key '{name}': the nearest key is '{near}'"));
            }
        }
    }

    fn read_value(&mut self, key: &'static str, form: Form, value: &Spanned<DeValue<'_>>) {
        let is_list = matches!(form, Form::Many | Form::Resources(_) | Form::Tables(_));
        if let (true, DeValue::Array(values)) = (is_list, value.get_ref()) {
            for value in values.iter() {
                self.read_one(key, form, value);
            }
        } else {
            self.read_one(key, form, value);
        }
    }

    fn read_one(&mut self, key: &'static str, form: Form, value: &Spanned<DeValue<'_>>) {
        let start = value.span().start;
        let found = match (form, value.get_ref()) {
            (Form::Switch, DeValue::Boolean(is_on)) => {
                return if *is_on {
                    self.keep(key, start, Value::Text("true".to_owned()))
                };
            }
            (Form::Number, DeValue::Integer(number)) => Some(Value::Text(number.to_string())),
            (Form::One | Form::Number | Form::Many | Form::Resources(_), DeValue::String(text)) => {
                Some(Value::Text(text.clone().into_owned()))
            }
            (Form::Resources(form) | Form::Tables(form), DeValue::Table(table)) => {
                match self.read_table(form, start, table) {
                    Some(table) => Some(Value::Table(table)),
                    None => return,
                }
            }
            _ => None,
        };
        match found {
            Some(value) => self.keep(key, start, value),
            None => self.refuse(start, &format!("{key}: expected {}", expected(form))),
        }
    }

    fn keep(&mut self, key: &'static str, start: usize, value: Value) {
        let line = self.lines.line_of(start);
        self.file.entries.push(Entry { key, given: Given { line, value } });
    }

    /// Reads a table. `None` if it has errors.
    fn read_table(
        &mut self,
        form: &'static TableForm,
        start: usize,
        table: &DeTable<'_>,
    ) -> Option<Table> {
        let (mut read, before) = (Table::default(), self.errors.len());
        for (key, value) in table {
            let (start, name) = (key.span().start, key.get_ref());
            let Some(known) = form.keys.iter().find(|known| known.name == *name) else {
                self.refuse(start, &unknown_key(form, name));
                continue;
            };
            let refused = match self.read_field(known, value, &mut read) {
                Ok(()) => continue,
                Err(expected) => format!("{}: {name}: expected {expected}", form.name),
            };
            self.refuse(start, &refused);
        }
        for key in form.keys.iter().filter(|key| key.is_required) {
            // A key whose value is refused is there.
            if !table.keys().any(|found| found.get_ref() == key.name) {
                self.refuse(start, &format!("{}: the key '{}' is missing", form.name, key.name));
            }
        }
        (self.errors.len() == before).then_some(read)
    }
}

fn unknown_key(form: &TableForm, name: &str) -> String {
    let near = nearest(name, form.keys.iter().map(|known| known.name));
    format!("unknown key '{name}' of {}: the nearest key is '{near}'", form.name)
}

impl Reader {
    /// Reads the value of a key of a table.
    ///
    /// # Errors
    /// The TOML type that is expected instead.
    fn read_field(
        &mut self,
        key: &TableKey,
        value: &Spanned<DeValue<'_>>,
        table: &mut Table,
    ) -> Result<(), &'static str> {
        match (key.form, value.get_ref()) {
            (KeyForm::Switch, DeValue::Boolean(false)) => {}
            (KeyForm::Switch, DeValue::Boolean(true)) => {
                table.fields.push((key.name, "true".to_owned()));
            }
            (KeyForm::Switch, _) => return Err("true or false"),
            (KeyForm::Text, DeValue::String(text)) => {
                table.fields.push((key.name, text.clone().into_owned()));
            }
            (KeyForm::Text, DeValue::Integer(number)) => {
                table.fields.push((key.name, number.to_string()));
            }
            (KeyForm::Text, _) => return Err("a string"),
            (KeyForm::List(form), DeValue::Array(values)) => {
                let values = values.iter().map(|value| self.read_item(form, value));
                let values: Result<Vec<Option<Value>>, _> = values.collect();
                table.lists.push((key.name, values?.into_iter().flatten().collect()));
            }
            (KeyForm::List(_), _) => return Err(LIST),
        }
        Ok(())
    }

    /// Reads a value of a list of a table. `None` if it is a table with errors.
    fn read_item(
        &mut self,
        form: &'static TableForm,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Option<Value>, &'static str> {
        match value.get_ref() {
            DeValue::String(text) => Ok(Some(Value::Text(text.clone().into_owned()))),
            DeValue::Table(table) => {
                Ok(self.read_table(form, value.span().start, table).map(Value::Table))
            }
            _ => Err(LIST),
        }
    }
}

/// The TOML type of a list of a table.
const LIST: &str = "a list of strings and tables";

fn expected(form: Form) -> &'static str {
    match form {
        Form::One => "a string",
        Form::Number => "a number or a string such as \"0-3\"",
        Form::Switch => "true or false",
        Form::Many => "a string or a list of strings",
        Form::Resources(_) => "a string, a table, or a list of these",
        Form::Tables(_) => "a table or a list of tables",
    }
}

/// The starts of the lines of a text.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(end, _)| end + 1).collect())
    }

    /// The line of a byte, from 1.
    fn line_of(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset) + 1
    }
}

/// The key and the value of a line whose value is a text without quotes, which the parser takes for a number, a date
/// or a truth.
fn without_quotes(text: &str, at: usize) -> Option<(&str, &str)> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let (key, value) = text[start..].lines().next()?.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let is_word = |text: &str| !text.is_empty() && !text.contains(['"', '\'', '[', '{', '#']);
    (is_word(key) && is_word(value)).then_some((key, value))
}
