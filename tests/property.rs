//! Random plans, random edits, random failures, random kills: after every
//! step, what an apply leaves is what a fresh run leaves, and what ran is what
//! had to run, by a model that knows nothing of keys.
//!
//! `ORCHESTRATE_PROPERTY_CASES=20000 cargo test --test property` looks longer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "property/case.rs"]
mod case;
#[path = "property/genes.rs"]
mod genes;
#[path = "property/model.rs"]
mod model;
#[path = "property/oracle.rs"]
mod oracle;
mod support;
#[path = "property/workshop.rs"]
mod workshop;

use std::sync::Mutex;

use case::Tally;
use genes::cases;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};
use tokio::runtime::{Builder, Runtime};

/// How many cases run at the same time: they mostly wait for processes.
const THREADS: u32 = 4;

#[test]
fn an_apply_leaves_what_a_fresh_run_leaves_and_runs_only_what_has_to_run() {
    let tally = Mutex::new(Tally::default());
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| look_for_a_failure(&tally))).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let tally = tally.into_inner().unwrap();
    println!("{tally}");
    if number_of_cases() >= 2000 {
        assert_eq!(tally.never(), [""; 0], "in no case");
    }
}

fn number_of_cases() -> u32 {
    let given = std::env::var("ORCHESTRATE_PROPERTY_CASES").ok();
    given.map_or(2000, |given| given.parse().unwrap())
}

/// One thread's share of the cases; returns the smallest case that fails.
fn look_for_a_failure(tally: &Mutex<Tally>) -> Option<String> {
    let regressions = FileFailurePersistence::Direct("proptest-regressions/property.txt");
    let mut runner = TestRunner::new(Config {
        cases: number_of_cases().div_ceil(THREADS),
        max_shrink_iters: 2000,
        max_shrink_time: 120_000,
        verbose: 0,
        failure_persistence: Some(Box::new(regressions)),
        ..Config::default()
    });
    let runtime: Runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let found = runner.run(&cases(), |case| {
        let counted = case::check(&case, &runtime).map_err(TestCaseError::fail)?;
        tally.lock().unwrap().add(&counted);
        Ok(())
    });
    match found {
        Ok(()) => None,
        Err(TestError::Fail(reason, _)) => Some(reason.message().to_owned()),
        Err(error) => Some(error.to_string()),
    }
}
