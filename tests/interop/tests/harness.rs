//! The harness finds what it should: a script that fails, a guest that dies or hangs, lost writes.

use std::time::Duration;

use nearflash_interop::{Guest, Outcome, Scratch, Script, is_skipped};

/// Runs `parts` in a guest of the test `name`; nothing when guests are skipped.
fn outcome_of(
    name: &str,
    parts: &[&str],
    parameter: (&str, &str),
    timeout_s: u64,
) -> Option<Outcome> {
    if is_skipped(name) {
        return None;
    }
    let parameters = [("TARGET_ADDRESS", "127.0.0.1"), ("TARGET_PORT", "4420"), parameter];
    let timeout = Duration::from_secs(timeout_s);
    let script = Script { parts, parameters: &parameters, timeout };
    Some(Guest::boot(&Scratch::of(name), &script).wait())
}

fn failed(reason: &str) -> Outcome {
    Outcome::Failed(reason.to_owned())
}

#[test]
fn script_that_fails_is_reported_with_its_reason() {
    if let Some(outcome) = outcome_of("failing", &["faults"], ("FAULT", "fail"), 60) {
        assert_eq!(outcome, failed("the answer is '41', expected '42'"));
    }
}

#[test]
fn guest_whose_kernel_panics_is_reported_dead() {
    if let Some(outcome) = outcome_of("panicking", &["faults"], ("FAULT", "panic"), 60) {
        assert_eq!(outcome, Outcome::Died);
    }
}

#[test]
fn guest_that_hangs_is_ended_at_its_timeout() {
    if let Some(outcome) = outcome_of("hanging", &["faults"], ("FAULT", "hang"), 12) {
        assert_eq!(outcome, Outcome::TimedOut);
    }
}

/// The script that a node must pass, against a target that loses acknowledged writes.
#[test]
fn target_that_loses_acknowledged_writes_is_found_out() {
    let parts = ["nvmet", "restart"];
    if let Some(outcome) = outcome_of("forgetful", &parts, ("FORGETFUL", "yes"), 240) {
        assert_eq!(outcome, failed("fio found what it did not write"));
    }
}
