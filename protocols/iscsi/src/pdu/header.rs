//! The macro that declares the headers of PDUs.

/// Declares a header. A field that has the same name and place in most PDUs is given by its name
/// alone (`lengths` stands for the lengths of the additional headers and the data, `serials` for a
/// target's serial numbers), other fields as in a structure. The opcode comes first.
macro_rules! header {
    (@ [$(#[$($meta:tt)*])* $name:ident] [$($fields:tt)*]) => {
        nearflash_session::wire! {
            $(#[$($meta)*])*
            pub struct $name: [u8; HEADER_LEN] {
                pub opcode: OpcodeByte = "The opcode, and the bit for immediate delivery",
                $($fields)*
            }
        }
    };
    (@ $head:tt $done:tt lengths; $($rest:tt)*) => {
        header! { @ $head $done
            pub ahs_words: u8 = "TotalAHSLength, in words of four bytes";
            pub data_len: DataSegmentLen = "DataSegmentLength, without padding and digest";
            $($rest)*
        }
    };
    (@ $head:tt $done:tt lun; $($rest:tt)*) => {
        header! { @ $head $done pub lun: LunField = "LUN"; $($rest)* }
    };
    (@ $head:tt $done:tt itt; $($rest:tt)*) => {
        header! { @ $head $done pub itt: U32 = "Initiator task tag"; $($rest)* }
    };
    (@ $head:tt $done:tt ttt; $($rest:tt)*) => {
        header! { @ $head $done pub ttt: U32 = "Target transfer tag"; $($rest)* }
    };
    (@ $head:tt $done:tt cmd_sn; $($rest:tt)*) => {
        header! { @ $head $done pub cmd_sn: U32 = "CmdSN"; $($rest)* }
    };
    (@ $head:tt $done:tt exp_stat_sn; $($rest:tt)*) => {
        header! { @ $head $done pub exp_stat_sn: U32 = "ExpStatSN: the next status"; $($rest)* }
    };
    (@ $head:tt $done:tt serials; $($rest:tt)*) => {
        header! { @ $head $done
            pub stat_sn: U32 = "StatSN";
            pub exp_cmd_sn: U32 = "ExpCmdSN: the next command that the target expects";
            pub max_cmd_sn: U32 = "MaxCmdSN: the last command that the target takes now";
            $($rest)*
        }
    };
    (@ $head:tt [$($done:tt)*]
        $(#[$($doc:tt)*])* $vis:vis $field:ident : $type:ty $(= $words:literal)?; $($rest:tt)*
    ) => {
        header! { @ $head [$($done)* $(#[$($doc)*])* $vis $field: $type $(= $words)?,] $($rest)* }
    };
    ($(#[$($meta:tt)*])* pub struct $name:ident { $($fields:tt)* }) => {
        header! { @ [$(#[$($meta)*])* $name] [] $($fields)* }
    };
}
