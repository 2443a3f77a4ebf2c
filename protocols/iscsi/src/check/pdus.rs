//! Constructors of a target's PDUs, for the target in properties and tests. The serving end
//! assembles its answers as words, and never as structures.

use zerocopy::FromZeros;
use zerocopy::big_endian::U32;

use crate::pdu::{
    Async, AsyncEvent, DataIn, DataSegmentLen, FINAL, LogoutResponse, LogoutResult, LunField,
    NO_TAG, NopIn, Opcode, OpcodeByte, R2t, Reject, RejectReason, ScsiResponse, Serials,
    TaskResponse, TaskResult, TextResponse,
};

/// A constructor with the fields that the headers of a target share.
macro_rules! bare {
    ($($name:ident = $opcode:ident,)*) => {
        $(impl $name {
            fn bare(flags: u8, itt: u32, serials: Serials) -> Self {
                let mut header = Self::new_zeroed();
                header.opcode = OpcodeByte::new(Opcode::$opcode);
                header.flags = flags;
                header.itt = U32::new(itt);
                header.stat_sn = serials.stat_sn.field();
                header.exp_cmd_sn = serials.exp_cmd_sn.field();
                header.max_cmd_sn = serials.max_cmd_sn.field();
                header
            }
        })*
    };
}
bare! {
    ScsiResponse = SCSI_RESPONSE,
    TaskResponse = TASK_RESPONSE,
    DataIn = DATA_IN,
    R2t = R2T,
    Async = ASYNC,
    TextResponse = TEXT_RESPONSE,
    LogoutResponse = LOGOUT_RESPONSE,
    Reject = REJECT,
    NopIn = NOP_IN,
}

impl ScsiResponse {
    /// How a command ended at the target.
    pub(crate) fn new(itt: u32, status: u8, serials: Serials) -> Self {
        let mut header = Self::bare(FINAL, itt, serials);
        header.status = status;
        header
    }
}

impl TaskResponse {
    /// How a function ended.
    pub(crate) fn new(response: TaskResult, itt: u32, serials: Serials) -> Self {
        let mut header = Self::bare(FINAL, itt, serials);
        header.response = response;
        header
    }
}

impl DataIn {
    /// Data of a read. It carries StatSN with [`Self::STATUS`] only.
    pub(crate) fn new(flags: u8, itt: u32, serials: Serials) -> Self {
        let mut header = Self::bare(flags, itt, serials);
        header.ttt = U32::new(NO_TAG);
        header
    }
}

impl R2t {
    /// A request for data. It carries the next StatSN without using it.
    pub(crate) fn new(lun: LunField, itt: u32, ttt: u32, serials: Serials) -> Self {
        let mut header = Self::bare(FINAL, itt, serials);
        header.lun = lun;
        header.ttt = U32::new(ttt);
        header
    }
}

impl Async {
    /// An event.
    pub(crate) fn new(event: AsyncEvent, serials: Serials) -> Self {
        let mut header = Self::bare(FINAL, NO_TAG, serials);
        header.event = event;
        header
    }
}

impl TextResponse {
    /// Text. With [`NO_TAG`] as TTT, the exchange is over.
    pub(crate) fn new(flags: u8, itt: u32, ttt: u32, serials: Serials) -> Self {
        let mut header = Self::bare(flags, itt, serials);
        header.ttt = U32::new(ttt);
        header
    }
}

impl LogoutResponse {
    /// How a logout ended.
    pub(crate) fn new(response: LogoutResult, itt: u32, serials: Serials) -> Self {
        let mut header = Self::bare(FINAL, itt, serials);
        header.response = response;
        header
    }
}

impl Reject {
    /// A rejected PDU. Its header follows as data.
    pub(crate) fn new(reason: RejectReason, serials: Serials) -> Self {
        let mut header = Self::bare(FINAL, NO_TAG, serials);
        header.reason = reason;
        header.data_len = DataSegmentLen::new(48);
        header
    }
}

impl NopIn {
    /// A ping ([`NO_TAG`] as ITT), or the answer to one ([`NO_TAG`] as TTT).
    pub(crate) fn new(lun: LunField, itt: u32, ttt: u32, serials: Serials) -> Self {
        let mut header = Self::bare(FINAL, itt, serials);
        header.lun = lun;
        header.ttt = U32::new(ttt);
        header
    }
}
