//! libiscsi's conformance suite, `iscsi-test-cu`, and its results test by test.
//!
//! The suite counts a skipped test as passed; its output distinguishes them. The output is a line
//! `Suite: NAME`, and for each test `  Test: NAME ...`, the output of the test, and a verdict at
//! the end of a line.

use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The test ran to its end.
    Passed,
    /// The test did not run to its end, because the unit lacks a feature.
    Skipped,
    /// The test found an error, or did not end.
    Failed,
}

/// One test of the suite.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// `Suite.Test`, as `iscsi-test-cu --test` names it.
    pub name: String,
    /// The result.
    pub verdict: Verdict,
    /// The output of the test, line by line.
    pub words: Vec<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The maximum number of lines that are shown; a test can report the same error thousands
        /// of times.
        const WORDS_SHOWN: usize = 12;
        write!(f, "{}: {:?}", self.name, self.verdict)?;
        self.words.iter().take(WORDS_SHOWN).try_for_each(|word| write!(f, "\n    {word}"))
    }
}

/// Runs the whole suite, including the tests that destroy data, on the unit of `url`, as two paths
/// to it. The output is kept in `log`.
///
/// # Panics
///
/// When the suite cannot be run.
#[must_use]
pub fn run_conformance_suite(url: &str, log: &Path) -> Vec<Finding> {
    let output = File::create(log).expect("a test's folder is writable");
    let errors = output.try_clone().expect("a file can have two owners");
    // The exit code has no information; a crash shows as a test without a verdict.
    let status = Command::new("timeout")
        // In the foreground it stays in our process group and ends with it.
        .args(["--foreground", "--signal=KILL", "300"])
        .args(["iscsi-test-cu", "--dataloss", "--verbose", "--test=ALL"])
        .args([url, url])
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .status()
        .expect("timeout is a program of coreutils");
    let text = fs::read(log).expect("it was written above");
    let findings = findings_in(&String::from_utf8_lossy(&text));
    assert!(
        !findings.is_empty(),
        "iscsi-test-cu ran no test ({status}); 'make deps-test' installs it: {}",
        log.display()
    );
    findings
}

fn findings_in(output: &str) -> Vec<Finding> {
    let mut suite = "";
    let mut findings: Vec<Finding> = Vec::new();
    for line in output.lines().take_while(|line| !line.starts_with("Run Summary:")) {
        if let Some(name) = line.strip_prefix("Suite: ") {
            suite = name.trim();
        } else if let Some((name, rest)) = test_begins(line) {
            let name = format!("{suite}.{name}");
            // The verdict until the test ends.
            findings.push(Finding { name, verdict: Verdict::Failed, words: Vec::new() });
            hear(&mut findings, rest);
        } else {
            hear(&mut findings, line);
        }
    }
    findings
}

fn test_begins(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("  Test: ")?.split_once(" ...")
}

/// Processes a line of output of the running test.
fn hear(findings: &mut [Finding], line: &str) {
    let Some(finding) = findings.last_mut() else { return };
    let word = line.trim();
    if word.starts_with("passed") {
        let skipped = finding.words.iter().any(|word| word.starts_with("[SKIPPED]"));
        finding.verdict = if skipped { Verdict::Skipped } else { Verdict::Passed };
    } else if !word.is_empty() && word != "FAILED" {
        finding.words.push(word.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a run of version 1.19 against another target.
    const OUTPUT: &str = "found matching LU device identifier for all (2) paths

     CUnit - A unit testing framework for C - Version 2.1-3


Suite: Inquiry
  Test: Standard ...passed
  Test: AllocLength ...passed    [FAILED] PRIN command: failed with sense. SENSE KEY:UNIT_ATTENTION(6)

Suite: OrWrite
  Test: Simple ...    [FAILED] ORWRITE command failed with status 2
FAILED
    1. test_orwrite_simple.c:54  - CU_ASSERT_EQUAL(_r,0)
  Test: DpoFua ...    [SKIPPED] ORWRITE is not implemented.
    [SKIPPED] ORWRITE is not implemented.
passed
  Test: Verify ...    [FAILED] Failed to log in to target

Run Summary:    Type  Total    Ran Passed Failed Inactive
               tests    230    230    198     32        0
";

    #[test]
    fn tests_that_were_skipped_are_told_from_those_that_passed() {
        let verdicts: Vec<_> = findings_in(OUTPUT)
            .into_iter()
            .map(|finding| (finding.name, finding.verdict, finding.words.len()))
            .collect();
        let expected = [
            ("Inquiry.Standard", Verdict::Passed, 0),
            ("Inquiry.AllocLength", Verdict::Passed, 0),
            ("OrWrite.Simple", Verdict::Failed, 2),
            ("OrWrite.DpoFua", Verdict::Skipped, 2),
            ("OrWrite.Verify", Verdict::Failed, 1),
        ];
        assert_eq!(
            verdicts,
            expected.map(|(name, verdict, words)| (name.to_owned(), verdict, words))
        );
    }
}
