//! Lists of processors, as `0`, `0-3` or `0,2-3`.

use super::ValueError;

/// The largest processor number that is accepted; the system's own limit is lower.
const CORE_MAX: usize = 8191;

/// Parses a list of processors without duplicates, and keeps its order.
pub(super) fn parse_cores(text: &str) -> Result<Vec<usize>, ValueError> {
    let refused = || ValueError::Cores(text.into());
    let number = |text: &str| text.parse().ok().filter(|core| *core <= CORE_MAX);
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = number(first.trim()).zip(number(last.trim())).ok_or_else(refused)?;
        if first > last || cores.iter().any(|core| (first..=last).contains(core)) {
            return Err(refused());
        }
        cores.extend(first..=last);
    }
    Ok(cores)
}

/// Writes an ascending list as [`parse_cores`] reads it.
pub(super) fn display_cores(cores: &[usize]) -> Box<str> {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = cores;
    while let Some((&first, _)) = rest.split_first() {
        let run = rest.iter().zip(first..).take_while(|(core, expected)| *core == expected).count();
        let last = first + run - 1;
        parts.push(if run == 1 { first.to_string() } else { format!("{first}-{last}") });
        rest = &rest[run..];
    }
    parts.join(",").into()
}

/// The processors that this process may run on, in ascending order; processor 0 if the system
/// returns no set.
pub(super) fn allowed_cores() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).ok();
    let allowed = set
        .map(|set| (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect());
    allowed.filter(|cores: &Vec<usize>| !cores.is_empty()).unwrap_or_else(|| vec![0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read_and_written() {
        for (text, cores) in [("0", &[0][..]), ("0-3", &[0, 1, 2, 3]), ("0,2-3,7", &[0, 2, 3, 7])] {
            assert_eq!(parse_cores(text).unwrap(), cores);
            assert_eq!(&*display_cores(cores), text);
        }
        assert_eq!(parse_cores("3,1").unwrap(), [3, 1]);
    }

    #[test]
    fn a_list_that_is_none_is_refused() {
        for text in ["", "a", "1-", "3-1", "0,0", "0-2,1", "-1", "9999999", "0,,1"] {
            assert_eq!(parse_cores(text), Err(ValueError::Cores(text.into())));
        }
    }
}
