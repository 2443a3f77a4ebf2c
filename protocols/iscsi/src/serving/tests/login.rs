//! From a login to the full feature phase, through the portal.

use std::sync::Arc;

use super::*;
use crate::chap::{Account, Credential, Secret};
use crate::check::Stage;
use crate::check::target::{config, exports, login_pdu};
use crate::error::PeerError;
use crate::pdu::{LoginResponse, LoginStatus};
use crate::serving::{PORTAL_GROUP, SessionConfig, State};
use nearflash_session::Receiving;
use nearflash_units::Nanos;

fn response(bench: &mut Bench) -> LoginStatus {
    let pdu = said_once(bench);
    assert_eq!(pdu.opcode(), Opcode::LOGIN_RESPONSE);
    let response: &LoginResponse = pdu.of();
    LoginStatus::new(response.status_class, response.status_detail)
}

#[test]
fn a_login_is_held_until_it_is_granted() {
    let mut bench = Bench::new(Stage::Granting, PLAIN);
    assert_eq!(bench.end.session.receiving(), Receiving::Paused);
    assert_eq!(bench.end.session.state, State::Granting);
    assert!(said(&mut bench).is_empty());
    let Some(Demand::Login(demand)) = bench.demands.first() else { panic!("no login") };
    assert_eq!(demand.initiator, crate::check::target::INITIATOR);
    bench.grant();
    let pdu = said_once(&mut bench);
    let response: &LoginResponse = pdu.of();
    let shared = Arc::clone(&bench.end.session.shared);
    assert_ne!(shared.tsih, 0);
    assert_eq!(response.tsih.get(), shared.tsih);
    assert_eq!((response.exp_cmd_sn, response.max_cmd_sn), (number(0), number(7)));
    let text = String::from_utf8(pdu.data).unwrap();
    assert!(text.contains(&format!("TargetPortalGroupTag={PORTAL_GROUP}\0")), "{text:?}");
    assert_eq!(bench.end.session.state, State::FullFeature);
    assert_eq!(bench.end.session.receiving(), Receiving::Bytes);
    let first = pdu.header;
    bench.send(test_unit_ready(0).as_bytes(), &[]);
    bench.answer_all();
    let next = said_once(&mut bench).stat_sn();
    let last = u32::from_be_bytes(first[24..28].try_into().unwrap());
    assert_eq!(next, last.wrapping_add(1), "status numbers go on");
    bench.end();
}

#[test]
fn a_login_that_is_not_granted_is_told_so_and_closed() {
    let mut bench = Bench::new(Stage::Granting, PLAIN);
    bench.end.session.handle_login(Err(LoginStatus::OUT_OF_RESOURCES));
    assert_eq!(response(&mut bench), LoginStatus::OUT_OF_RESOURCES);
    assert!(bench.end.session.is_closing());
    bench.end();
}

#[test]
fn who_may_not_come_in_is_told_why() {
    let secret = |byte| Secret::new(vec![byte; 16]).unwrap();
    let account = || {
        let credential = Credential { user: "us".to_owned(), secret: secret(7) };
        Account::new(credential, None).unwrap()
    };
    let closed = SessionConfig { anonymous: false, ..config() };
    for (exports, config, expected) in [
        (exports(1).with_initiators(["iqn.other".into()]), config(), (2, 2)),
        (crate::serving::Exports::default(), config(), (2, 3)),
        (exports(1).with_accounts([account()]), config(), (2, 1)),
        // The last account was removed.
        (exports(1).closed(), config(), (2, 1)),
        (exports(1), closed, (2, 1)),
    ] {
        let mut bench = Bench::of(Stage::Login, PLAIN, exports, config);
        bench.feed(&login_pdu(PLAIN, 0, 1, false));
        let status = LoginStatus::new(expected.0, expected.1);
        if status == LoginStatus::AUTHENTICATION_FAILURE {
            // A failed authentication is answered late.
            let told_at = config.refusal_delay;
            assert_eq!(bench.end.session.handle_timeout(Nanos(told_at.0 - 1)), Ok(()));
            assert_eq!((bench.end.error, bench.end.session.output_len()), (None, 0));
            bench.end.error = bench.end.session.handle_timeout(told_at).err();
        }
        assert_eq!(bench.end.error, Some(PeerError::Login(status)));
        assert_eq!(response(&mut bench), status);
        assert!(bench.end.session.is_closing());
        bench.end();
    }
}

#[test]
fn an_account_is_for_the_initiators_that_it_names_or_for_all() {
    let account = |names: &[&str]| {
        let secret = Secret::new(vec![7; 16]).unwrap();
        let account = Account::new(Credential { user: "us".to_owned(), secret }, None).unwrap();
        exports(1).with_accounts([account.for_initiators(names.iter().map(|name| (*name).into()))])
    };
    for (names, initiator, is_trusted) in [
        (&[][..], "iqn.a", true),
        (&["iqn.b", "IQN.A"], "iqn.a", true),
        (&["iqn.b"], "iqn.a", false),
    ] {
        assert_eq!(account(names).trusts(Some("us"), initiator), is_trusted, "{names:?}");
        assert!(!account(names).trusts(Some("other"), initiator));
        assert!(!account(names).trusts(None, initiator));
    }
    assert!(exports(1).trusts(None, "iqn.a"));
    assert!(!exports(1).closed().trusts(None, "iqn.a"));
}

#[test]
fn digests_begin_behind_the_last_login_response() {
    let setup = Setup { header_digest: true, data_digest: true, ..PLAIN };
    let mut bench = Bench::new(Stage::Granting, setup);
    bench.grant();
    assert_eq!(said_once(&mut bench).opcode(), Opcode::LOGIN_RESPONSE);
    bench.digests = Digests { header: true, data: true };
    bench.volume.bytes_mut().fill(3);
    assert!(bench.end.session.wants_payload_bytes());
    bench.send(read(0, 0, 2).as_bytes(), &[]);
    bench.answer_all();
    assert_eq!(said_once(&mut bench).data, [3; 1024]);
    bench.end();
}

#[test]
fn commands_sent_with_the_login_are_taken_when_it_is_granted() {
    let mut bench = Bench::new(Stage::Login, PLAIN);
    let login = login_pdu(PLAIN, 0, 1, false);
    bench.feed(&login);
    let command = test_unit_ready(0);
    assert_eq!(bench.end.session.handle_input(command.as_bytes()), Ok(0), "it waits");
    bench.grant();
    bench.feed(command.as_bytes());
    bench.answer_all();
    assert_eq!(said(&mut bench).len(), 2);
    bench.end();
}
