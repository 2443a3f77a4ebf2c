//! The macro that declares the headers of PDUs.

/// Declares a header. A field that has the same name and place in most PDUs is given by its name
/// alone (`lengths` stands for the lengths of the additional headers and the data, `serials` for a
/// target's serial numbers), other fields as in a structure. The opcode comes first.
macro_rules! header {
    (@ [$(#[$($meta:tt)*])* $name:ident] [$($fields:tt)*]) => {
        nearflash_session::wire! {
            $(#[$($meta)*])*
            pub struct $name: [u8; HEADER_LEN] {
                /// The opcode, and the bit for immediate delivery.
                pub opcode: OpcodeByte,
                $($fields)*
            }
        }
    };
    (@ $head:tt [$($done:tt)*] lengths; $($rest:tt)*) => {
        header! { @ $head [
            $($done)*
            /// TotalAHSLength, in words of four bytes.
            pub ahs_words: u8,
            /// DataSegmentLength, without padding and digest.
            pub data_len: DataSegmentLen,
        ] $($rest)* }
    };
    (@ $head:tt $done:tt lun; $($rest:tt)*) => {
        header! { @ $head $done #[doc = "LUN."] pub lun: LunField; $($rest)* }
    };
    (@ $head:tt $done:tt itt; $($rest:tt)*) => {
        header! { @ $head $done #[doc = "Initiator task tag."] pub itt: U32; $($rest)* }
    };
    (@ $head:tt $done:tt ttt; $($rest:tt)*) => {
        header! { @ $head $done #[doc = "Target transfer tag."] pub ttt: U32; $($rest)* }
    };
    (@ $head:tt $done:tt cmd_sn; $($rest:tt)*) => {
        header! { @ $head $done #[doc = "CmdSN."] pub cmd_sn: U32; $($rest)* }
    };
    (@ $head:tt $done:tt exp_stat_sn; $($rest:tt)*) => {
        header! { @ $head $done #[doc = "ExpStatSN: the next status."] pub exp_stat_sn: U32; $($rest)* }
    };
    (@ $head:tt $done:tt serials; $($rest:tt)*) => {
        header! { @ $head $done
            /// StatSN.
            pub stat_sn: U32;
            /// ExpCmdSN: the next command that the target expects.
            pub exp_cmd_sn: U32;
            /// MaxCmdSN: the last command that the target takes now.
            pub max_cmd_sn: U32;
            $($rest)*
        }
    };
    (@ $head:tt [$($done:tt)*]
        $(#[$($doc:tt)*])* $vis:vis $field:ident : $type:ty; $($rest:tt)*
    ) => {
        header! { @ $head [$($done)* $(#[$($doc)*])* $vis $field: $type,] $($rest)* }
    };
    ($(#[$($meta:tt)*])* pub struct $name:ident { $($fields:tt)* }) => {
        header! { @ [$(#[$($meta)*])* $name] [] $($fields)* }
    };
}
