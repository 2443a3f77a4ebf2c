//! Both ends against each other, and against values that another implementation has computed.

use nearflash_units::UnixTime;
use proptest::prelude::*;

use super::hosts::RANDOM_LEN;
use super::message::{Explanation, MESSAGE_LEN_MAX};
use super::*;
use crate::{Nqn, Status};

const TRANSACTION: u16 = 0xABCD;

fn names() -> Names {
    Names {
        host: Nqn::new("nqn.2026-11.test:host").unwrap(),
        subsystem: Nqn::new("nqn.2026-11.io.nearflash:data").unwrap(),
    }
}

/// The key of the host has the bytes from 0, that of the controller those from 100.
fn keys(is_mutual: bool, policy: Policy) -> HostKeys {
    let key = |hash: Hash, first: u8| {
        let bytes: Vec<u8> = (first..).take(hash.digest_len()).collect();
        Key::new(Some(hash), &bytes).unwrap()
    };
    let controller = is_mutual.then(|| key(Hash::Sha384, 100));
    HostKeys::new(key(Hash::Sha256, 0), controller, policy).unwrap()
}

fn policy(hash: Hash, group: DhGroup) -> Policy {
    Policy { hash: Some(hash), group: Some(group) }
}

const NULL: Policy = Policy { hash: None, group: Some(DhGroup::Null) };

/// Different bytes for the challenge, the private value and the sequence number.
fn random(first: u8) -> Random {
    let mut bytes = [first; RANDOM_LEN];
    bytes[64..128].fill(first + 0x11);
    bytes[128..].fill(first + 0x22);
    Random(bytes)
}

/// The controller's end with the keys that it knows.
struct Controller {
    end: ControllerEnd,
    keys: Option<HostKeys>,
}

impl Controller {
    fn new(keys: HostKeys) -> Self {
        Self { end: ControllerEnd::default(), keys: Some(keys) }
    }

    fn send(&mut self, message: &[u8]) {
        self.end.handle_message(message, &names(), self.keys.as_ref(), &random(0x11));
    }

    fn receive(&mut self) -> Vec<u8> {
        self.end.next_message(MESSAGE_LEN_MAX).unwrap()
    }

    /// The explanation of the failure that the host receives.
    fn failure(&mut self) -> Explanation {
        let message = self.receive();
        assert_eq!(message[..2], [0x00, 0xF1], "not a failure: {message:02x?}");
        assert_eq!((message.len(), message[6]), (8, 1));
        Explanation(message[7])
    }

    /// Runs a whole transaction. Returns the host's messages and the result.
    fn authenticate(&mut self, keys: HostKeys) -> (Vec<Vec<u8>>, Result<(), HostError>) {
        let mut host = HostEnd::new(names(), keys, TRANSACTION);
        let mut sent = vec![host.negotiate()];
        loop {
            self.send(sent.last().unwrap());
            match host.handle_message(&self.receive(), &random(0x44)) {
                Ok(Next::Send(message)) => sent.push(message),
                Ok(Next::Done) => return (sent, Ok(())),
                Ok(Next::SendLast(message)) => {
                    self.send(&message);
                    sent.push(message);
                    return (sent, Ok(()));
                }
                Err(error) => {
                    if let Some(message) = host.failure(error) {
                        self.send(&message);
                        sent.push(message);
                    }
                    return (sent, Err(error));
                }
            }
        }
    }
}

fn authenticated(controller_keys: HostKeys, host_keys: HostKeys) -> Result<(), HostError> {
    let mut controller = Controller::new(controller_keys);
    let (_, result) = controller.authenticate(host_keys);
    assert_eq!(controller.end.is_authenticated(), result.is_ok());
    result
}

#[test]
fn every_hash_and_every_group_authenticates_in_one_and_in_both_directions() {
    let hashes = Hash::ALL.into_iter().map(|hash| (hash, DhGroup::Null));
    let groups = DhGroup::ALL.into_iter().map(|group| (Hash::Sha256, group));
    for (hash, group) in hashes.chain(groups).chain([(Hash::Sha512, DhGroup::Ffdhe2048)]) {
        for is_mutual in [false, true] {
            let keys = keys(is_mutual, policy(hash, group));
            assert_eq!(authenticated(keys.clone(), keys), Ok(()), "{hash} {group} {is_mutual}");
        }
    }
}

#[test]
fn a_host_that_proves_nothing_begins_few_transactions_and_one_with_proofs_any_number() {
    let keys = keys(false, NULL);
    let mut controller = Controller::new(keys.clone());
    for _ in 0..20 {
        assert_eq!(controller.authenticate(keys.clone()).1, Ok(()));
    }
    let negotiate = HostEnd::new(names(), keys, TRANSACTION).negotiate();
    for _ in 0..4 {
        controller.send(&negotiate);
        assert_eq!(controller.receive()[..2], [0x01, 0x01], "a challenge");
    }
    controller.send(&negotiate);
    assert_eq!(controller.failure(), Explanation::FAILED);
}

/// The values were computed from the standard's definitions with Python's hmac and pow.
#[test]
fn the_responses_are_those_of_another_implementation() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (hash, group, host, response) in [
        (
            Hash::Sha256,
            DhGroup::Null,
            "79d0135b0a09cb91f6509dcc18fe32bbd3a0ff224d5e6cf2477efbca33c114b7",
            "ce3c90dc722b9545b4197448fd282aa31f427ba8095ff50aa8a484708d0765a0",
        ),
        (
            Hash::Sha384,
            DhGroup::Ffdhe2048,
            "519af597b9a570f5c9f6e0c4ed0b1496f691585de5635d2f9a35495482e28b1da3299427d64fc01c294decc4\
             3f741811",
            "e05f66d672e6418f99aafd22ec6e76372c23cdbcf357c9606b9690ed2ffd221e22d7f2ab6f5e66ca6538e131\
             107e4d94",
        ),
        (
            Hash::Sha512,
            DhGroup::Null,
            "e07eb85806d6c6f8ee5401eebff6018453971580eb5073122246ab4d8fe8793ae8fb9ef488dd60dd1531d092\
             95049dde7333bb0f3eec31086687fd5bb5c700ab",
            "8b646f42d3f0878a2e763147a49ffd752791ff738236b3632bf4154560d265385711e82522dd177bdfb8458f\
             812144533d3402b4763732ee49df981f0f56d532",
        ),
    ] {
        let keys = keys(true, policy(hash, group));
        let mut controller = Controller::new(keys.clone());
        let mut end = HostEnd::new(names(), keys, TRANSACTION);
        controller.send(&end.negotiate());
        let Ok(Next::Send(reply)) = end.handle_message(&controller.receive(), &random(0x44)) else {
            panic!("{hash} {group}: no reply");
        };
        assert_eq!(hex(&reply[16..16 + hash.digest_len()]), host, "{hash} {group}");
        controller.send(&reply);
        let success = controller.receive();
        assert_eq!(hex(&success[16..]), response, "{hash} {group}");
    }
}

#[test]
fn the_public_values_are_those_of_another_implementation() {
    let keys = keys(false, policy(Hash::Sha256, DhGroup::Ffdhe2048));
    let mut controller = Controller::new(keys.clone());
    let mut end = HostEnd::new(names(), keys, TRANSACTION);
    controller.send(&end.negotiate());
    let challenge = controller.receive();
    let digest = |bytes: &[u8]| Hash::Sha256.digest(bytes).bytes()[..4].to_vec();
    assert_eq!(digest(&challenge[16 + 32..]), [0xB8, 0x22, 0x8A, 0x39]);
    let Ok(Next::Send(reply)) = end.handle_message(&challenge, &random(0x44)) else { panic!() };
    assert_eq!(digest(&reply[16 + 64..]), [0x0C, 0x4F, 0xE3, 0x32]);
}

#[test]
fn messages_have_the_bytes_that_the_standard_defines() {
    let keys = keys(true, NULL);
    let mut controller = Controller::new(keys.clone());
    let mut end = HostEnd::new(names(), keys, TRANSACTION);
    let negotiate = end.negotiate();
    assert_eq!(negotiate[..8], [0, 0, 0, 0, 0xCD, 0xAB, 0, 1]);
    assert_eq!(negotiate[8..16], [1, 0, 3, 1, 1, 2, 3, 0]);
    assert_eq!(negotiate.len(), 72);
    controller.send(&negotiate);
    let challenge = controller.receive();
    assert_eq!(challenge[..12], [1, 1, 0, 0, 0xCD, 0xAB, 32, 0, 1, 0, 0, 0]);
    assert_eq!(challenge[12..16], [0x33; 4]);
    assert_eq!(challenge[16..], [0x11; 32]);
    let Ok(Next::Send(reply)) = end.handle_message(&challenge, &random(0x44)) else { panic!() };
    assert_eq!(reply[..12], [1, 2, 0, 0, 0xCD, 0xAB, 32, 0, 1, 0, 0, 0]);
    assert_eq!((&reply[12..16], &reply[48..]), (&[0x66; 4][..], &[0x44; 32][..]));
    controller.send(&reply);
    let success = controller.receive();
    assert_eq!(success[..10], [1, 3, 0, 0, 0xCD, 0xAB, 32, 0, 1, 0]);
    let Ok(Next::SendLast(last)) = end.handle_message(&success, &random(0x44)) else { panic!() };
    assert_eq!(last, [1, 4, 0, 0, 0xCD, 0xAB, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_host_with_another_key_or_name_is_refused() {
    let refused = Err(HostError::Refused(Explanation::FAILED));
    let other = HostKeys::new(Key::new(None, &[9; 32]).unwrap(), None, NULL).unwrap();
    assert_eq!(authenticated(keys(false, NULL), other.clone()), refused);
    let mut unknown = Controller { end: ControllerEnd::default(), keys: None };
    let mut any = other;
    any.policy = Policy::default();
    assert_eq!(unknown.authenticate(any).1, refused);
    let mut controller = Controller::new(keys(false, NULL));
    let mut impostor = names();
    impostor.host = Nqn::new("nqn.2026-11.test:impostor").unwrap();
    let mut host = HostEnd::new(impostor, keys(false, NULL), TRANSACTION);
    controller.send(&host.negotiate());
    let Ok(Next::Send(reply)) = host.handle_message(&controller.receive(), &random(0x44)) else {
        panic!()
    };
    controller.send(&reply);
    assert_eq!(controller.failure(), Explanation::FAILED);
}

#[test]
fn a_controller_that_does_not_prove_its_key_is_refused_by_the_host() {
    let own = |byte| Some(Key::new(None, &[byte; 32]).unwrap());
    let with =
        |controller| HostKeys::new(keys(false, NULL).host().clone(), controller, NULL).unwrap();
    assert_eq!(authenticated(with(own(1)), with(own(1))), Ok(()));
    assert_eq!(authenticated(with(own(2)), with(own(1))), Err(HostError::NotProved));
    let refused = Err(HostError::Refused(Explanation::FAILED));
    assert_eq!(authenticated(with(None), with(own(1))), refused, "it has no key");
    assert_eq!(authenticated(with(own(1)), with(None)), Ok(()), "the host need not ask");
}

#[test]
fn a_controller_that_skips_its_proof_is_refused_by_the_host() {
    let keys = keys(true, NULL);
    let mut controller = Controller::new(keys.clone());
    let mut end = HostEnd::new(names(), keys, TRANSACTION);
    controller.send(&end.negotiate());
    let Ok(Next::Send(_)) = end.handle_message(&controller.receive(), &random(0x44)) else {
        panic!()
    };
    let mut success = vec![1, 3, 0, 0, 0xCD, 0xAB, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let skipped = end.clone().handle_message(&success, &random(0x44));
    assert_eq!(skipped, Err(HostError::NotProved));
    success[8] = 1;
    success.extend_from_slice(&[0; 32]);
    assert_eq!(end.handle_message(&success, &random(0x44)), Err(HostError::NotProved));
}

#[test]
fn a_message_that_is_not_the_next_one_fails_the_transaction() {
    let keys = keys(true, NULL);
    let (sent, _) = Controller::new(keys.clone()).authenticate(keys.clone());
    let [negotiate, reply, success2] = &sent[..] else { panic!("three messages") };
    // The messages before, whether the last answer is fetched, and the message.
    for (before, is_fetched, message) in [
        (&[][..], true, reply),
        (&[], true, success2),
        (&[negotiate], false, reply),
        (&[negotiate], true, success2),
        (&[negotiate, reply], false, reply),
        (&[negotiate, reply], true, reply),
        (&[negotiate, reply], false, success2),
        (&[negotiate, reply, success2], true, reply),
        (&[negotiate, reply, success2], true, success2),
    ] {
        let mut controller = Controller::new(keys.clone());
        for (index, earlier) in before.iter().enumerate() {
            controller.send(earlier);
            // Nothing follows Success2.
            if (is_fetched || index + 1 < before.len()) && index < 2 {
                controller.receive();
            }
        }
        controller.send(message);
        assert_eq!(controller.failure(), Explanation::INCORRECT_MESSAGE);
        assert!(!controller.end.is_authenticated());
    }
}

#[test]
fn a_host_that_fetches_a_message_too_early_gets_a_failure() {
    let keys = keys(false, NULL);
    let mut controller = Controller::new(keys.clone());
    assert_eq!(controller.failure(), Explanation::INCORRECT_MESSAGE);
    controller.send(&HostEnd::new(names(), keys.clone(), TRANSACTION).negotiate());
    controller.receive();
    assert_eq!(controller.failure(), Explanation::INCORRECT_MESSAGE);
    assert_eq!(controller.authenticate(keys).1, Ok(()), "a new transaction can follow");
}

#[test]
fn a_reply_of_an_earlier_transaction_is_refused() {
    let keys = keys(false, NULL);
    let (sent, _) = Controller::new(keys.clone()).authenticate(keys.clone());
    let mut controller = Controller::new(keys.clone());
    controller.send(&HostEnd::new(names(), keys, TRANSACTION + 1).negotiate());
    controller.receive();
    controller.send(&sent[1]);
    assert_eq!(controller.failure(), Explanation::INCORRECT_PAYLOAD);
}

#[test]
fn a_host_that_returns_the_challenge_gets_no_response() {
    let keys = keys(true, NULL);
    let mut controller = Controller::new(keys.clone());
    let mut host = HostEnd::new(names(), keys, TRANSACTION);
    controller.send(&host.negotiate());
    let Ok(Next::Send(reply)) = host.handle_message(&controller.receive(), &random(0x11)) else {
        panic!()
    };
    controller.send(&reply);
    assert_eq!(controller.failure(), Explanation::FAILED);
}

#[test]
fn an_offer_without_anything_usable_is_refused_by_its_reason() {
    let offer = |change: fn(&mut [u8])| {
        let keys = keys(false, policy(Hash::Sha256, DhGroup::Null));
        let mut negotiate = HostEnd::new(names(), keys.clone(), TRANSACTION).negotiate();
        change(&mut negotiate);
        let mut controller = Controller::new(keys);
        controller.send(&negotiate);
        controller.failure()
    };
    assert_eq!(offer(|it| it[6] = 1), Explanation::SECURE_CHANNEL_MISMATCH);
    assert_eq!(offer(|it| it[7] = 0), Explanation::PROTOCOL_NOT_USABLE);
    assert_eq!(offer(|it| it[7] = 2), Explanation::INCORRECT_PAYLOAD);
    assert_eq!(offer(|it| it[8] = 2), Explanation::PROTOCOL_NOT_USABLE);
    assert_eq!(offer(|it| it[12] = 2), Explanation::HASH_NOT_USABLE);
    assert_eq!(offer(|it| it[10] = 0), Explanation::HASH_NOT_USABLE);
    assert_eq!(offer(|it| it[12 + 30] = 1), Explanation::GROUP_NOT_USABLE);
    assert_eq!(offer(|it| it[11] = 0), Explanation::GROUP_NOT_USABLE);
}

#[test]
fn a_host_authenticates_again_and_loses_the_queue_only_if_it_fails() {
    let keys = keys(true, NULL);
    let mut controller = Controller::new(keys.clone());
    controller.authenticate(keys.clone()).1.unwrap();
    controller.send(&HostEnd::new(names(), keys.clone(), 7).negotiate());
    assert!(controller.end.is_authenticated(), "while the next transaction is under way");
    assert_eq!(controller.authenticate(keys.clone()).1, Ok(()));
    let other = HostKeys::new(Key::new(None, &[9; 32]).unwrap(), None, NULL).unwrap();
    assert!(controller.authenticate(other).1.is_err());
    assert!(!controller.end.is_authenticated());
    assert_eq!(controller.authenticate(keys).1, Ok(()));
}

#[test]
fn while_keys_overlap_a_host_authenticates_with_either_and_then_with_the_new_one_alone() {
    let key = |byte| Key::new(None, &[byte; 32]).unwrap();
    let of_host = |byte| HostKeys::new(key(byte), None, NULL).unwrap();
    let both = of_host(1).replaced(key(2), Some(UnixTime(100))).unwrap();
    for (now, byte, is_in) in
        [(99, 1, true), (99, 2, true), (99, 3, false), (100, 1, false), (100, 2, true)]
    {
        let found = authenticated(both.clone().valid_at(UnixTime(now)), of_host(byte));
        assert_eq!(found.is_ok(), is_in, "key {byte} at {now}: {found:?}");
    }
    let at_once = of_host(1).replaced(key(2), None).unwrap();
    assert!(authenticated(at_once, of_host(1)).is_err());
}

#[test]
fn a_host_that_authenticates_again_with_its_previous_key_is_refused_after_the_overlap() {
    let old = keys(true, NULL);
    let new = Key::new(None, &[9; 32]).unwrap();
    let both = old.clone().replaced(new.clone(), Some(UnixTime(100))).unwrap();
    let mut controller = Controller::new(both.clone());
    controller.authenticate(old.clone()).1.unwrap();
    controller.keys = Some(both.valid_at(UnixTime(100)));
    assert!(controller.end.is_authenticated(), "until it authenticates again");
    assert!(controller.authenticate(old.clone()).1.is_err());
    assert!(!controller.end.is_authenticated());
    let fresh = HostKeys::new(new, old.controller().cloned(), NULL).unwrap();
    assert_eq!(controller.authenticate(fresh).1, Ok(()));
}

#[test]
fn the_proof_says_whether_the_key_is_the_previous_one() {
    let key = |byte| Key::new(None, &[byte; 32]).unwrap();
    let of_host = |byte| HostKeys::new(key(byte), None, NULL).unwrap();
    let both = of_host(1).replaced(key(2), Some(UnixTime(100))).unwrap();
    for (byte, is_previous) in [(1, true), (2, false)] {
        let mut controller = Controller::new(both.clone());
        let mut host = HostEnd::new(names(), of_host(byte), TRANSACTION);
        controller.send(&host.negotiate());
        let Ok(Next::Send(reply)) = host.handle_message(&controller.receive(), &random(0x44))
        else {
            panic!("a reply")
        };
        assert!(!controller.end.has_proof() && !controller.end.has_previous_key());
        controller.send(&reply);
        assert!(controller.end.has_proof());
        assert_eq!(controller.end.has_previous_key(), is_previous);
    }
}

#[test]
fn a_message_that_does_not_fit_can_be_fetched_again() {
    let keys = keys(false, NULL);
    let mut controller = Controller::new(keys.clone());
    controller.send(&HostEnd::new(names(), keys, TRANSACTION).negotiate());
    assert_eq!(controller.end.next_message(47), Err(Status::INVALID_FIELD.dnr()));
    assert_eq!(controller.end.next_message(48).map(|it| it.len()), Ok(48));
}

#[test]
fn the_longest_message_has_its_limit() {
    let keys = keys(true, policy(Hash::Sha512, DhGroup::Ffdhe8192));
    let (sent, result) = Controller::new(keys.clone()).authenticate(keys);
    result.unwrap();
    assert_eq!(sent[1].len(), MESSAGE_LEN_MAX);
}

#[test]
fn nothing_secret_is_printed() {
    let keys = keys(true, policy(Hash::Sha256, DhGroup::Ffdhe2048));
    let mut controller = Controller::new(keys.clone());
    controller.send(&HostEnd::new(names(), keys.clone(), TRANSACTION).negotiate());
    let text = format!("{:?} {keys:?} {:?}", controller.end, random(0x11));
    assert!(!text.contains("17, 17, 17") && !text.contains("34, 34, 34"), "{text}");
    assert!(!text.contains("0, 1, 2") && !text.contains("100, 101"), "{text}");
}

proptest! {
    #[test]
    fn no_message_of_a_host_causes_a_panic_or_authenticates_without_the_key(
        messages in prop::collection::vec(
            (prop::sample::select(vec![[0_u8, 0], [1, 2], [1, 4], [0, 0xF0], [9, 9]]),
             prop::collection::vec(any::<u8>(), 0..200), any::<bool>()), 0..6),
    ) {
        let mut controller = Controller::new(keys(true, NULL));
        for (kind, rest, is_fetched) in messages {
            controller.send(&[&kind[..], &rest].concat());
            if is_fetched {
                let _ = controller.end.next_message(rest.len());
            }
            prop_assert!(!controller.end.is_authenticated());
        }
    }

    #[test]
    fn a_changed_or_cut_reply_fails(place in 0..112_usize, change in 1..=255_u8, cut: bool) {
        let keys = keys(false, NULL);
        let mut controller = Controller::new(keys.clone());
        let mut host = HostEnd::new(names(), keys, TRANSACTION);
        controller.send(&host.negotiate());
        let challenge = controller.receive();
        let Ok(Next::Send(mut reply)) = host.handle_message(&challenge, &random(0x44)) else {
            panic!()
        };
        let place = place % reply.len();
        // The reserved fields, and the challenge and number of a host that does not challenge.
        let is_ignored = matches!(place, 2 | 3 | 7 | 9 | 12..16 | 48..);
        if cut { reply.truncate(place) } else { reply[place] ^= change }
        controller.send(&reply);
        let answer = controller.receive();
        prop_assert_eq!(answer[..2] == [1, 3], is_ignored && !cut, "{}", place);
    }

    #[test]
    fn no_message_of_a_controller_causes_a_panic(
        kind in prop::sample::select(vec![[1_u8, 1], [1, 3], [0, 0xF1], [9, 9]]),
        rest in prop::collection::vec(any::<u8>(), 0..200), is_later: bool,
    ) {
        let keys = keys(true, NULL);
        let mut host = HostEnd::new(names(), keys.clone(), TRANSACTION);
        if is_later {
            let mut controller = Controller::new(keys);
            controller.send(&host.negotiate());
            host.handle_message(&controller.receive(), &random(0x44)).unwrap();
        }
        let mut message = [&kind[..], &[0, 0, 0xCD, 0xAB], &rest].concat();
        message.truncate(rest.len() + 2);
        let done = host.handle_message(&message, &random(0x44));
        prop_assert!(!matches!(done, Ok(Next::Done | Next::SendLast(_))));
    }
}
