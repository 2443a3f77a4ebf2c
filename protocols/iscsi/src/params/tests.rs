use proptest::prelude::*;

use super::*;
use crate::text::{Outgoing, Pairs};

const LEADING: Scope = Scope { is_discovery: false, is_leading: true };

fn offer() -> Offer {
    Offer {
        session: SessionParams { max_burst_len: 1 << 20, ..SessionParams::default() },
        receive_len_max: 65_536,
        header_digest: DigestWish::PreferNone,
        data_digest: DigestWish::PreferNone,
    }
}

/// The answers of a responder to these pairs.
fn answers(scope: Scope, pairs: &[(&str, &str)]) -> Result<String, ParamError> {
    let mut out = Outgoing::default();
    let mut negotiation = Negotiation::new(offer(), scope);
    for (key, value) in pairs {
        negotiation.handle(key, value, &mut out)?;
    }
    let (text, _) = out.next_part(u32::MAX);
    Ok(String::from_utf8(text.to_vec()).unwrap().replace('\0', " ").trim_end().to_owned())
}

fn answer(key: &str, value: &str) -> String {
    answers(LEADING, &[(key, value)]).unwrap()
}

#[test]
fn numbers_are_taken_within_their_range_in_both_notations() {
    assert_eq!(answer("MaxBurstLength", "262144"), "MaxBurstLength=262144");
    assert_eq!(answer("MaxBurstLength", "0x40000"), "MaxBurstLength=262144");
    assert_eq!(answer("MaxBurstLength", "16777215"), "MaxBurstLength=1048576");
    assert_eq!(answer("DefaultTime2Wait", "5"), "DefaultTime2Wait=5");
    assert_eq!(answer("DefaultTime2Wait", "0"), "DefaultTime2Wait=2");
    for bad in ["511", "16777216", "", "+600", "-1", "99999999999", "Yes", "0x", "1e3"] {
        assert_eq!(answer("MaxBurstLength", bad), "MaxBurstLength=Reject", "{bad}");
    }
}

#[test]
fn booleans_are_yes_or_no() {
    assert_eq!(answer("InitialR2T", "No"), "InitialR2T=Yes");
    assert_eq!(answer("ImmediateData", "No"), "ImmediateData=No");
    for bad in ["yes", "1", "", "YesNo"] {
        assert_eq!(answer("ImmediateData", bad), "ImmediateData=Reject", "{bad}");
    }
}

#[test]
fn the_first_digest_of_the_list_that_is_had_is_taken() {
    assert_eq!(answer("HeaderDigest", "CRC32C,None"), "HeaderDigest=CRC32C");
    assert_eq!(answer("HeaderDigest", "MD5,None"), "HeaderDigest=None");
    assert_eq!(answer("DataDigest", "MD5"), "DataDigest=Reject");
    let long = format!("{}None", "x,".repeat(200));
    assert_eq!(answer("DataDigest", &long), "DataDigest=Reject");
}

#[test]
fn unknown_keys_are_not_understood_and_markers_are_no_more() {
    assert_eq!(answer("X-com.example.fast", "Yes"), "X-com.example.fast=NotUnderstood");
    assert_eq!(answer("Nonsense", "1"), "Nonsense=NotUnderstood");
    assert_eq!(answer("IFMarker", "Yes"), "IFMarker=No");
    assert_eq!(answer("OFMarkInt", "2048~4096"), "OFMarkInt=Reject");
    assert_eq!(answer("TaskReporting", "FastAbort,RFC3720"), "TaskReporting=RFC3720");
    assert_eq!(answer("TaskReporting", "FastAbort"), "TaskReporting=Reject");
    assert_eq!(answer("Nonsense", "NotUnderstood"), "");
}

#[test]
fn declarations_are_not_answered() {
    assert_eq!(answer("MaxRecvDataSegmentLength", "512"), "");
    let reject = "MaxRecvDataSegmentLength=Reject";
    assert_eq!(answer("MaxRecvDataSegmentLength", "511"), reject);
}

#[test]
fn a_key_that_comes_twice_ends_the_negotiation() {
    for key in ["MaxConnections", "HeaderDigest", "DataDigest", "MaxRecvDataSegmentLength"] {
        let twice = answers(LEADING, &[(key, "1"), (key, "1")]);
        assert_eq!(twice, Err(ParamError::Doubled(key)));
    }
}

#[test]
fn keys_of_the_session_are_leading_only() {
    let scope = Scope { is_discovery: false, is_leading: false };
    let pairs = [("MaxConnections", "4"), ("HeaderDigest", "None")];
    assert_eq!(answers(scope, &pairs).unwrap(), "MaxConnections=Reject HeaderDigest=None");
}

#[test]
fn keys_of_commands_are_irrelevant_in_discovery() {
    let scope = Scope { is_discovery: true, is_leading: true };
    let pairs =
        [("MaxBurstLength", "512"), ("DefaultTime2Wait", "3"), ("TaskReporting", "RFC3720")];
    let expected = "MaxBurstLength=Irrelevant DefaultTime2Wait=3 TaskReporting=Irrelevant";
    assert_eq!(answers(scope, &pairs).unwrap(), expected);
}

#[test]
fn an_answer_that_fits_no_offer_ends_the_negotiation() {
    for (key, value) in [
        ("MaxBurstLength", "1048577"),
        ("DefaultTime2Wait", "1"),
        ("InitialR2T", "No"),
        ("ErrorRecoveryLevel", "1"),
        ("HeaderDigest", "SHA"),
        ("HeaderDigest", "None,CRC32C"),
    ] {
        let mut negotiation = Negotiation::new(offer(), LEADING);
        negotiation.offer(&mut Outgoing::default());
        let handled = negotiation.handle(key, value, &mut Outgoing::default());
        assert_eq!(handled, Err(ParamError::BadAnswer(key)), "{value}");
    }
}

#[test]
fn a_digest_that_is_insisted_on_is_agreed_or_the_login_fails() {
    let insisting = Offer { data_digest: DigestWish::Crc, ..offer() };
    let negotiation = Negotiation::new(insisting, LEADING);
    let key = "DataDigest";
    assert_eq!(negotiation.result().unwrap_err(), ParamError::DigestRefused(key));
}

#[test]
fn only_the_receive_length_can_change_later() {
    let mut connection = ConnectionParams::default();
    let mut out = Outgoing::default();
    for (key, value) in [
        ("MaxRecvDataSegmentLength", "4096"),
        ("MaxBurstLength", "512"),
        ("HeaderDigest", "None"),
        ("InitiatorAlias", "me"),
        ("X-y", "1"),
    ] {
        answer_in_full_feature_phase(key, value, &mut connection, &mut out);
    }
    assert_eq!(connection.send_len_max, 4096);
    let expected = b"MaxBurstLength=Reject\0HeaderDigest=Reject\0X-y=NotUnderstood\0";
    assert_eq!(out.next_part(u32::MAX).0, expected);
}

fn any_wish() -> impl Strategy<Value = DigestWish> {
    prop::sample::select(vec![
        DigestWish::None,
        DigestWish::PreferNone,
        DigestWish::PreferCrc,
        DigestWish::Crc,
    ])
}

fn any_session() -> impl Strategy<Value = SessionParams> {
    let numbers = (1u32..65_536, LEN_MIN..=LEN_MAX, LEN_MIN..=LEN_MAX, 0u32..3601, 0u32..3601);
    let bools = any::<(bool, bool, bool, bool)>();
    (numbers, bools, 1u32..65_536, 0u32..3, 0u32..32).prop_map(
        |(numbers, bools, r2ts, erl, level)| SessionParams {
            max_connections: numbers.0,
            max_burst_len: numbers.1,
            first_burst_len: numbers.2,
            time_to_wait: numbers.3,
            time_to_retain: numbers.4,
            initial_r2t: bools.0,
            immediate_data: bools.1,
            data_pdu_in_order: bools.2,
            data_sequence_in_order: bools.3,
            max_outstanding_r2t: r2ts,
            error_recovery_level: erl,
            protocol_level: level,
        },
    )
}

fn any_offer() -> impl Strategy<Value = Offer> {
    (any_session(), LEN_MIN..=LEN_MAX, any_wish(), any_wish()).prop_map(
        |(session, receive_len_max, header_digest, data_digest)| Offer {
            session,
            receive_len_max,
            header_digest,
            data_digest,
        },
    )
}

proptest! {
    /// Both ends arrive at the same parameters for all offers, even when the responder omits
    /// answers that cannot change the result.
    #[test]
    fn both_ends_agree_on_the_same(
        ours in any_offer(),
        theirs in any_offer(),
        (is_discovery, is_leading, leaves_out) in any::<(bool, bool, bool)>(),
    ) {
        let scope = Scope { is_discovery, is_leading };
        let mut initiator = Negotiation::new(ours, scope);
        let mut target = Negotiation::new(theirs, scope);
        let (mut offers, mut answers) = (Outgoing::default(), Outgoing::default());
        initiator.offer(&mut offers);
        target.declare(&mut answers);
        for pair in Pairs::new(offers.next_part(u32::MAX).0) {
            let (key, value) = pair.unwrap();
            target.handle(key, value, &mut answers).unwrap();
        }
        let mut none = Outgoing::default();
        for pair in Pairs::new(answers.next_part(u32::MAX).0) {
            let (key, value) = pair.unwrap();
            let foregone = match key {
                "InitialR2T" | "DataPDUInOrder" => value == "Yes" && ours.session.initial_r2t
                    && ours.session.data_pdu_in_order,
                "ImmediateData" => !ours.session.immediate_data,
                _ => false,
            };
            if !(leaves_out && foregone) {
                initiator.handle(key, value, &mut none).unwrap();
            }
        }
        prop_assert!(none.is_over(), "answers are not answered");
        let (Ok((session, connection)), Ok((their_session, their_connection))) =
            (initiator.result(), target.result())
        else {
            return Ok(());
        };
        prop_assert_eq!(session, their_session);
        prop_assert_eq!(connection.digests, their_connection.digests);
        prop_assert_eq!(connection.send_len_max, their_connection.receive_len_max);
        prop_assert_eq!(connection.receive_len_max, their_connection.send_len_max);
        prop_assert!(session.first_burst_len <= session.max_burst_len);
    }

    #[test]
    fn any_pair_is_answered_or_refused(
        key in prop_oneof!["[A-Za-z0-9]{1,20}", Just("MaxBurstLength".to_owned()), Just("HeaderDigest".to_owned())],
        value in ".{0,300}",
    ) {
        let mut out = Outgoing::default();
        let mut negotiation = Negotiation::new(offer(), LEADING);
        let _ = negotiation.handle(&key, &value, &mut out);
        prop_assert!(negotiation.result().is_ok());
    }
}
