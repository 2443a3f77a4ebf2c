//! Devices with silent faults. The node does not promise to detect them. The checkers must, or a
//! run that passes proves nothing about the devices' content.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

use nearflash_sim::{Betrayal, Plan, run};

/// The failure messages of eight runs.
fn found(betrayal: Betrayal) -> Vec<String> {
    let said = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(_) => String::new(),
    };
    let run_one = |seed| {
        let mut plan = Plan::draw(seed);
        plan.faults.disk.betrayal = betrayal;
        catch_unwind(AssertUnwindSafe(|| run(plan))).err().map(said)
    };
    (1..=8).filter_map(run_one).collect()
}

#[test]
fn the_checkers_see_lost_misdirected_and_corrupt_writes_and_nothing_where_there_are_none() {
    // Do not print a hundred expected panics.
    set_hook(Box::new(|_| {}));
    let none = Betrayal::default();
    assert_eq!(found(none), [] as [String; 0]);
    for betrayal in [
        Betrayal { lost_permille: 30, ..none },
        Betrayal { misdirected_permille: 30, ..none },
        Betrayal { corrupt_permille: 30, ..none },
    ] {
        let found = found(betrayal);
        assert!(found.len() > 4, "{betrayal:?}: found in {found:#?}");
    }
}
