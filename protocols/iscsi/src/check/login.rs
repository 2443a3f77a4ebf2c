//! Invalid text, sent to either end of a login.

use std::sync::Arc;

use nearflash_session::Output;
use zerocopy::big_endian::U16;

use crate::chap::{Account, CHALLENGE_LEN, Challenge, Credential, Secret};
use crate::login::{
    Access, Granted, InitiatorLogin, LoginConfig, LoginStep, SessionKind, TargetLogin,
    TargetLoginConfig,
};
use crate::params::{DigestWish, Offer, SessionParams};
use crate::pdu::{LoginFlags, LoginRequest, LoginResponse, Serial, Serials, Stage};

/// The offer of both ends.
pub(crate) fn offer(digests: [bool; 2]) -> Offer {
    let wish = |is_wanted| if is_wanted { DigestWish::Crc } else { DigestWish::PreferNone };
    Offer {
        session: SessionParams { initial_r2t: false, ..SessionParams::default() },
        receive_len_max: 8192,
        header_digest: wish(digests[0]),
        data_digest: wish(digests[1]),
    }
}

pub(crate) fn challenge(byte: u8) -> Challenge {
    Challenge { identifier: byte, bytes: [byte; CHALLENGE_LEN] }
}

fn credential(user: &str, byte: u8) -> Credential {
    let secret = Secret::new(vec![byte; 16]).expect("16 bytes are a valid length of a secret");
    Credential { user: user.to_owned(), secret }
}

/// An account that proves both ends.
pub(crate) fn account() -> Arc<Account> {
    let account = Account::new(credential("host", 1), Some(credential("node", 2)));
    Arc::new(account.expect("the secrets differ"))
}

/// The login configuration of an initiator.
pub(crate) fn login_config(digests: [bool; 2]) -> LoginConfig {
    LoginConfig {
        initiator: "iqn.2026-11.io.example:host".to_owned(),
        initiator_alias: None,
        isid: [0x40, 0, 0, 0, 0, 1],
        tsih: 0,
        cid: 1,
        kind: SessionKind::Normal { target: "iqn.2026-11.io.example:disk".to_owned() },
        account: None,
        challenge: challenge(9),
        offer: offer(digests),
    }
}

/// A PDU's flags and text: the first byte are the flags, the second says how much of the rest is
/// the text.
fn next_pdu<'a>(input: &mut &'a [u8]) -> Option<(LoginFlags, &'a [u8])> {
    let ([flags, len], rest) = input.split_first_chunk::<2>()?;
    let (text, rest) = rest.split_at(usize::from(*len).min(rest.len()));
    *input = rest;
    Some((LoginFlags(*flags), text))
}

/// For every request of an initiator: no panic, and no initiator enters the full feature phase
/// without a proof that it knows the secret.
///
/// The first byte of `input` selects whether the required names come first; requests follow.
pub fn check_login_never_panics(input: &[u8]) {
    const NAMES: &[u8] = b"InitiatorName=iqn.a:b\0TargetName=iqn.a:c\0AuthMethod=CHAP\0CHAP_A=7\0";
    let Some((selector, mut rest)) = input.split_first() else { return };
    let access = Access { is_open: false, accounts: vec![account()] };
    let mut target = TargetLogin::new(TargetLoginConfig {
        offer: offer([false, false]),
        portal_group: 1,
        challenge: challenge(7),
        stat_sn: Serial(0),
    });
    let mut output = Output::default();
    let names = (selector & 1 == 0).then_some((LoginFlags::within(Stage::Security), NAMES));
    let mut requests = names.into_iter().chain(std::iter::from_fn(|| next_pdu(&mut rest)));
    requests.any(|(flags, text)| {
        let request = LoginRequest::new(flags, [1; 6], 0, 0);
        let before = output.len();
        match target.handle(&access, &request, text, &mut output) {
            LoginStep::Demanded(_) => panic!("nobody here knows the secret"),
            LoginStep::Refused(status) => {
                target.refuse(status, &mut output);
                true
            }
            LoginStep::Answered => {
                assert!(output.len() > before, "every request is answered");
                false
            }
        }
    });
}

/// For every answer of a target: no panic, and a target that does not know its secret is not
/// accepted.
///
/// The first byte of `input` selects mutual CHAP; responses follow.
pub fn check_initiator_login_never_panics(input: &[u8]) {
    let Some((selector, mut rest)) = input.split_first() else { return };
    let is_mutual = selector & 1 == 0;
    let account = is_mutual.then(account);
    let config = LoginConfig { account, ..login_config([false, false]) };
    let isid = config.isid;
    let mut output = Output::default();
    let mut login = InitiatorLogin::begin(config, Serial(1), &mut output);
    let mut stat_sn = Serial(u32::MAX);
    while let Some((flags, text)) = next_pdu(&mut rest) {
        let serials = Serials { stat_sn, exp_cmd_sn: Serial(1), max_cmd_sn: Serial(32) };
        let mut response = LoginResponse::new(flags, 0, serials);
        response.isid = isid;
        response.tsih = U16::new(3);
        stat_sn = stat_sn.next();
        match login.handle(&response, text, &mut output) {
            Ok(None) => {}
            Ok(Some(established)) => {
                assert!(!is_mutual, "no target here knows the secret");
                assert_eq!(established.tsih, 3);
                return;
            }
            Err(_) => return,
        }
    }
}

/// Grants the login of an initiator's session.
pub(crate) fn grant(target: &mut TargetLogin, output: &mut Output) {
    let granted = Granted { tsih: 1, exp_cmd_sn: Serial(1), max_cmd_sn: Serial(64) };
    target.grant(granted, output);
}
