//! The harness detects failures: a script that fails, a guest that dies or hangs, lost writes.

use std::time::Duration;

use nearflash_interop::{Guest, Outcome, Scratch, Script};

/// Runs `parts` in a guest of the test `name`.
fn outcome_of(name: &str, parts: &[&str], parameter: (&str, &str), timeout_s: u64) -> Outcome {
    let parameters = [("TARGET_ADDRESS", "127.0.0.1"), ("TARGET_PORT", "4420"), parameter];
    let timeout = Duration::from_secs(timeout_s);
    let script = Script { parts, parameters: &parameters, timeout };
    Guest::boot(&Scratch::of(name), &script).wait()
}

fn failed(reason: &str) -> Outcome {
    Outcome::Failed(reason.to_owned())
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn script_that_fails_is_reported_with_its_reason() {
    let outcome = outcome_of("failing", &["faults"], ("FAULT", "fail"), 60);
    assert_eq!(outcome, failed("the answer is '41', expected '42'"));
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn guest_whose_kernel_panics_is_reported_dead() {
    let outcome = outcome_of("panicking", &["faults"], ("FAULT", "panic"), 60);
    assert_eq!(outcome, Outcome::Died);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn guest_that_hangs_is_ended_at_its_timeout() {
    let outcome = outcome_of("hanging", &["faults"], ("FAULT", "hang"), 6);
    assert_eq!(outcome, Outcome::TimedOut);
}

/// The script that a node must pass, on a target that loses acknowledged writes.
#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn target_that_loses_acknowledged_writes_is_found_out() {
    let parts = ["nvmet", "restart"];
    let outcome = outcome_of("forgetful", &parts, ("FORGETFUL", "yes"), 240);
    assert_eq!(outcome, failed("fio found what it did not write"));
}
