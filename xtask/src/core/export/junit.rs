// SPDX-License-Identifier: MIT OR Apache-2.0
//! JUnit XML: a suite a scenario; a case for each variant's boots, for what the oracle says of
//! them, and for each expectation.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::Run;
use crate::core::{
    boot::Outcome,
    summary::{Judged, ScenarioSummary, VariantSummary},
};

pub(super) fn write(run: &Run) -> Result<String, String> {
    let mut report = Report::new(format!("bootrig {}", run.summary.run));
    for scenario in &run.summary.scenarios {
        report.add_test_suite(suite(scenario));
    }
    report.to_string().map_err(|e| format!("JUnit XML: {e}"))
}

fn suite(scenario: &ScenarioSummary) -> TestSuite {
    let mut suite = TestSuite::new(scenario.name.as_str());
    let mut add = |class: &str, name: &str, status| {
        let mut case = TestCase::new(name, status);
        case.set_classname(format!("{}.{class}", scenario.name));
        suite.add_test_case(case);
    };
    for variant in &scenario.variants {
        add("boots", &variant.name, boots(variant));
        add("oracle", &variant.name, oracle(variant));
    }
    for expected in &scenario.expectations {
        let name = format!("{} {}", expected.what, expected.want);
        add("expectations", &name, expectation(expected));
    }
    suite
}

fn boots(variant: &VariantSummary) -> TestCaseStatus {
    match &variant.outcome {
        Some(Outcome::Completed) => TestCaseStatus::success(),
        None => TestCaseStatus::skipped(),
        Some(Outcome::NotAvailable(why)) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(why.as_str());
            status
        }
        // A failure of the machine says nothing of the kernel.
        Some(Outcome::Infrastructure(_)) => with(NonSuccessKind::Error, &[variant.outcome_text()]),
        Some(_) => with(NonSuccessKind::Failure, &[variant.outcome_text()]),
    }
}

fn oracle(variant: &VariantSummary) -> TestCaseStatus {
    match &variant.oracle.violations[..] {
        [] if variant.oracle.checked > 0 => TestCaseStatus::success(),
        [] => TestCaseStatus::skipped(),
        violations => with(NonSuccessKind::Failure, violations),
    }
}

fn expectation(expected: &Judged) -> TestCaseStatus {
    match expected.ok {
        Some(true) => TestCaseStatus::success(),
        Some(false) => with(NonSuccessKind::Failure, std::slice::from_ref(&expected.got)),
        None => TestCaseStatus::skipped(),
    }
}

fn with(kind: NonSuccessKind, lines: &[String]) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(lines.first().map_or("", String::as_str));
    status.set_description(lines.join("\n"));
    status
}
