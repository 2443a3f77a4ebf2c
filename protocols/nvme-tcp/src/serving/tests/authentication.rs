//! A queue whose host must authenticate.

use nearflash_nvme::auth::{HostEnd, Next, RANDOM_LEN, Random, Step};

use super::*;
use crate::check::target::{keys, names};

impl Bench {
    /// Sends a message of the host in the capsule.
    fn send_message(&mut self, cid: u16, message: &[u8]) {
        let len = u32::try_from(message.len()).unwrap();
        self.send(with_cid(Command::authentication_send(len), cid), message);
    }

    /// Fetches a message for the host.
    fn fetch_message(&mut self, cid: u16) -> Vec<u8> {
        self.drain_output();
        self.send(with_cid(Command::authentication_receive(4096), cid), &[]);
        let stream = self.drain_output();
        let lines = describe(&stream, Digests::NONE);
        let [data, answer] = &lines[..] else { panic!("data and an answer: {lines:?}") };
        assert!(data.starts_with("C2HData") && answer.contains("(Success)"), "{lines:?}");
        // The data lies between its header and the response.
        stream[24..stream.len() - 24].to_vec()
    }

    /// Runs a transaction with these keys of the host.
    fn authenticate(&mut self, keys: nearflash_nvme::auth::HostKeys) -> bool {
        let mut host = HostEnd::new(names(), keys, 1);
        let mut message = host.negotiate();
        loop {
            self.send_message(7, &message);
            self.answer_all();
            let answer = self.fetch_message(7);
            match host.handle_message(&answer, &Random([9; RANDOM_LEN])) {
                Ok(Next::Send(next)) => message = next,
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
    }

    fn step(&mut self) -> Step {
        let Some(Demand::Authentication(step)) = self.demands.pop() else {
            panic!("a step is handed out: {:?}", self.demands)
        };
        *step
    }
}

fn other_keys() -> nearflash_nvme::auth::HostKeys {
    let key = nearflash_nvme::auth::Key::new(None, &[8; 32]).unwrap();
    nearflash_nvme::auth::HostKeys::new(key, None, keys().policy).unwrap()
}

fn refusal(cid: u16, sqhd: u16) -> String {
    let status = Status::AUTHENTICATION_REQUIRED.dnr();
    format!("CapsuleResp cid={cid} sqhd={sqhd} {status}")
}

#[test]
fn every_other_command_is_refused_until_the_host_has_authenticated() {
    let mut bench = bench(Stage::Authenticating);
    bench.send(read(5), &[]);
    assert_eq!(bench.sent(), [refusal(5, 2)]);
    bench.send(in_capsule(write(6)), &[1; 512]);
    assert_eq!(bench.sent(), [refusal(6, 3)]);
    bench.send(with_cid(Command::disconnect(), 7), &[]);
    assert_eq!(bench.sent(), [refusal(7, 4)]);
    assert!(bench.demands.is_empty());
    assert!(bench.authenticate(keys()));
    bench.send(read(5), &[]);
    assert!(matches!(bench.demands[..], [Demand::Request(_)]), "{:?}", bench.demands);
}

#[test]
fn a_message_that_the_controller_requests_is_handled_as_one_in_the_capsule() {
    let mut bench = bench(Stage::Authenticating);
    let message = HostEnd::new(names(), keys(), 1).negotiate();
    let len = u32::try_from(message.len()).unwrap();
    let mut command = with_cid(Command::authentication_send(len), 7);
    command.sgl = SglDescriptor::transport(len);
    bench.send(command, &[]);
    assert!(bench.demands.is_empty(), "its data has not arrived");
    let tag = bench.sent()[0].clone();
    assert!(tag.starts_with("R2T cid=7"), "{tag}");
    bench.send_data(7, 0, PduFlags::LAST, &message);
    assert_eq!(bench.step().message, message);
}

#[test]
fn a_host_with_another_key_does_not_authenticate() {
    let mut bench = bench(Stage::Authenticating);
    assert!(!bench.authenticate(other_keys()));
    bench.send(read(5), &[]);
    let sent = bench.sent();
    let status = Status::AUTHENTICATION_REQUIRED.dnr();
    assert!(sent[0].ends_with(&status.to_string()), "{sent:?}");
}

#[test]
fn a_host_authenticates_again_and_loses_the_queue_if_it_fails() {
    let mut bench = bench(Stage::Authenticating);
    assert!(bench.authenticate(keys()) && bench.authenticate(keys()));
    bench.send(read(5), &[]);
    assert_eq!(bench.demands.len(), 1, "the queue is open");
    bench.answer_all();
    assert!(!bench.authenticate(other_keys()));
    bench.send(read(5), &[]);
    assert!(bench.demands.is_empty(), "the queue is closed");
    assert!(bench.authenticate(keys()), "until the host succeeds");
}

#[test]
fn one_message_is_handled_at_a_time() {
    let mut bench = bench(Stage::Authenticating);
    let message = HostEnd::new(names(), keys(), 1).negotiate();
    bench.send_message(1, &message);
    bench.send_message(2, &message);
    let early = Status::COMMAND_SEQUENCE_ERROR;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=2 sqhd=2 {early}")]);
    bench.send(with_cid(Command::authentication_receive(64), 3), &[]);
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=3 sqhd=3 {early}")]);
    let step = bench.step();
    bench.end.session.handle_authentication(step);
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=4 {}", Status::SUCCESS)]);
}

#[test]
fn a_message_of_another_protocol_or_without_length_is_an_invalid_field() {
    let mut bench = bench(Stage::Authenticating);
    let field = Status::INVALID_FIELD.dnr();
    for (sqhd, command) in (2..).zip([
        Command { cdw10: 0.into(), ..Command::authentication_receive(64) },
        Command { cdw11: 0.into(), ..Command::authentication_receive(64) },
    ]) {
        bench.send(with_cid(command, 1), &[]);
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd={sqhd} {field}")]);
    }
    let length = Status::SGL_LENGTH_INVALID.dnr();
    let command = Command { cdw11: 63.into(), ..Command::authentication_receive(64) };
    bench.send(with_cid(command, 1), &[]);
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=4 {length}")]);
}

#[test]
fn an_answer_after_the_end_of_the_connection_is_ignored() {
    let mut bench = bench(Stage::Authenticating);
    bench.send_message(1, &HostEnd::new(names(), keys(), 1).negotiate());
    let step = bench.step();
    bench.end.session.terminate(PeerError::Sequence(PduType::IC_REQ));
    bench.drain_output();
    bench.end.session.handle_authentication(step);
    assert!(bench.sent().is_empty());
}

#[test]
fn a_host_that_does_not_authenticate_in_time_is_disconnected() {
    let mut silent = bench(Stage::Authenticating);
    let timeout = SessionConfig::default().handshake_timeout;
    assert_eq!(silent.end.session.handle_timeout(timeout), Err(PeerError::Silent));
    let mut authenticated = bench(Stage::Authenticating);
    assert!(authenticated.authenticate(keys()));
    assert_eq!(authenticated.end.session.handle_timeout(timeout), Ok(()));
}

#[test]
fn a_queue_without_authentication_knows_no_such_commands() {
    let mut bench = bench(Stage::Io);
    bench.send_message(1, &[0; 72]);
    let unknown = Status::INVALID_OPCODE.dnr();
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {unknown}")]);
}
