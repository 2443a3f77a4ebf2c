//! The login of the fake target.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;

use nearflash_iscsi::chap::{Algorithm, Response, Secret};

use super::Connection;
use super::pdu::{Header, opcode};

/// The target's CHAP_C and CHAP_I.
const CHALLENGE: [u8; 16] = *b"a challenge 1234";
const IDENTIFIER: u8 = 9;

type Keys = BTreeMap<String, String>;

impl Connection {
    /// Answers login requests until the full feature phase.
    pub(super) fn log_in(&mut self) -> io::Result<()> {
        loop {
            let (header, data) = self.stream.receive()?;
            assert_eq!(header.opcode(), opcode::LOGIN);
            self.shared.exp_cmd_sn.fetch_max(header.word(24), Ordering::SeqCst);
            if self.script.is_silent {
                // Until the initiator gives up.
                return self.stream.receive().map(|_| ());
            }
            let keys = read(&data);
            if let Some(len) = keys.get("MaxRecvDataSegmentLength") {
                self.stream.data_len_max = len.parse().unwrap();
            }
            let answer = match self.script.login_status {
                Some(status) => Err(status),
                None => self.answer_keys(&keys),
            };
            let response = self.answer(opcode::LOGIN_RESPONSE, &header);
            match answer {
                Err((class, detail)) => {
                    let refusal = response.with_byte(1, 0).with_byte(36, class);
                    self.stream.send(refusal.with_byte(37, detail), &[])?;
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Ok((text, proceeds)) => {
                    let flags = header.byte(1);
                    let transits = flags & 0x80 != 0 && proceeds;
                    let flags = if transits { flags } else { flags & 0x0C };
                    let response = with_session(response, &header).with_byte(1, flags);
                    self.stream.send(response, &text)?;
                    if transits && flags & 3 == 3 {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Returns the answer, and whether the initiator may go on to the next stage.
    fn answer_keys(&self, keys: &Keys) -> Result<(Vec<u8>, bool), (u8, u8)> {
        let mut text = Text::default();
        let Some((user, secret)) = self.script.account else {
            self.negotiate(keys, &mut text);
            return Ok((text.0, true));
        };
        let secret = Secret::new(secret.as_bytes().to_vec()).unwrap();
        if let Some(methods) = keys.get("AuthMethod") {
            if !methods.split(',').any(|method| method == "CHAP") {
                return Err((2, 1));
            }
            text.push("AuthMethod", "CHAP");
            text.push("TargetPortalGroupTag", "1");
            return Ok((text.0, false));
        }
        if keys.contains_key("CHAP_A") {
            text.push("CHAP_A", "5");
            text.push("CHAP_I", &IDENTIFIER.to_string());
            text.push("CHAP_C", &hexadecimal(&CHALLENGE));
            return Ok((text.0, false));
        }
        if let Some(response) = keys.get("CHAP_R") {
            let expected = Response::new(Algorithm::Md5, IDENTIFIER, &secret, &CHALLENGE);
            let is_right = response.eq_ignore_ascii_case(&hexadecimal(expected.bytes()));
            if !is_right || keys.get("CHAP_N").map(String::as_str) != Some(user) {
                return Err((2, 1));
            }
            return Ok((text.0, true));
        }
        self.negotiate(keys, &mut text);
        Ok((text.0, true))
    }

    /// Accepts every offer, with or without digests and unsolicited data.
    fn negotiate(&self, keys: &Keys, text: &mut Text) {
        for (key, value) in keys {
            let yes_or_no = |yes: bool| if yes { "Yes" } else { "No" };
            match key.as_str() {
                "HeaderDigest" | "DataDigest" => {
                    text.push(key, if self.script.digests { "CRC32C" } else { "None" });
                }
                "InitialR2T" => text.push(key, yes_or_no(self.script.asks)),
                "ImmediateData" => text.push(key, yes_or_no(!self.script.asks)),
                "AuthMethod" => text.push(key, "None"),
                "MaxRecvDataSegmentLength" => text.push(key, "262144"),
                "InitiatorName" | "InitiatorAlias" | "TargetName" | "SessionType" => {}
                _ => text.push(key, value),
            }
        }
    }
}

fn with_session(mut response: Header, request: &Header) -> Header {
    response.0[8..14].copy_from_slice(&request.0[8..14]);
    response.with_byte(15, 5)
}

fn read(data: &[u8]) -> Keys {
    let pairs = data.split(|byte| *byte == 0).filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| str::from_utf8(pair).unwrap().split_once('=').unwrap());
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("0x".to_owned()).chain(digits).collect()
}

/// The keys to send.
#[derive(Default)]
struct Text(Vec<u8>);

impl Text {
    fn push(&mut self, key: &str, value: &str) {
        self.0.extend(format!("{key}={value}\0").bytes());
    }
}
