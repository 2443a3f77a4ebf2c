//! Pings and text of the full feature phase: SendTargets.
//!
//! Spec: RFC 7143, 11.10 and 11.11 (text), 11.18 and 11.19 (NOP), appendix C (SendTargets).
//! SendTargets=All is answered in every session, as deployed initiators expect, with the targets of
//! a discovery session.

use zerocopy::IntoBytes;

use super::TargetSession;
use super::answers::Answer;
use crate::length;
use crate::pdu::{CONTINUE, FINAL, NO_TAG, NopOut, Opcode, RejectReason, TextRequest};
use crate::text::{Pairs, TextError};

/// The target transfer tag of the one text exchange that a connection may have.
const TEXT_TAG: u32 = 0x7E87_7E87;

impl TargetSession {
    /// Answers a NOP-Out with its data, up to the initiator's MaxRecvDataSegmentLength.
    pub(super) fn on_ping(&mut self, request: &NopOut, data: &[u8]) {
        self.finish_function(request.opcode.is_immediate());
        let data = &data[..data.len().min(length(self.link.params.send_len_max))];
        let answer = Answer {
            lun: request.lun.0,
            tag: NO_TAG,
            ..Answer::new(Opcode::NOP_IN, request.itt.get())
        };
        self.push_answer(&answer, data);
    }

    /// Sends a ping. The initiator's answer carries the tag.
    pub(super) fn push_ping(&mut self, tag: u32) {
        let answer = Answer { tag, ..Answer::new(Opcode::NOP_IN, NO_TAG) };
        self.push_unasked(&answer, &[]);
    }

    pub(super) fn on_text(&mut self, request: &TextRequest, data: &[u8]) {
        self.finish_function(request.opcode.is_immediate());
        if request.ttt.get() == NO_TAG {
            // A new exchange; the rest of an old one is dropped.
            self.text_in.take();
            self.text_out.clear();
        } else if request.ttt.get() != TEXT_TAG {
            return self.reject(RejectReason::INVALID_FIELD, request.as_bytes());
        }
        if self.text_in.push(data).is_err() {
            self.text_in.take();
            return self.reject(RejectReason::OUT_OF_RESOURCES, request.as_bytes());
        }
        let is_continued = request.flags & CONTINUE != 0;
        if is_continued {
            return self.push_text(request, 0, NO_PART);
        }
        if self.text_out.is_over() {
            self.text_out.clear();
            let text = self.text_in.take();
            if self.answer_text(&text).is_err() {
                self.text_out.clear();
                return self.reject(RejectReason::PROTOCOL, request.as_bytes());
            }
        }
        let is_final = request.flags & FINAL != 0;
        self.push_text(request, self.link.params.send_len_max, is_final);
    }

    /// Answers with the next part of the outgoing text.
    fn push_text(&mut self, request: &TextRequest, len_max: u32, is_final: bool) {
        let mut text = std::mem::take(&mut self.text_out);
        let (part, continues) = text.next_part(len_max);
        let continues = continues && len_max > 0;
        let flags = match (continues, is_final) {
            (true, _) => CONTINUE,
            (false, true) => FINAL,
            (false, false) => 0,
        };
        let tag = if flags == FINAL { NO_TAG } else { TEXT_TAG };
        let answer = Answer {
            flags,
            lun: request.lun.0,
            tag,
            ..Answer::new(Opcode::TEXT_RESPONSE, request.itt.get())
        };
        self.push_answer(&answer, part);
        self.text_out = text;
    }

    fn answer_text(&mut self, text: &[u8]) -> Result<(), TextError> {
        for pair in Pairs::new(text) {
            let (key, value) = pair?;
            self.answer_pair(key, value);
        }
        Ok(())
    }

    fn answer_pair(&mut self, key: &str, value: &str) {
        match key {
            "SendTargets" => self.send_targets(value),
            _ => crate::params::answer_in_full_feature_phase(
                key,
                value,
                &mut self.link.params,
                &mut self.text_out,
            ),
        }
    }

    fn send_targets(&mut self, value: &str) {
        let exports = std::sync::Arc::clone(&self.exports);
        let name = match value {
            "All" => {
                let initiator = std::mem::take(&mut self.names.initiator);
                for name in exports.targets().filter(|name| exports.shows(name, &initiator)) {
                    self.push_target(name, &exports.addresses(name, self.local));
                }
                self.names.initiator = initiator;
                return;
            }
            "" if !self.names.is_discovery => self.names.target.to_string(),
            _ => value.to_lowercase(),
        };
        if !["iqn.", "eui.", "naa."].iter().any(|kind| name.starts_with(kind)) {
            return self.text_out.push("SendTargets", "Reject");
        }
        // A target that does not exist, or that the initiator may not use, is not reported: RFC 7143,
        // appendix C.
        if exports.target(&name).is_some() && exports.shows(&name, &self.names.initiator) {
            self.push_target(&name, &exports.addresses(&name, self.local));
        }
    }

    fn push_target(&mut self, name: &str, addresses: &[String]) {
        self.text_out.push("TargetName", name);
        for address in addresses {
            self.text_out.push("TargetAddress", address);
        }
    }
}

/// `is_final` of the empty answer to a text that continues.
const NO_PART: bool = false;
