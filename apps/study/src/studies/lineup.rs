//! Ways at one position of an axis, compared with their limit.

use super::chart::at;
use super::claims::{ALIKE, Case, Claim, Show, case, difference};
use crate::exhibit::{Mark, Series};
use crate::finding::Finding;

/// Marks of several ways and of their limit, at one position of an axis.
#[derive(Clone, Debug)]
pub(super) struct Lineup<'a> {
    /// The position.
    pub(super) x: f64,
    /// The reference.
    pub(super) limit: &'a Mark,
    /// The ways that have a mark at the position.
    pub(super) ways: Vec<(&'a str, &'a Mark)>,
}

impl<'a> Lineup<'a> {
    /// At the last position that the limit shares with any of the ways.
    pub(super) fn last(ways: &[&'a Series], limit: &'a Series) -> Option<Self> {
        limit.points.iter().rev().find_map(|mark| Self::at(ways, mark))
    }

    /// At the first position that the limit shares with any of the ways.
    pub(super) fn first(ways: &[&'a Series], limit: &'a Series) -> Option<Self> {
        limit.points.iter().find_map(|mark| Self::at(ways, mark))
    }

    fn at(ways: &[&'a Series], limit: &'a Mark) -> Option<Self> {
        if limit.y <= 0.0 {
            return None;
        }
        let of = |way: &&'a Series| Some((way.label.as_str(), at(way, limit.x)?));
        let ways: Vec<_> = ways.iter().filter_map(of).collect();
        (!ways.is_empty()).then_some(Self { x: limit.x, limit, ways })
    }

    /// The difference of each way from the limit, in per cent.
    pub(super) fn changes(&self) -> Vec<Case> {
        let of = |(label, mark): &(&'a str, &'a Mark)| {
            case(*label, difference(mark.y, self.limit.y), [*mark, self.limit])
        };
        self.ways.iter().map(of).collect()
    }
}

/// The differences of a lineup's ways from its limit; none without a lineup.
pub(super) fn cases_of(lineup: Option<&Lineup<'_>>) -> Vec<Case> {
    lineup.map(Lineup::changes).unwrap_or_default()
}

impl Claim {
    /// Whether rates are at least as high as those of the limit, except for [`ALIKE`].
    pub(super) fn rates_alike(text: &'static str, lineup: Option<&Lineup<'_>>) -> Finding {
        let claim = Self::own(text, Show::Change).limited(-ALIKE);
        claim.judge(|it| it >= -ALIKE, cases_of(lineup))
    }

    /// Whether times are at most as long as those of the limit, except for [`ALIKE`].
    pub(super) fn times_alike(text: &'static str, lineup: Option<&Lineup<'_>>) -> Finding {
        let claim = Self::own(text, Show::Change).limited(ALIKE);
        claim.judge(|it| it <= ALIKE, cases_of(lineup))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exhibit::Origin;
    use crate::finding::Verdict;

    fn series(label: &str, points: &[(f64, f64)]) -> Series {
        let mark = |&(x, y): &(f64, f64)| Mark { x, y, spread: None, is_doubtful: false };
        let points = points.iter().map(mark).collect();
        Series { label: label.into(), origin: Origin::Measured, points }
    }

    #[test]
    fn ways_are_compared_with_their_limit_at_the_last_place_that_any_of_them_shares_with_it() {
        let direct = series("direct", &[(1.0, 50.0), (8.0, 80.0)]);
        let tgt = series("tgt", &[(1.0, 20.0)]);
        let limit = series("local", &[(1.0, 40.0), (8.0, 100.0), (64.0, 900.0)]);
        let last = Lineup::last(&[&direct, &tgt], &limit).unwrap();
        assert_eq!((last.x, last.ways.len()), (8.0, 1));
        let found = Claim::rates_alike("It is alike", Some(&last));
        assert!((found.cases[0].value + 20.0).abs() < 1e-9);
        assert_eq!((found.here.as_str(), found.verdict), ("−20 % (direct)", Verdict::DoesNot));
        assert_eq!(Claim::times_alike("It is alike", Some(&last)).verdict, Verdict::Holds);
        let first = Lineup::first(&[&direct, &tgt], &limit).unwrap();
        assert_eq!((first.x, first.ways.len()), (1.0, 2));
        assert_eq!(Claim::rates_alike("It is alike", Some(&first)).verdict, Verdict::HoldsPartly);
        assert!(Lineup::last(&[&tgt], &series("none", &[(1.0, 0.0)])).is_none());
    }
}
