//! Runs drawn from seeds: `SIM_SEEDS` of them, or the one that `SIM_SEED` names.

use nearflash_sim::{Plan, Report, run};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

fn seeds() -> Vec<u64> {
    match number("SIM_SEED") {
        Some(seed) => vec![seed],
        None => {
            let first = number("SIM_FIRST").unwrap_or(1);
            (first..first + number("SIM_SEEDS").unwrap_or(64)).collect()
        }
    }
}

#[test]
fn whatever_the_world_does_nothing_is_lost_stale_or_left() {
    let mut total = Report::default();
    for seed in seeds() {
        let report = run(Plan::draw(seed));
        if std::env::var_os("SIM_REPORT").is_some() {
            println!("{seed}: {report:?}");
        }
        total.succeeded += report.succeeded;
        total.lost += report.lost;
        total.counted += report.counted;
    }
    println!("{total:?}");
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    for seed in [3, 11, 29] {
        assert_eq!(run(Plan::draw(seed)), run(Plan::draw(seed)), "seed {seed}");
    }
}
