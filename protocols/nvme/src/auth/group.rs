//! The Diffie-Hellman groups. NVMe Base 2.0, 8.13.5; RFC 7919.

use std::fmt;
use std::str::FromStr;

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::primes;

/// The length of a private value in bytes: 512 bits, more than the 400 that RFC 7919, 5.2, recommends for the
/// largest group.
pub(super) const PRIVATE_LEN: usize = 64;

const GENERATOR: u8 = 2;

/// DHgID: the group of an authentication.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum DhGroup {
    /// 0: no Diffie-Hellman exchange.
    Null,
    /// 1: ffdhe2048.
    Ffdhe2048,
    /// 2: ffdhe3072.
    Ffdhe3072,
    /// 3: ffdhe4096.
    Ffdhe4096,
    /// 4: ffdhe6144.
    Ffdhe6144,
    /// 5: ffdhe8192.
    Ffdhe8192,
}

/// The text is not the name of a group.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "'{0}' is not a Diffie-Hellman group: use null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144 or ffdhe8192"
)]
pub struct ParseDhGroupError(Box<str>);

/// A group: its number, its name and its prime in hexadecimal.
struct Row(DhGroup, u8, &'static str, &'static str);

const GROUPS: [Row; 6] = [
    Row(DhGroup::Null, 0, "null", ""),
    Row(DhGroup::Ffdhe2048, 1, "ffdhe2048", primes::FFDHE2048),
    Row(DhGroup::Ffdhe3072, 2, "ffdhe3072", primes::FFDHE3072),
    Row(DhGroup::Ffdhe4096, 3, "ffdhe4096", primes::FFDHE4096),
    Row(DhGroup::Ffdhe6144, 4, "ffdhe6144", primes::FFDHE6144),
    Row(DhGroup::Ffdhe8192, 5, "ffdhe8192", primes::FFDHE8192),
];

/// A private value: random bytes.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(super) struct PrivateValue(pub(super) [u8; PRIVATE_LEN]);

impl DhGroup {
    /// Every group, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Null,
        Self::Ffdhe2048,
        Self::Ffdhe3072,
        Self::Ffdhe4096,
        Self::Ffdhe6144,
        Self::Ffdhe8192,
    ];

    fn row(self) -> &'static Row {
        GROUPS.iter().find(|row| row.0 == self).expect("every group has a row")
    }

    /// Its number.
    pub fn id(self) -> u8 {
        self.row().1
    }

    /// The group with this number.
    pub fn of(id: u8) -> Option<Self> {
        GROUPS.iter().find(|row| row.1 == id).map(|row| row.0)
    }

    /// Its name in commands and configurations.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// The length of a public value in bytes; 0 for the NULL group.
    pub fn value_len(self) -> usize {
        self.row().3.len() / 2
    }

    /// The public value of a private one; empty for the NULL group.
    pub(super) fn public_value(self, private: &PrivateValue) -> Vec<u8> {
        if self == Self::Null {
            return Vec::new();
        }
        let mut base = vec![0; self.value_len()];
        base[self.value_len() - 1] = GENERATOR;
        self.power(&base, private).to_vec()
    }

    /// The secret that both ends share, as long as the prime; `None` if the peer's public value is not valid.
    /// Empty for the NULL group.
    pub(super) fn shared_secret(
        self,
        private: &PrivateValue,
        public: &[u8],
    ) -> Option<Zeroizing<Box<[u8]>>> {
        if self == Self::Null {
            return public.is_empty().then(Zeroizing::default);
        }
        self.is_public_value(public).then(|| self.power(public, private))
    }

    /// RFC 7919, 5.1: a public value is more than 1 and less than p - 1.
    fn is_public_value(self, value: &[u8]) -> bool {
        let prime = self.prime();
        // The lowest bit of a prime is set.
        let mut last = prime.to_vec();
        last[prime.len() - 1] -= 1;
        let is_above_one = value
            .split_last()
            .is_some_and(|(low, high)| *low > 1 || high.iter().any(|byte| *byte != 0));
        value.len() == prime.len() && is_above_one && value < last.as_slice()
    }

    /// The prime, most significant byte first.
    fn prime(self) -> Vec<u8> {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
        let digit = |byte: u8| digit(byte).expect("the primes are hexadecimal");
        let pairs = self.row().3.as_bytes().chunks_exact(2);
        pairs.map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }

    /// The power of a number modulo the prime. Its time depends on the group only.
    fn power(self, base: &[u8], private: &PrivateValue) -> Zeroizing<Box<[u8]>> {
        let number = |bytes: &[u8]| {
            let bits = u32::try_from(bytes.len() * 8).expect("at most 8192 bits");
            BoxedUint::from_be_slice(bytes, bits).expect("the precision is that of the bytes")
        };
        let prime = Odd::new(number(&self.prime())).into_option().expect("a prime is odd");
        let params = BoxedMontyParams::new_vartime(prime);
        let exponent = Zeroizing::new(number(&private.0));
        let power = BoxedMontyForm::new(number(base), &params).pow(&exponent);
        let power = Zeroizing::new(power.retrieve());
        Zeroizing::new(power.to_be_bytes())
    }
}

impl fmt::Display for DhGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DhGroup {
    type Err = ParseDhGroupError;

    fn from_str(text: &str) -> Result<Self, ParseDhGroupError> {
        let found = GROUPS.iter().find(|row| row.2 == text);
        found.map(|row| row.0).ok_or_else(|| ParseDhGroupError(text.into()))
    }
}

impl fmt::Debug for PrivateValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateValue")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FFDHE: [DhGroup; 5] = [
        DhGroup::Ffdhe2048,
        DhGroup::Ffdhe3072,
        DhGroup::Ffdhe4096,
        DhGroup::Ffdhe6144,
        DhGroup::Ffdhe8192,
    ];

    /// The generator is a square modulo each prime, so its power by (p - 1) / 2 is 1. A prime with a wrong
    /// digit would give another number.
    #[test]
    fn the_primes_are_those_of_rfc_7919() {
        for (group, low) in FFDHE.into_iter().zip([
            0x6128_5C97_u32,
            0x66C6_2E37,
            0x5E65_5F6A,
            0xD0E4_0E65,
            0xC5C6_424C,
        ]) {
            let prime = group.prime();
            let end = prime.len() - 8;
            assert_eq!(prime[..8], [0xFF; 8], "{group}");
            assert_eq!(prime[end..], [0xFF; 8], "{group}");
            assert_eq!(prime[end - 4..end], low.to_be_bytes(), "{group}");
            let mut half = prime.clone();
            let mut carry = 0;
            for byte in &mut half {
                (*byte, carry) = (carry << 7 | *byte >> 1, *byte & 1);
            }
            let number = |bytes: &[u8]| {
                BoxedUint::from_be_slice(bytes, u32::try_from(bytes.len() * 8).unwrap()).unwrap()
            };
            let params = BoxedMontyParams::new_vartime(Odd::new(number(&prime)).unwrap());
            let mut two = vec![0; prime.len()];
            two[prime.len() - 1] = GENERATOR;
            let power = BoxedMontyForm::new(number(&two), &params).pow(&number(&half)).retrieve();
            let power = power.to_be_bytes();
            let (low, high) = power.split_last().unwrap();
            assert!(*low == 1 && high.iter().all(|byte| *byte == 0), "{group}");
        }
    }

    #[test]
    fn both_ends_share_the_same_secret_and_no_other_pair_does() {
        for group in FFDHE {
            let (ours, theirs) = (PrivateValue([3; 64]), PrivateValue([0xA7; 64]));
            let our_public = group.public_value(&ours);
            let their_public = group.public_value(&theirs);
            assert_eq!(our_public.len(), group.value_len());
            let secret = group.shared_secret(&ours, &their_public).unwrap();
            assert_eq!(Some(&secret), group.shared_secret(&theirs, &our_public).as_ref());
            assert_ne!(Some(&secret), group.shared_secret(&ours, &our_public).as_ref());
            assert_eq!(secret.len(), group.value_len());
        }
    }

    #[test]
    fn a_public_value_that_would_fix_the_secret_is_refused() {
        for group in FFDHE {
            let private = PrivateValue([9; 64]);
            let shared = |value: &[u8]| group.shared_secret(&private, value);
            let len = group.value_len();
            let mut small = vec![0; len];
            for low in [0, 1] {
                small[len - 1] = low;
                assert!(shared(&small).is_none(), "{group}: {low}");
            }
            let mut large = group.prime();
            assert!(shared(&large).is_none(), "{group}: p");
            large[len - 1] -= 1;
            assert!(shared(&large).is_none(), "{group}: p - 1");
            assert!(shared(&vec![0xFF; len]).is_none(), "{group}: more than p");
            assert!(
                shared(&vec![7; len - 1]).is_none() && shared(&[]).is_none(),
                "{group}: length"
            );
        }
        assert!(DhGroup::Null.shared_secret(&PrivateValue([9; 64]), &[7]).is_none());
    }

    #[test]
    fn names_and_numbers_of_groups_are_read_as_written() {
        for group in DhGroup::ALL {
            assert_eq!(group.name().parse(), Ok(group));
            assert_eq!(DhGroup::of(group.id()), Some(group));
        }
        assert!("ffdhe1024".parse::<DhGroup>().is_err() && DhGroup::of(6).is_none());
    }
}
