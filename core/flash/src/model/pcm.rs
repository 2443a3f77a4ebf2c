//! Phase-change memory, addressed by bytes.
//!
//! Lines are written in place, and start-gap moves them. A line is read and written much faster than
//! a request travels, so the times are added up and reported, and nobody waits for them. The memory
//! is striped over channels; the lines of a request on different channels take their time at once.

use nearflash_units::{ByteLen, ByteOffset, Nanos, index};

use super::bounds::{ENDURANCE_MAX, PCM_LEN_MAX, WRITES_PER_MOVE_MAX};
use super::error::check_time;
use super::{ModelConfigError, WornOut, units};
use crate::number::real;
use crate::start_gap::{Line, Place, StartGap, StartGapConfig};

const LINE_LEN: u64 = 256;

/// Channels that work at the same time.
const CHANNELS: usize = 8;

/// Consecutive lines of a channel: 8 KiB.
const LINES_PER_STRIPE_UNIT: u32 = 32;

/// The key of the permutation of addresses: the same at each start, so that a run can be repeated.
const KEY: u64 = 1;

/// The configuration of a model of phase-change memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PcmConfig {
    /// The bytes that the host can address.
    pub len: ByteLen,
    /// Writes between two moves of the gap; `None` for lines that stay where they are.
    pub writes_per_move: Option<u32>,
    /// Whether start-gap randomises addresses.
    pub randomise: bool,
    /// The duration of reading a line.
    pub read: Nanos,
    /// The duration of writing a line.
    pub write: Nanos,
    /// The writes that a line endures.
    pub endurance: u32,
}

impl PcmConfig {
    /// The usual endurance of a line.
    pub const ENDURANCE: u32 = 100_000_000;

    /// Typical memory of this length, without wear levelling.
    pub fn typical(len: ByteLen) -> Self {
        Self {
            len,
            writes_per_move: None,
            randomise: false,
            read: Nanos(48),
            write: Nanos(150),
            endurance: Self::ENDURANCE,
        }
    }

    /// Checks all bounds.
    ///
    /// # Errors
    /// The first bound that does not hold.
    pub fn check(&self) -> Result<(), ModelConfigError> {
        let Self { len, endurance, .. } = *self;
        if len > PCM_LEN_MAX {
            return Err(ModelConfigError::TooManyLines { len });
        }
        if !(1..=ENDURANCE_MAX).contains(&endurance) {
            return Err(ModelConfigError::Endurance { endurance, usual: Self::ENDURANCE });
        }
        check_time("read", self.read, "48ns")?;
        check_time("write", self.write, "150ns")?;
        match self.writes_per_move {
            Some(writes) if !(1..=WRITES_PER_MOVE_MAX).contains(&writes) => {
                Err(ModelConfigError::WritesPerMove { writes })
            }
            None if self.randomise => Err(ModelConfigError::RandomiseAlone),
            _ => Ok(()),
        }
    }

    /// The bytes of memory that the model itself takes, at most.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn memory(&self) -> Result<ByteLen, ModelConfigError> {
        self.check()?;
        Ok(ByteLen((u64::from(self.lines()) + 1) * 4))
    }

    /// At least one line, and fewer than 2^31.
    fn lines(&self) -> u32 {
        let lines = self.len.0.div_ceil(LINE_LEN).max(1);
        u32::try_from(lines).expect("the length was checked")
    }
}

/// The wear of phase-change memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcmWear {
    /// Bytes that the host wrote or zeroed.
    pub host_bytes: u64,
    /// Lines that the host wrote.
    pub host_lines: u64,
    /// Lines that start-gap moved.
    pub moved_lines: u64,
    /// The most writes of a place.
    pub most: u32,
    /// The mean of the writes of all places.
    pub mean: f64,
    /// The writes that a place endures.
    pub endurance: u32,
    /// The most writes as a share of the endurance: the first place that wears out ends the life.
    pub life_used: f64,
    /// The mean time of a read.
    pub mean_read: Nanos,
    /// The mean time of a write.
    pub mean_write: Nanos,
    /// Whether writes are refused.
    pub is_worn_out: bool,
}

/// Requests, and the time that they took in the model.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    requests: u64,
    time: Nanos,
}

impl Spent {
    fn add(&mut self, time: Nanos) {
        self.requests += 1;
        self.time = self.time.plus(time);
    }

    fn mean(self) -> Nanos {
        Nanos(self.time.0.checked_div(self.requests).unwrap_or(0))
    }
}

/// Phase-change memory, addressed by bytes.
#[derive(Clone, Debug)]
pub struct PcmModel {
    config: PcmConfig,
    start_gap: Option<StartGap>,
    /// The writes of each place.
    wear: Vec<u32>,
    most: u32,
    host_bytes: u64,
    host_lines: u64,
    moved_lines: u64,
    reads: Spent,
    writes: Spent,
}

impl PcmModel {
    /// Memory that was never written.
    ///
    /// # Errors
    /// When a bound of the configuration does not hold.
    pub fn new(config: PcmConfig) -> Result<Self, ModelConfigError> {
        config.check()?;
        let lines = config.lines();
        let start_gap = config.writes_per_move.map(|writes_per_move| {
            let randomise = config.randomise.then_some(KEY);
            StartGap::new(StartGapConfig { lines, writes_per_move, randomise })
        });
        let places = start_gap.as_ref().map_or(lines, StartGap::places);
        Ok(Self {
            config,
            start_gap,
            wear: vec![0; index(places)],
            most: 0,
            host_bytes: 0,
            host_lines: 0,
            moved_lines: 0,
            reads: Spent::default(),
            writes: Spent::default(),
        })
    }

    /// Returns the time that the read takes.
    pub(super) fn read(&mut self, offset: ByteOffset, len: ByteLen) -> Nanos {
        let mut channels = [Nanos(0); CHANNELS];
        for (line, _) in units(offset, len, LINE_LEN, self.config.len) {
            let channel = &mut channels[channel_of(self.place(Line(line)))];
            *channel = channel.plus(self.config.read);
        }
        let time = channels.into_iter().max().unwrap_or_default();
        self.reads.add(time);
        time
    }

    /// Returns the time that the write takes. A line that is written in part is read first.
    pub(super) fn write(&mut self, offset: ByteOffset, len: ByteLen) -> Result<Nanos, WornOut> {
        if self.is_worn_out() {
            return Err(WornOut);
        }
        self.host_bytes += len.0;
        let PcmConfig { read, write, .. } = self.config;
        let mut channels = [Nanos(0); CHANNELS];
        let mut occupy = |place, time| {
            let channel = &mut channels[channel_of(place)];
            *channel = channel.plus(time);
        };
        for (line, is_whole) in units(offset, len, LINE_LEN, self.config.len) {
            let line = Line(line);
            let (place, moved) = match &mut self.start_gap {
                Some(start_gap) => start_gap.write(line),
                None => (Place(line.0), None),
            };
            self.host_lines += 1;
            self.wear_at(place);
            occupy(place, if is_whole { write } else { read.plus(write) });
            if let Some(moved) = moved {
                self.moved_lines += 1;
                self.wear_at(moved.to);
                occupy(moved.from, read);
                occupy(moved.to, write);
            }
        }
        let time = channels.into_iter().max().unwrap_or_default();
        self.writes.add(time);
        Ok(time)
    }

    pub(super) fn is_worn_out(&self) -> bool {
        self.most >= self.config.endurance
    }

    pub(super) fn wear(&self) -> PcmWear {
        let places = u32::try_from(self.wear.len()).expect("places are numbered by 32 bits");
        let endurance = self.config.endurance;
        PcmWear {
            host_bytes: self.host_bytes,
            host_lines: self.host_lines,
            moved_lines: self.moved_lines,
            most: self.most,
            mean: real(self.host_lines + self.moved_lines) / f64::from(places),
            endurance,
            life_used: f64::from(self.most) / f64::from(endurance),
            mean_read: self.reads.mean(),
            mean_write: self.writes.mean(),
            is_worn_out: self.is_worn_out(),
        }
    }

    fn place(&self, line: Line) -> Place {
        self.start_gap.as_ref().map_or(Place(line.0), |start_gap| start_gap.place(line))
    }

    /// One more write of a place. A request whose lines pass the endurance is completed.
    fn wear_at(&mut self, place: Place) {
        let wear = &mut self.wear[index(place.0)];
        *wear = wear.saturating_add(1);
        self.most = self.most.max(*wear);
    }
}

fn channel_of(place: Place) -> usize {
    index(place.0 / LINES_PER_STRIPE_UNIT) % CHANNELS
}

#[cfg(test)]
mod tests;
