//! Selects the best of several loops. It depends on the bytes in flight and on the distance between
//! the cores.
//!
//! A side that takes all bytes in flight before it sends leaves the other side without work; one
//! that takes few needs more calls. The best loop takes all, half or a quarter of the bytes in
//! flight.

use nearflash_units::Nanos;

use super::error::FloorError;
use super::run::measure;
use super::spec::{FloorSpec, Tuning};
use crate::stats::Quartiles;

/// Counted time of each trial.
const TRY_SPAN: Nanos = Nanos::from_millis(40);
/// Ramp of each trial.
const TRY_RAMP: Nanos = Nanos::from_millis(5);
/// Number of trials per candidate, in turns.
const TRIES: usize = 5;
/// Minimum length of a receive: below it, the cost of calls outweighs any gain.
const RECEIVE_LEN_MIN: usize = 32 << 10;

/// The same floor with the loop that has the highest rate on this machine now, of those that have
/// been best on some machine. Takes about a second.
///
/// # Errors
/// As for [`measure`].
pub fn tuned(spec: &FloorSpec) -> Result<FloorSpec, FloorError> {
    let candidates = candidates(spec);
    if candidates.len() == 1 {
        return Ok(spec.clone());
    }
    let mut rates = vec![Vec::new(); candidates.len()];
    for _ in 0..TRIES {
        for (tuning, rates) in candidates.iter().zip(&mut rates) {
            let tuning = tuning.clone();
            let spec = FloorSpec { ramp: TRY_RAMP, runtime: TRY_SPAN, tuning, ..spec.clone() };
            rates.push(measure(&spec)?.rate());
        }
    }
    let medians = rates.into_iter().map(|rates| Quartiles::or_nan(rates).median);
    let best = candidates.into_iter().zip(medians).max_by(|(_, a), (_, b)| a.total_cmp(b));
    let tuning = best.map_or_else(Tuning::default, |(tuning, _)| tuning);
    Ok(FloorSpec { tuning, ..spec.clone() })
}

/// The default, and loops that take a part of the bytes in flight at a time.
fn candidates(spec: &FloorSpec) -> Vec<Tuning> {
    let longer = spec.exchange.request_len.max(spec.exchange.answer_len).to_usize();
    let in_flight = longer * usize::try_from(spec.depth).expect("usize is at least 32 bits wide");
    let default = Tuning::default();
    let parts = [1, 2, 4, 8].map(|part| in_flight / part);
    let is_a_choice = |len: &usize| (RECEIVE_LEN_MIN..=default.send_len).contains(len);
    let mut candidates = vec![default.clone()];
    for receive_len in parts.into_iter().filter(is_a_choice) {
        candidates.push(Tuning { receive_len, receives_max: 1, ..default.clone() });
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::{Exchange, FloorCores, Headers, Waits};
    use nearflash_units::ByteLen;

    fn lens(op_len: u64, depth: u32) -> Vec<usize> {
        let spec = FloorSpec {
            exchange: Exchange::read(Headers::NVME_TCP, ByteLen(op_len)),
            connections: 1,
            depth,
            ramp: Nanos(0),
            runtime: Nanos(0),
            relayed: None,
            cores: FloorCores::default(),
            waits: Waits::Spinning,
            batch: None,
            tuning: Tuning::default(),
        };
        candidates(&spec).iter().map(|tuning| tuning.receive_len).collect()
    }

    #[test]
    fn loops_differ_in_how_much_of_what_is_in_flight_they_take() {
        let default = Tuning::default().receive_len;
        assert_eq!(lens(4096, 1), [default]);
        assert_eq!(lens(4096, 32), [default, 131_840, 65_920, 32_960]);
        let at_16 = 16 * (131_072 + 24);
        assert_eq!(lens(131_072, 16), [default, at_16 / 2, at_16 / 4, at_16 / 8]);
    }
}
