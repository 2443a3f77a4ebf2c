//! Features: controller settings that a host can read and set. NVMe Base 2.0, 5.27.

use crate::{AdminOpcode, Command, NamespaceId};

/// Feature identifier, FID. NVMe Base 2.0, 5.27.1.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FeatureId(pub u8);

#[allow(missing_docs, reason = "the names are the specification's")]
impl FeatureId {
    pub const ARBITRATION: Self = Self(0x01);
    pub const POWER_MANAGEMENT: Self = Self(0x02);
    pub const TEMPERATURE_THRESHOLD: Self = Self(0x04);
    pub const ERROR_RECOVERY: Self = Self(0x05);
    pub const VOLATILE_WRITE_CACHE: Self = Self(0x06);
    pub const NUMBER_OF_QUEUES: Self = Self(0x07);
    pub const WRITE_ATOMICITY: Self = Self(0x0A);
    pub const ASYNC_EVENT_CONFIGURATION: Self = Self(0x0B);
    pub const TIMESTAMP: Self = Self(0x0E);
    pub const KEEP_ALIVE_TIMER: Self = Self(0x0F);
    pub const HOST_BEHAVIOR: Self = Self(0x16);
    pub const COMMAND_SET_PROFILE: Self = Self(0x19);
    pub const HOST_IDENTIFIER: Self = Self(0x81);
    pub const RESERVATION_NOTIFICATION: Self = Self(0x82);
    pub const RESERVATION_PERSISTENCE: Self = Self(0x83);
}

/// SEL: the value that a Get Features returns. NVMe Base 2.0, 5.15.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Select {
    /// The current value.
    Current,
    /// The default value.
    Default,
    /// The saved value, which persists across resets.
    Saved,
    /// The feature's capabilities: bit 0 saveable, bit 1 namespace specific, bit 2 changeable.
    Capabilities,
    /// Reserved.
    Reserved,
}

/// A Get Features command's parameters. NVMe Base 2.0, 5.15.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GetFeatures {
    /// FID.
    pub feature: FeatureId,
    /// SEL.
    pub select: Select,
}

impl GetFeatures {
    /// Decodes the command's parameters.
    pub fn from_command(command: &Command) -> Self {
        let [feature, select, _, _] = command.cdw10.get().to_le_bytes();
        let select = match select & 0b111 {
            0 => Select::Current,
            1 => Select::Default,
            2 => Select::Saved,
            3 => Select::Capabilities,
            _ => Select::Reserved,
        };
        Self { feature: FeatureId(feature), select }
    }
}

/// A Set Features command's parameters. NVMe Base 2.0, 5.27.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SetFeatures {
    /// FID.
    pub feature: FeatureId,
    /// SV: save the value, so that it persists across resets.
    pub save: bool,
    /// Dword 11: the value.
    pub value: u32,
}

impl SetFeatures {
    /// Decodes the command's parameters.
    pub fn from_command(command: &Command) -> Self {
        let [feature, _, _, save] = command.cdw10.get().to_le_bytes();
        Self { feature: FeatureId(feature), save: save & 0x80 != 0, value: command.cdw11.get() }
    }
}

impl Command {
    /// Set Features of a feature whose value is in dword 11.
    pub fn set_features(feature: FeatureId, value: u32) -> Self {
        Self {
            cdw10: u32::from(feature.0).into(),
            cdw11: value.into(),
            ..Self::new(AdminOpcode::SET_FEATURES.0, NamespaceId::NONE)
        }
    }

    /// Asynchronous Event Request, which completes when an event occurs. NVMe Base 2.0, 5.2.
    pub fn async_event_request() -> Self {
        Self::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, NamespaceId::NONE)
    }

    /// Keep Alive. NVMe Base 2.0, 5.18.
    pub fn keep_alive() -> Self {
        Self::new(AdminOpcode::KEEP_ALIVE.0, NamespaceId::NONE)
    }
}

/// Number of Queues: submission in bits 15:0, completion in 31:16. NVMe Base 2.0, 5.27.1.5.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueCount {
    /// NSQR or NSQA, 0's based.
    pub submission_zero_based: u16,
    /// NCQR or NCQA, 0's based.
    pub completion_zero_based: u16,
}

impl QueueCount {
    /// The value for `pairs` queue pairs. `pairs` must not be 0.
    pub fn pairs(pairs: u16) -> Self {
        let zero_based = pairs.saturating_sub(1);
        Self { submission_zero_based: zero_based, completion_zero_based: zero_based }
    }

    /// The number of queue pairs: the smaller of the two counts.
    pub fn to_pairs(self) -> u32 {
        u32::from(self.submission_zero_based.min(self.completion_zero_based)) + 1
    }

    /// Encodes the feature's value, which is also dword 0 of its completion.
    pub fn to_value(self) -> u32 {
        u32::from(self.completion_zero_based) << 16 | u32::from(self.submission_zero_based)
    }

    /// Decodes the feature's value.
    pub fn from_value(value: u32) -> Self {
        let [low0, low1, high0, high1] = value.to_le_bytes();
        Self {
            submission_zero_based: u16::from_le_bytes([low0, low1]),
            completion_zero_based: u16::from_le_bytes([high0, high1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_counted_from_zero_on_the_wire() {
        assert_eq!(QueueCount::pairs(4).to_value(), 0x0003_0003);
        assert_eq!(QueueCount::from_value(0x0007_0003).to_pairs(), 4);
        assert_eq!(QueueCount::from_value(u32::MAX).to_pairs(), 65536);
    }

    #[test]
    fn features_are_asked_for_and_set_by_the_fields_that_hosts_use() {
        let get = Command::get_features(FeatureId::TIMESTAMP, 8);
        let get = Command { cdw10: (get.cdw10.get() | 3 << 8).into(), ..get };
        let asked = GetFeatures::from_command(&get);
        let select = Select::Capabilities;
        assert_eq!(asked, GetFeatures { feature: FeatureId::TIMESTAMP, select });
        let set = Command::set_features(FeatureId::NUMBER_OF_QUEUES, 0x0003_0003);
        let set = Command { cdw10: (set.cdw10.get() | 1 << 31).into(), ..set };
        let asked = SetFeatures::from_command(&set);
        let feature = FeatureId::NUMBER_OF_QUEUES;
        assert_eq!(asked, SetFeatures { feature, save: true, value: 0x0003_0003 });
    }
}
