//! The PDUs that a node sends.

use nearflash_nvme::CompletionEntry;
use nearflash_nvme_tcp::Digests;
use nearflash_nvme_tcp::pdu::{
    CapsuleResp, CommonHeader, DataPdu, FatalStatus, InitPdu, PduType, TermReq,
};
use zerocopy::FromBytes;

/// A PDU from a node.
#[derive(Clone, Debug)]
pub enum Pdu {
    /// ICResp.
    IcResp(Box<InitPdu>),
    /// A response capsule.
    Response(CompletionEntry),
    /// Ready to transfer (R2T).
    R2t(DataPdu),
    /// C2HData; with `success`, also the completion of its command.
    Data {
        /// CCCID.
        cid: u16,
        /// The SUCCESS flag.
        success: bool,
        /// The data.
        bytes: Vec<u8>,
    },
    /// A termination request.
    Term {
        /// FES.
        status: FatalStatus,
        /// FEI.
        information: u32,
        /// The header at fault.
        header: Vec<u8>,
    },
    /// The connection has ended.
    Closed,
}

impl Pdu {
    /// Parses a whole PDU.
    ///
    /// # Panics
    /// When it is not a valid PDU, or its digests are wrong.
    pub(crate) fn read(bytes: &[u8], digests: Digests) -> Self {
        let (common, _) = CommonHeader::read_from_prefix(bytes).expect("a PDU has a header");
        let header_len = usize::from(common.header_len);
        assert_eq!(common.pdu_type.header_len(), Some(header_len), "HLEN of {common:?}");
        if digests.header && common.pdu_type.carries_digests() {
            let (header, rest) = bytes.split_at(header_len);
            assert_eq!(rest[..4], crc32c::crc32c(header).to_le_bytes(), "header digest");
        }
        match common.pdu_type {
            PduType::IC_RESP => Self::IcResp(Box::new(header(bytes))),
            PduType::CAPSULE_RESP => Self::Response(header::<CapsuleResp>(bytes).entry),
            PduType::R2T => Self::R2t(header(bytes)),
            PduType::C2H_DATA => read_data(bytes, digests),
            PduType::C2H_TERM_REQ => {
                let term: TermReq = header(bytes);
                let (status, information) = (term.status, term.information.get());
                Self::Term { status, information, header: bytes[header_len..].to_vec() }
            }
            other => panic!("a node does not send {other:?}"),
        }
    }
}

fn header<T: FromBytes>(bytes: &[u8]) -> T {
    T::read_from_prefix(bytes).expect("a PDU has its header").0
}

fn read_data(bytes: &[u8], digests: Digests) -> Pdu {
    let data: DataPdu = header(bytes);
    let start = usize::from(data.common.data_offset);
    let len = usize::try_from(data.data_len.get()).expect("it is in memory");
    let (payload, digest) = bytes[start..].split_at(len);
    if digests.data {
        assert_eq!(digest, crc32c::crc32c(payload).to_le_bytes(), "data digest");
    }
    let success = data.common.flags.has(nearflash_nvme_tcp::pdu::PduFlags::SUCCESS);
    Pdu::Data { cid: data.command_id.get(), success, bytes: payload.to_vec() }
}
