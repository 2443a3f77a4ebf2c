//! Text input: sizes, times, names, devices, volumes. An accepted text survives a round trip; any
//! other is refused with a message of one line.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use nearflash_config::parse_volume;
use nearflash_media::DeviceSpec;
use nearflash_nvme::Nqn;
use nearflash_space::Name;
use nearflash_units::{parse_duration, parse_size};

/// Checks that every parser accepts or refuses any text.
pub fn check_texts(text: &str) {
    check_round_trip::<Name>(text);
    check_round_trip::<DeviceSpec>(text);
    if let Ok(size) = parse_size(text) {
        assert_eq!(parse_size(&size.to_string()), Ok(size));
    }
    if let Ok(time) = parse_duration(text) {
        assert_eq!(parse_duration(&format!("{}ns", time.0)), Ok(time));
    }
    if let Ok(nqn) = Nqn::new(text) {
        assert_eq!(nqn.to_string(), text);
    }
    check_refusal(text, parse_volume(text));
}

fn check_round_trip<T>(text: &str)
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    if let Ok(read) = text.parse::<T>() {
        let again = read.to_string().parse::<T>();
        assert_eq!(again.ok().as_ref(), Some(&read), "{read} is read back as the same");
    }
    check_refusal(text, text.parse::<T>());
}

fn check_refusal<T>(text: &str, read: Result<T, impl Display>) {
    if let Err(error) = read {
        let message = error.to_string();
        // The message quotes the text unchanged.
        assert!(text.contains('\n') || !message.contains('\n'), "{message:?} is one line");
    }
}
