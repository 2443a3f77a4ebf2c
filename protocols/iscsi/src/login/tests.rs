use std::sync::Arc;

use nearflash_session::{Chunk, Output};
use proptest::prelude::*;
use zerocopy::FromBytes;

use super::*;
use crate::PeerError;
use crate::chap::{Account, Challenge, Credential, Secret};
use crate::params::{DigestWish, Offer, SessionParams};
use crate::pdu::{
    BasicHeader, HEADER_LEN, LoginFlags, LoginRequest, LoginResponse, LoginStatus, Serial, Stage,
    padding_len,
};

const OFFER: Offer = Offer {
    session: SessionParams {
        max_connections: 4,
        initial_r2t: false,
        immediate_data: true,
        max_burst_len: 1 << 20,
        first_burst_len: 1 << 18,
        time_to_wait: 2,
        time_to_retain: 0,
        max_outstanding_r2t: 1,
        data_pdu_in_order: true,
        data_sequence_in_order: true,
        error_recovery_level: 0,
        protocol_level: 1,
    },
    receive_len_max: 1 << 18,
    header_digest: DigestWish::PreferNone,
    data_digest: DigestWish::PreferNone,
};

fn challenge(byte: u8) -> Challenge {
    Challenge { identifier: byte, bytes: [byte; 32] }
}

fn target_config() -> TargetLoginConfig {
    TargetLoginConfig {
        offer: OFFER,
        portal_group: 1,
        challenge: challenge(1),
        stat_sn: Serial(u32::MAX),
    }
}

fn login_config() -> LoginConfig {
    LoginConfig {
        initiator: "iqn.2026-11.io.example:Host".to_owned(),
        initiator_alias: Some("a host".to_owned()),
        isid: [0x40, 0, 0, 1, 0, 7],
        tsih: 0,
        cid: 3,
        kind: SessionKind::Normal { target: "iqn.2026-11.io.nearflash:data".to_owned() },
        account: None,
        challenge: challenge(2),
        offer: OFFER,
    }
}

fn credential(user: &str, byte: u8) -> Credential {
    Credential { user: user.to_owned(), secret: Secret::new(vec![byte; 16]).unwrap() }
}

fn account(target: Option<u8>) -> Arc<Account> {
    let target = target.map(|byte| credential("node", byte));
    Arc::new(Account::new(credential("host", 10), target).unwrap())
}

fn open() -> Access {
    Access { is_open: true, accounts: Vec::new() }
}

fn closed(account: Arc<Account>) -> Access {
    Access { is_open: false, accounts: vec![account] }
}

fn granted() -> Granted {
    Granted { tsih: 9, exp_cmd_sn: Serial(5), max_cmd_sn: Serial(36) }
}

/// Everything that is queued, as PDUs.
fn drain(output: &mut Output) -> Vec<([u8; HEADER_LEN], Vec<u8>)> {
    let mut stream = Vec::new();
    for chunk in output.chunks() {
        let Chunk::Bytes(bytes) = chunk else { unreachable!("a login has no payload") };
        stream.extend_from_slice(bytes);
    }
    output.clear(&mut |_| {});
    let mut rest = &stream[..];
    let mut pdus = Vec::new();
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
        let len = crate::length(BasicHeader::ref_from_bytes(header).unwrap().data_len.get());
        pdus.push((*header, after[..len].to_vec()));
        rest = &after[len + padding_len(len)..];
    }
    pdus
}

/// The last response in `output`, and its text.
fn response(output: &mut Output) -> (LoginResponse, String) {
    let (header, data) = drain(output).pop().expect("there is a response");
    let text = String::from_utf8(data).unwrap().replace('\0', " ");
    (LoginResponse::read_from_bytes(&header).unwrap(), text.trim_end().to_owned())
}

fn status(response: &LoginResponse) -> LoginStatus {
    LoginStatus::new(response.status_class, response.status_detail)
}

/// One login between the two ends.
fn log_in(config: LoginConfig, access: &Access) -> (Result<Established, PeerError>, LoginStep) {
    let mut to_target = Output::default();
    let mut to_initiator = Output::default();
    let mut initiator = InitiatorLogin::begin(config, Serial(5), &mut to_target);
    let mut target = TargetLogin::new(target_config());
    let mut last = LoginStep::Answered;
    loop {
        for (header, data) in drain(&mut to_target) {
            let request = LoginRequest::read_from_bytes(&header).unwrap();
            last = target.handle(access, &request, &data, &mut to_initiator);
            match last {
                LoginStep::Demanded(_) => target.grant(granted(), &mut to_initiator),
                LoginStep::Refused(status) => target.refuse(status, &mut to_initiator),
                LoginStep::Answered => {}
            }
        }
        for (header, data) in drain(&mut to_initiator) {
            let response = LoginResponse::read_from_bytes(&header).unwrap();
            match initiator.handle(&response, &data, &mut to_target) {
                Ok(None) => {}
                Ok(Some(established)) => return (Ok(established), last),
                Err(error) => return (Err(error), last),
            }
        }
    }
}

fn demanded(step: LoginStep) -> LoginDemand {
    match step {
        LoginStep::Demanded(demand) => *demand,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn both_ends_enter_the_full_feature_phase_with_the_same_parameters() {
    let (established, step) = log_in(login_config(), &open());
    let (established, demand) = (established.unwrap(), demanded(step));
    assert_eq!(demand.initiator, "iqn.2026-11.io.example:host");
    assert_eq!(demand.initiator_alias.as_deref(), Some("a host"));
    assert_eq!((demand.tsih, demand.cid, demand.isid), (0, 3, [0x40, 0, 0, 1, 0, 7]));
    let target = "iqn.2026-11.io.nearflash:data".to_owned();
    assert_eq!(demand.kind, SessionKind::Normal { target });
    assert_eq!((demand.account, demand.cmd_sn), (None, Serial(5)));
    assert_eq!(established.session, demand.session);
    assert_eq!(established.session, OFFER.session);
    assert_eq!(established.connection, demand.connection);
    assert_eq!((established.tsih, established.max_cmd_sn), (9, Serial(36)));
    assert_eq!(established.exp_stat_sn, Serial(1), "two responses from the last number on");
}

#[test]
fn a_discovery_session_needs_no_target() {
    let config = LoginConfig { kind: SessionKind::Discovery, ..login_config() };
    let (established, step) = log_in(config, &open());
    assert_eq!(demanded(step).kind, SessionKind::Discovery);
    assert_eq!(established.unwrap().session.max_burst_len, 262_144);
}

#[test]
fn an_initiator_proves_itself_and_the_target_if_it_is_asked_to() {
    for target in [None, Some(20)] {
        let account = account(target);
        let config = LoginConfig { account: Some(account.clone()), ..login_config() };
        let (established, step) = log_in(config, &closed(account));
        assert!(established.is_ok(), "{established:?}");
        assert_eq!(demanded(step).account.as_deref(), Some("host"));
    }
}

#[test]
fn a_wrong_secret_or_user_fails_and_so_does_no_proof_at_all() {
    let access = closed(account(None));
    let wrong = [credential("host", 11), credential("hosts", 10)];
    let wrong = wrong.map(|credential| Some(Arc::new(Account::new(credential, None).unwrap())));
    for account in wrong.into_iter().chain([None]) {
        let config = LoginConfig { account, ..login_config() };
        let (established, step) = log_in(config, &access);
        let failure = LoginStatus::AUTHENTICATION_FAILURE;
        assert_eq!(established, Err(PeerError::Login(failure)));
        assert_eq!(step, LoginStep::Refused(failure));
    }
}

#[test]
fn who_need_not_prove_anything_is_let_in_with_an_account_too() {
    let config = LoginConfig { account: Some(account(None)), ..login_config() };
    let (established, step) = log_in(config, &open());
    assert!(established.is_ok(), "{established:?}");
    assert_eq!(demanded(step).account, None);
}

#[test]
fn a_target_that_cannot_prove_itself_is_an_impostor() {
    let config = LoginConfig { account: Some(account(Some(20))), ..login_config() };
    let (established, _) = log_in(config.clone(), &closed(account(Some(21))));
    assert_eq!(established, Err(PeerError::Impostor));
    let (established, _) = log_in(config.clone(), &closed(account(None)));
    let failure = LoginStatus::AUTHENTICATION_FAILURE;
    assert_eq!(established, Err(PeerError::Login(failure)));
    // An open target does not accept CHAP, the only method that this initiator offers.
    let (established, _) = log_in(config, &open());
    assert_eq!(established, Err(PeerError::Login(failure)));
}

#[test]
fn a_challenge_that_is_sent_back_is_refused() {
    let account = account(Some(20));
    let config =
        LoginConfig { account: Some(account.clone()), challenge: challenge(1), ..login_config() };
    let (established, _) = log_in(config, &closed(account));
    assert_eq!(established, Err(PeerError::Impostor), "the initiator notices first");
    let mut session = Requests::new(closed(self::account(Some(20))));
    session.send(SECURITY, "AuthMethod=CHAP CHAP_A=5");
    let challenge = crate::chap::encode(&[1; 16]);
    let right = crate::chap::Response::new(
        crate::chap::Algorithm::Md5,
        1,
        &credential("host", 10).secret,
        &[1; 16],
    );
    let right = crate::chap::encode(right.bytes());
    let text = format!("CHAP_N=host CHAP_R={right} CHAP_I=7 CHAP_C={challenge}");
    assert_eq!(session.send(SECURITY, &text).0, LoginStatus::AUTHENTICATION_FAILURE);
}

const SECURITY: LoginFlags = LoginFlags::within(Stage::Security);
const OPERATIONAL: LoginFlags = LoginFlags::within(Stage::Operational);
const TO_OPERATIONAL: LoginFlags = LoginFlags::transit(Stage::Security, Stage::Operational);
const TO_FULL: LoginFlags = LoginFlags::transit(Stage::Operational, Stage::FullFeature);
const NAMES: &str = "InitiatorName=iqn.a:b TargetName=iqn.a:c";

/// A target that receives requests of any kind.
struct Requests {
    access: Access,
    target: TargetLogin,
    output: Output,
    is_first: bool,
}

impl Requests {
    fn new(access: Access) -> Self {
        let (target, output) = (TargetLogin::new(target_config()), Output::default());
        Self { access, target, output, is_first: true }
    }

    /// Sends text with blanks for zero bytes, and the names with the first text. Returns the
    /// response.
    fn send(&mut self, flags: LoginFlags, text: &str) -> (LoginStatus, LoginFlags, String) {
        let names = if std::mem::take(&mut self.is_first) { NAMES } else { "" };
        self.send_bare(flags, &format!("{names} {text}"))
    }

    fn send_bare(&mut self, flags: LoginFlags, text: &str) -> (LoginStatus, LoginFlags, String) {
        self.is_first = false;
        let request = LoginRequest::new(flags, [1; 6], 0, 0);
        self.send_request(&request, text)
    }

    fn send_request(
        &mut self,
        request: &LoginRequest,
        text: &str,
    ) -> (LoginStatus, LoginFlags, String) {
        let mut data = text.trim().replace(' ', "\0").into_bytes();
        if !data.is_empty() && !request.flags.is_continued() {
            data.push(0);
        }
        let step = self.target.handle(&self.access, request, &data, &mut self.output);
        match step {
            LoginStep::Demanded(_) => self.target.grant(granted(), &mut self.output),
            LoginStep::Refused(status) => self.target.refuse(status, &mut self.output),
            LoginStep::Answered => {}
        }
        let (response, text) = response(&mut self.output);
        if let LoginStep::Refused(refused) = step {
            assert_eq!(status(&response), refused);
        }
        (status(&response), response.flags, text)
    }
}

fn refused(access: Access, flags: LoginFlags, text: &str) -> LoginStatus {
    Requests::new(access).send_bare(flags, text).0
}

#[test]
fn what_the_first_request_lacks_is_missed() {
    let missing = LoginStatus::MISSING_PARAMETER;
    assert_eq!(refused(open(), SECURITY, ""), missing);
    assert_eq!(refused(open(), SECURITY, "InitiatorName=iqn.a:b"), missing);
    assert_eq!(refused(open(), SECURITY, "TargetName=iqn.a:b"), missing);
    let discovery = "InitiatorName=iqn.a:b SessionType=Discovery";
    assert_eq!(refused(open(), SECURITY, discovery), LoginStatus::SUCCESS);
}

#[test]
fn names_and_types_that_are_none_are_refused() {
    let error = LoginStatus::INITIATOR_ERROR;
    assert_eq!(refused(open(), SECURITY, "InitiatorName=host TargetName=iqn.a:c"), error);
    assert_eq!(refused(open(), SECURITY, &format!("{NAMES} InitiatorName=iqn.x:y")), error);
    let long = format!("InitiatorName=iqn.{} TargetName=iqn.a:c", "x".repeat(220));
    assert_eq!(refused(open(), SECURITY, &long), error);
    let session = LoginStatus::SESSION_TYPE;
    assert_eq!(refused(open(), SECURITY, &format!("{NAMES} SessionType=Odd")), session);
}

#[test]
fn stages_go_in_their_order() {
    let invalid = LoginStatus::INVALID_REQUEST;
    // Backwards, on the spot, from what was never entered, to the reserved one, with T and C.
    for flags in [0x84, 0x85, 0x80, 0x8C, 0x0C, 0x82, 0x8E, 0xC1, 0x48 | 0x80] {
        assert_eq!(refused(open(), LoginFlags(flags), NAMES), invalid, "{flags:#04x}");
    }
    let mut session = Requests::new(open());
    assert_eq!(session.send(TO_OPERATIONAL, "AuthMethod=None").1, TO_OPERATIONAL);
    assert_eq!(session.send(SECURITY, "").0, invalid, "there is no way back");
}

#[test]
fn a_login_may_begin_with_the_operational_stage_where_no_proof_is_asked_for() {
    let mut session = Requests::new(open());
    let (status, flags, text) = session.send(TO_FULL, "MaxConnections=1");
    assert_eq!((status, flags), (LoginStatus::SUCCESS, TO_FULL));
    let expected = "TargetPortalGroupTag=1 MaxRecvDataSegmentLength=262144 MaxConnections=1";
    assert_eq!(text, expected);
    let mut session = Requests::new(closed(account(None)));
    let failure = LoginStatus::AUTHENTICATION_FAILURE;
    assert_eq!(session.send(OPERATIONAL, "").0, failure);
}

#[test]
fn an_initiator_cannot_go_on_in_the_middle_of_its_proof() {
    let mut session = Requests::new(closed(account(None)));
    let (status, flags, text) = session.send(TO_OPERATIONAL, "AuthMethod=None,CHAP");
    assert_eq!((status, flags), (LoginStatus::SUCCESS, SECURITY), "it stays where it is");
    assert!(text.ends_with("AuthMethod=CHAP"), "{text}");
    assert_eq!(session.send(TO_OPERATIONAL, "").1, SECURITY);
    assert_eq!(session.send(OPERATIONAL, "").0, LoginStatus::INVALID_REQUEST);
}

#[test]
fn steps_of_the_proof_out_of_order_fail() {
    let error = LoginStatus::INITIATOR_ERROR;
    let failure = LoginStatus::AUTHENTICATION_FAILURE;
    for (text, expected) in [
        ("CHAP_A=5", error),
        ("AuthMethod=CHAP CHAP_N=host", failure),
        ("AuthMethod=CHAP CHAP_A=9", failure),
        ("AuthMethod=SRP", failure),
        ("AuthMethod=CHAP AuthMethod=CHAP", error),
    ] {
        let mut session = Requests::new(closed(account(None)));
        assert_eq!(session.send(SECURITY, text).0, expected, "{text}");
    }
    for text in ["CHAP_N=host", "CHAP_R=0x00", "CHAP_N=host CHAP_R=zz", "CHAP_A=5"] {
        let mut session = Requests::new(closed(account(None)));
        session.send(SECURITY, "AuthMethod=CHAP CHAP_A=5");
        assert_eq!(session.send(SECURITY, text).0, failure, "{text}");
    }
}

#[test]
fn text_may_come_in_several_requests() {
    let mut session = Requests::new(open());
    let more = LoginFlags::continued(Stage::Security);
    assert_eq!(session.send_bare(more, "InitiatorName=iqn.a:b TargetNa").1, SECURITY);
    let (status, flags, text) = session.send_bare(TO_OPERATIONAL, "me=iqn.a:c AuthMethod=None");
    assert_eq!((status, flags), (LoginStatus::SUCCESS, TO_OPERATIONAL));
    assert_eq!(text, "TargetPortalGroupTag=1 AuthMethod=None", "nothing operational yet");
}

#[test]
fn text_without_end_is_refused() {
    let mut session = Requests::new(open());
    let more = LoginFlags::continued(Stage::Security);
    let text = "x".repeat(8000);
    assert_eq!(session.send_bare(more, &text).0, LoginStatus::SUCCESS);
    assert_eq!(session.send_bare(more, &text).0, LoginStatus::SUCCESS);
    assert_eq!(session.send_bare(more, &text).0, LoginStatus::INITIATOR_ERROR);
}

#[test]
fn a_login_without_end_is_refused() {
    let mut session = Requests::new(open());
    for _ in 0..TURNS_MAX {
        assert_eq!(session.send(SECURITY, "").0, LoginStatus::SUCCESS);
    }
    assert_eq!(session.send(SECURITY, "").0, LoginStatus::INVALID_REQUEST);
}

#[test]
fn answers_that_are_too_long_continue() {
    let mut session = Requests::new(open());
    let keys: Vec<String> = (0..400).map(|key| format!("X-a-key-of-nobody-{key}=1")).collect();
    let (_, flags, text) = session.send(TO_FULL, &keys.join(" "));
    assert_eq!(flags, LoginFlags::continued(Stage::Operational));
    assert_eq!(text.len(), 8192);
    let (_, flags, rest) = session.send(TO_FULL, "");
    assert_eq!(flags, TO_FULL);
    let answers = format!("{text}{rest}").matches("=NotUnderstood").count();
    assert_eq!(answers, 400);
}

#[test]
fn other_versions_and_other_logins_are_refused() {
    let mut request = LoginRequest::new(SECURITY, [1; 6], 0, 0);
    request.version_min = 1;
    let refusal = Requests::new(open()).send_request(&request, NAMES).0;
    assert_eq!(refusal, LoginStatus::UNSUPPORTED_VERSION);
    let mut session = Requests::new(open());
    session.send(SECURITY, "");
    let other = LoginRequest::new(SECURITY, [2; 6], 0, 0);
    assert_eq!(session.send_request(&other, "").0, LoginStatus::INVALID_REQUEST);
}

#[test]
fn names_come_once() {
    let mut session = Requests::new(open());
    session.send(SECURITY, "");
    let error = LoginStatus::INITIATOR_ERROR;
    assert_eq!(session.send(SECURITY, "TargetName=iqn.a:other").0, error);
    assert_eq!(refused(open(), OPERATIONAL, &format!("{NAMES} AuthMethod=None")), error);
}

#[test]
fn a_refusal_says_why_in_its_header() {
    let mut target = TargetLogin::new(target_config());
    let mut output = Output::default();
    let request = LoginRequest::new(TO_FULL, [1; 6], 0, 0);
    let text = format!("{NAMES} ").replace(' ', "\0");
    let step = target.handle(&open(), &request, text.as_bytes(), &mut output);
    assert!(matches!(step, LoginStep::Demanded(_)) && output.is_empty());
    target.refuse(LoginStatus::NOT_FOUND, &mut output);
    let (response, _) = response(&mut output);
    assert_eq!(status(&response), LoginStatus::NOT_FOUND);
    assert!(!response.flags.is_transit());
}

proptest! {
    #[test]
    fn any_requests_are_answered_or_refused(
        requests in prop::collection::vec(
            (any::<u8>(), prop::sample::select(vec![
                NAMES, "AuthMethod=CHAP", "AuthMethod=None", "CHAP_A=5", "CHAP_N=host CHAP_R=0x12",
                "MaxBurstLength=512", "SessionType=Discovery", "=", "",
            ])),
            1..12,
        ),
        is_open in any::<bool>(),
    ) {
        let access = Access { is_open, ..closed(account(Some(20))) };
        let mut session = Requests::new(access);
        for (flags, text) in requests {
            let (status, flags, _) = session.send(LoginFlags(flags), text);
            if !status.is_success() {
                break;
            }
            let entered = flags.is_transit() && flags.next() == Some(Stage::FullFeature);
            prop_assert!(is_open || !entered, "nobody enters unauthenticated");
            if entered {
                break;
            }
        }
    }
}
