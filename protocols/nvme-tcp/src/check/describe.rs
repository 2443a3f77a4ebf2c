//! A description of a PDU stream, in lines that tests compare.

use std::fmt::Write;

use zerocopy::FromBytes;

use crate::digest::{DIGEST_LEN, Digests, digest};
use crate::pdu::{
    CapsuleCmd, CapsuleResp, CommonHeader, DataPdu, InitPdu, PduFlags, PduType, TermReq,
};

/// One line for each PDU in the stream. Digests are verified.
pub(crate) fn describe(mut stream: &[u8], digests: Digests) -> Vec<String> {
    let mut lines = Vec::new();
    while !stream.is_empty() {
        let (common, _) = CommonHeader::ref_from_prefix(stream).unwrap();
        let (pdu, rest) = stream.split_at(usize::try_from(common.pdu_len.get()).unwrap());
        stream = rest;
        let header_len = usize::from(common.header_len);
        assert_eq!(common.pdu_type.header_len(), Some(header_len));
        if common.pdu_type.carries_digests() && digests.header {
            assert!(common.flags.has(PduFlags::HEADER_DIGEST));
            let received = &pdu[header_len..header_len + DIGEST_LEN];
            assert_eq!(received, digest(&pdu[..header_len]).to_le_bytes());
        }
        lines.push(describe_pdu(common, pdu, digests));
    }
    lines
}

fn describe_pdu(common: &CommonHeader, pdu: &[u8], digests: Digests) -> String {
    let mut line = common.pdu_type.name().to_owned();
    match common.pdu_type {
        PduType::CAPSULE_CMD => {
            let (capsule, _) = CapsuleCmd::ref_from_prefix(pdu).unwrap();
            let (cid, opcode) = (capsule.command.cid, capsule.command.opcode);
            let sgl = capsule.command.sgl.decode();
            write!(line, " cid={cid} opcode={opcode:#04x} {sgl:?} len={}", pdu.len()).unwrap();
        }
        PduType::IC_RESP => {
            let (pdu, _) = InitPdu::ref_from_prefix(pdu).unwrap();
            let (digests, data_max) = (Digests::from(pdu.digests), pdu.limit.get());
            write!(line, " {digests:?} max_h2c_data={data_max}").unwrap();
        }
        PduType::C2H_TERM_REQ | PduType::H2C_TERM_REQ => {
            let (request, header) = TermReq::ref_from_prefix(pdu).unwrap();
            let (status, information) = (request.status.0.get(), request.information.get());
            write!(line, " FES={status} FEI={information:#x} header={}", header.len()).unwrap();
        }
        PduType::CAPSULE_RESP => {
            let (pdu, _) = CapsuleResp::ref_from_prefix(pdu).unwrap();
            let (cid, head) = (pdu.entry.cid, pdu.entry.sq_head);
            write!(line, " cid={cid} sqhd={head} {}", pdu.entry.status()).unwrap();
        }
        PduType::R2T => {
            let (pdu, _) = DataPdu::ref_from_prefix(pdu).unwrap();
            let (cid, tag) = (pdu.command_id, pdu.transfer_tag);
            let (offset, len) = (pdu.data_offset, pdu.data_len);
            write!(line, " cid={cid} ttag={tag} offset={offset} len={len}").unwrap();
        }
        PduType::C2H_DATA | PduType::H2C_DATA => line += &describe_data(pdu, digests),
        _ => {}
    }
    line
}

fn describe_data(bytes: &[u8], digests: Digests) -> String {
    let (pdu, _) = DataPdu::ref_from_prefix(bytes).unwrap();
    let data_offset = usize::from(pdu.common.data_offset);
    let len = usize::try_from(pdu.data_len.get()).unwrap();
    let (data, received) = bytes[data_offset..].split_at(len);
    if digests.data {
        assert!(pdu.common.flags.has(PduFlags::DATA_DIGEST));
        assert_eq!(received, digest(data).to_le_bytes());
    } else {
        assert_eq!(received, []);
    }
    let (cid, tag, offset) = (pdu.command_id, pdu.transfer_tag, pdu.data_offset);
    let last = if pdu.common.flags.has(PduFlags::LAST) { " last" } else { "" };
    let success = if pdu.common.flags.has(PduFlags::SUCCESS) { " success" } else { "" };
    format!(" cid={cid} ttag={tag} offset={offset} len={len} pdo={data_offset}{last}{success}")
}
