use super::*;
use crate::evidence::request::EngineFields;
use crate::evidence::timing::tests::row;

fn fields(predicted: u64, drafts: Option<(u64, u64)>, steps: Option<u64>) -> EngineFields {
    EngineFields {
        scope: "llama_cpp_timings".to_owned(),
        predicted_tokens: Some(predicted),
        draft_tokens: drafts.map(|(drafted, _)| drafted),
        accepted_tokens: drafts.map(|(_, accepted)| accepted),
        verify_steps: steps,
        ..EngineFields::default()
    }
}

fn rows(requests: &[(&str, EngineFields)]) -> Vec<Row> {
    let with = |(at, (category, fields)): (usize, &(&str, EngineFields))| Row {
        engine_fields: Some(fields.clone()),
        ..row(&at.to_string(), category)
    };
    requests.iter().enumerate().map(with).collect()
}

fn from(rows: &[Row], mode: Mode, scrape: Result<Scrape, NoAcceptance>) -> Acceptance {
    acceptance(&Inputs { mode, rows, no_field_because: None, scrape })
}

fn speculative(rows: &[Row]) -> Acceptance {
    from(rows, Mode::Speculative, Err(NoAcceptance::NoScrape))
}

#[expect(clippy::unnecessary_wraps, reason = "as the inputs take it")]
fn scrape(before: (u64, u64, u64), after: (u64, u64, u64)) -> Result<Scrape, NoAcceptance> {
    let counters =
        |(drafts, draft_tokens, accepted_tokens)| Counters { drafts, draft_tokens, accepted_tokens };
    Ok(Scrape { before: counters(before), after: counters(after) })
}

#[track_caller]
fn assert_near(measured: &Measured<f64>, expected: f64) {
    let value = *measured.value().unwrap_or_else(|| panic!("{measured:?}"));
    assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
}

#[test]
fn sums_come_first_and_one_division_last() {
    let rows =
        rows(&[("math", fields(10, Some((10, 9)), Some(2))), ("math", fields(100, Some((90, 9)), Some(60)))]);
    let acceptance = speculative(&rows);
    let pooled = &acceptance.per_request.value().unwrap().pooled;
    assert_near(&pooled.accept_length, 1.0 + 18.0 / 62.0);
    assert_near(&pooled.accept_rate, 18.0 / 100.0);
    assert_near(&pooled.tokens_per_decode_step, 110.0 / 92.0);
    assert_eq!(pooled.provenance, Provenance::PerRequest);
}

#[test]
fn overall_is_the_macro_average_and_never_the_pooled_value() {
    let rows = rows(&[
        ("math", fields(10, Some((10, 10)), Some(5))),
        ("coding", fields(100, Some((100, 10)), Some(100))),
    ]);
    let acceptance = speculative(&rows);
    let found = acceptance.per_request.value().unwrap();
    assert_near(&found.categories["math"].accept_length, 3.0);
    assert_near(&found.categories["coding"].accept_length, 1.1);
    assert_near(&found.overall.accept_length, 2.05);
    assert_near(&found.pooled.accept_length, 1.0 + 20.0 / 105.0);
    assert_near(&found.overall.accept_rate, 0.55);
}

#[test]
fn an_engine_that_counts_no_steps_has_a_rate_and_no_length() {
    let rows = rows(&[("math", fields(48, Some((40, 23)), None)), ("math", fields(48, None, None))]);
    let acceptance = speculative(&rows);
    let pooled = &acceptance.per_request.value().unwrap().pooled;
    assert_near(&pooled.accept_rate, 23.0 / 40.0);
    assert_near(&pooled.tokens_per_decode_step, 96.0 / 73.0);
    assert_eq!(pooled.accept_length.reason(), Some("this source does not count verify steps"));
    assert_eq!(pooled.verify_steps.reason(), Some("this source does not count verify steps"));
    assert_eq!((pooled.requests, pooled.requests_with_drafts), (2, Some(1)));
}

#[test]
fn a_category_in_which_nothing_was_drafted_is_unavailable_and_so_is_the_average() {
    let rows = rows(&[("math", fields(48, Some((40, 23)), None)), ("coding", fields(48, None, None))]);
    let acceptance = speculative(&rows);
    let found = acceptance.per_request.value().unwrap();
    let reason = "no verify step happened: nothing was drafted";
    assert_eq!(found.categories["coding"].accept_rate.reason(), Some(reason));
    assert_eq!(found.categories["coding"].accepted_tokens.reason(), Some(reason));
    assert_eq!(found.overall.accept_rate.reason(), Some(format!("category coding: {reason}").as_str()));
}

#[test]
fn warmup_and_failures_are_left_out() {
    let mut rows = rows(&[
        ("math", fields(10, Some((10, 5)), None)),
        ("math", fields(10, Some((10, 10)), None)),
        ("math", fields(10, Some((10, 10)), None)),
    ]);
    rows[1].phase = Phase::Warmup;
    rows[2].outcome = Outcome::Cancelled;
    assert_near(&speculative(&rows).per_request.value().unwrap().pooled.accept_rate, 0.5);
}

#[test]
fn counters_are_taken_as_what_grew_between_the_scrapes() {
    let acceptance = from(&rows(&[]), Mode::Speculative, scrape((100, 400, 50), (110, 440, 73)));
    let server = acceptance.server.value().unwrap();
    assert_near(&server.accept_length, 1.0 + 23.0 / 10.0);
    assert_near(&server.accept_rate, 23.0 / 40.0);
    assert_eq!(server.provenance, Provenance::ServerCounters);
    assert_eq!(server.requests_with_drafts, None);
    assert!(server.tokens_per_decode_step.reason().is_some());
    assert_eq!(acceptance.first(), Ok(server), "per-request records are missing");
}

#[test]
fn each_cause_has_its_own_words_and_is_no_zero() {
    let plain = || rows(&[("math", fields(48, None, None))]);
    let without_fields = || vec![row("a", "math")];
    let mut several = without_fields();
    several[0].choices = Some(2);
    let hinted = |rows: &[Row], hint| {
        acceptance(&Inputs {
            mode: Mode::Speculative,
            rows,
            no_field_because: Some(hint),
            scrape: Err(NoAcceptance::NoScrape),
        })
    };
    let table = [
        (from(&plain(), Mode::Ordinary, Err(NoAcceptance::NoScrape)), NoAcceptance::SpeculationOff),
        (speculative(&plain()), NoAcceptance::NoVerifySteps),
        (speculative(&without_fields()), NoAcceptance::NoField),
        (speculative(&several), NoAcceptance::SeveralChoices),
        (speculative(&[]), NoAcceptance::NothingAnswered),
        (hinted(&without_fields(), NoAcceptance::FlagOff), NoAcceptance::FlagOff),
        (hinted(&without_fields(), NoAcceptance::StrippedByProxy), NoAcceptance::StrippedByProxy),
        (hinted(&without_fields(), NoAcceptance::SummaryOnlyExport), NoAcceptance::SummaryOnlyExport),
        (hinted(&without_fields(), NoAcceptance::NotOffered), NoAcceptance::NotOffered),
    ];
    for (acceptance, cause) in table {
        assert_eq!(acceptance.per_request_cause, Some(cause));
        assert_eq!(acceptance.per_request.reason(), Some(cause.to_string().as_str()));
        assert_eq!(acceptance.first(), Err(cause));
    }
}

#[test]
fn each_cause_of_missing_counters_has_its_own_words() {
    let table = [
        (Mode::Speculative, Err(NoAcceptance::NoScrape), NoAcceptance::NoScrape),
        (Mode::Speculative, Err(NoAcceptance::UnknownMetricName), NoAcceptance::UnknownMetricName),
        (Mode::Ordinary, Err(NoAcceptance::UnknownMetricName), NoAcceptance::SpeculationOff),
        (Mode::Ordinary, scrape((5, 20, 3), (5, 20, 3)), NoAcceptance::SpeculationOff),
        (Mode::Speculative, scrape((5, 20, 3), (5, 20, 3)), NoAcceptance::NoVerifySteps),
        (Mode::Speculative, scrape((5, 20, 3), (1, 4, 0)), NoAcceptance::CountersWentBack),
    ];
    for (mode, scrape, cause) in table {
        let acceptance = from(&[], mode, scrape);
        assert_eq!(acceptance.server_cause, Some(cause), "{mode} {scrape:?}");
        assert_eq!(acceptance.server.reason(), Some(cause.to_string().as_str()));
    }
}

#[test]
fn drafts_in_an_ordinary_run_are_shown_and_contradict_it() {
    let rows = rows(&[("math", fields(48, Some((40, 0)), None))]);
    let acceptance = from(&rows, Mode::Ordinary, scrape((0, 0, 0), (10, 40, 0)));
    assert_near(&acceptance.per_request.value().unwrap().pooled.accept_rate, 0.0);
    assert_eq!(acceptance.contradictions.len(), 2);
    assert_eq!(speculative(&rows).contradictions, [""; 0]);
}

#[test]
fn both_sources_are_compared_and_never_merged() {
    let rows = rows(&[("math", fields(48, Some((40, 23)), None))]);
    let agreeing = from(&rows, Mode::Speculative, scrape((0, 0, 0), (10, 40, 23)));
    let checks = agreeing.cross_check.value().unwrap();
    assert!(checks.iter().all(|check| check.agree));
    assert_eq!(checks.len(), 2, "steps are not counted by request");
    let other = from(&rows, Mode::Speculative, scrape((0, 0, 0), (11, 44, 24)));
    assert!(other.cross_check.value().unwrap().iter().all(|check| !check.agree));
    assert_near(&other.first().unwrap().accept_rate, 23.0 / 40.0);
    assert!(speculative(&rows).cross_check.reason().is_some());
}
