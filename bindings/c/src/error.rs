//! The error codes, and the message of the last error.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::sync::OnceLock;

use nearflash::direct::{Error, codes};

/// The codes of errors that only this binding has, with their names and sentences.
pub const OWN: [(c_int, &str, &str); 2] = [
    (INVALID_ARGUMENT, "INVALID_ARGUMENT", "an argument is not valid"),
    (SYSTEM_ERROR, "SYSTEM_ERROR", "the system refused a file descriptor"),
];
const INVALID_ARGUMENT: c_int = 131_072;
const SYSTEM_ERROR: c_int = 131_073;

/// The error of a function.
#[derive(Debug)]
pub(crate) enum Failure {
    Client(Error),
    /// The fault of the arguments.
    Argument(&'static str),
    /// The system refuses a descriptor.
    System(io::Error),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Client(error.into())
    }
}

struct Words {
    name: CString,
    sentence: CString,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the body of a function. Returns its code, and records the message for this thread.
pub(crate) fn code_of(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let failure = match work() {
        Ok(()) => return 0,
        Err(failure) => failure,
    };
    let (code, message) = match failure {
        Failure::Client(error) => (number(error.code()), error.to_string()),
        Failure::Argument(what) => (INVALID_ARGUMENT, what.to_owned()),
        Failure::System(error) => (
            SYSTEM_ERROR,
            format!("the system refused a file descriptor for an event loop: {error}"),
        ),
    };
    LAST.set(c_text(&message));
    code
}

/// An error code as a C integer.
pub(crate) fn number(code: u32) -> c_int {
    c_int::try_from(code).expect("codes are small")
}

pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("there is no NUL left")
}

fn words(code: c_int) -> Option<&'static Words> {
    static WORDS: OnceLock<HashMap<c_int, Words>> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        let all = codes().map(|code| (number(code.code), code.name, code.sentence));
        let words = |(code, name, sentence): (c_int, &str, &str)| {
            (code, Words { name: c_text(name), sentence: c_text(sentence) })
        };
        all.chain(OWN).map(words).collect()
    });
    words.get(&code)
}

/// The name of a code.
#[unsafe(no_mangle)]
pub extern "C" fn nearflash_error_name(code: c_int) -> *const c_char {
    words(code).map_or(c"UNKNOWN", |words| words.name.as_c_str()).as_ptr()
}

/// The sentence of a code.
#[unsafe(no_mangle)]
pub extern "C" fn nearflash_error_sentence(code: c_int) -> *const c_char {
    let unknown: &CStr = c"the node returned an unknown status";
    words(code).map_or(unknown, |words| words.sentence.as_c_str()).as_ptr()
}

/// The message of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn nearflash_last_error() -> *const c_char {
    // The pointer is valid until the next error replaces the text.
    LAST.with_borrow(|text| text.as_ptr())
}
