//! The report of a synthetic run, as files and in a browser.

mod browser;
mod sample;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nearflash_study::compare::{self, Verdict};
use nearflash_study::plan::Plan;
use nearflash_study::report::{self, Chapter, Document, ReportError};
use nearflash_study::result::{Comparable, Outcome, PointEnd, Results};
use nearflash_study::studies::{Setting, catalogue};
use serde_json::Value;

/// A folder for one test, which is kept for inspection.
pub(crate) fn out_dir(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // The folder may not exist yet.
    let _ = fs::remove_dir_all(&dir);
    dir
}

/// All studies, with numbers that grow with the requested load.
fn all_studies() -> Document {
    let setting = Setting { is_quick: true, core_count: 2, core_watts: 10.0, ..Setting::default() };
    let plans: Vec<Plan> = catalogue().iter().map(|study| study.plan(&setting)).collect();
    let mut outcomes = BTreeMap::new();
    for (index, point) in (1_u32..).zip(plans.iter().flat_map(|plan| &plan.points)) {
        let loads = point.loads.iter().map(|load| {
            let kib = load.op_len.0 as f64 / 1024.0;
            let iops = 90e3 / (1.0 + kib / 12.0) * f64::from(load.clients.min(4))
                + f64::from(index % 7) * 900.0;
            let comparable = if index % 9 == 0 { Comparable::Moved } else { Comparable::Sound };
            [0.94, 1.0, 1.05]
                .map(|part| sample::run(iops * part, 1e6 / iops / part, comparable))
                .to_vec()
        });
        let end = sample::measured_loads(&point.id.0, loads.collect());
        outcomes.insert(end.id, end.outcome);
    }
    let results = Results::new(outcomes);
    let chapter = |(study, plan)| Chapter::new(study, &setting, plan, &results);
    let studies = catalogue().iter().copied();
    let chapters = studies.zip(plans).map(chapter).collect();
    Document { chapters, ..sample::document() }
}

/// HTML void elements.
const VOID: [&str; 4] = ["meta", "link", "br", "hr"];

/// Checks that every element that begins also ends, in order.
fn check_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let rest = page.strip_prefix("<!DOCTYPE html>").expect("the page says what it is");
    let mut in_style = false;
    for tag in rest.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("<{tag} has no end"));
        if in_style && tag != "/style" {
            panic!("<{tag}> within style");
        }
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap_or_default();
        in_style = tag.starts_with("style");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

/// Checks that a page loads nothing; links to files next to it are allowed.
fn check_self_contained(page: &str) {
    for need in
        ["<script", "<link", "<img", "<iframe", "@import", " src=", "href=\"http", "href=\"//"]
    {
        assert!(!page.contains(need), "the page has {need}");
    }
    for reference in page.split("url(").skip(1) {
        assert!(reference.starts_with('#'), "the page fetches {}", &reference[..30]);
    }
}

/// The files that a page links to.
fn links(page: &str) -> Vec<&str> {
    let ends = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    ends.filter(|link| !link.starts_with('#')).collect()
}

/// Checks that every link within the page has exactly one target.
fn check_anchors(page: &str) {
    let anchors: Vec<&str> =
        page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(!anchors.is_empty(), "the page has no contents");
    for anchor in anchors {
        assert_eq!(page.matches(&format!(" id=\"{anchor}\"")).count(), 1, "#{anchor}");
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_but_itself() {
    let out = out_dir("page");
    let written = report::write(&sample::document(), &out).unwrap();
    let page = read(&written.page);
    check_well_formed(&page);
    check_self_contained(&page);
    let links = links(&page);
    assert!(links.len() > 10);
    for link in links {
        assert!(out.join(link).is_file(), "{link} leads nowhere");
    }
}

#[test]
fn text_of_others_is_shown_and_not_obeyed() {
    let out = out_dir("text");
    let written = report::write(&sample::document(), &out).unwrap();
    let page = read(&written.page);
    assert!(page.contains("&lt;script&gt;alert('x')&lt;/script&gt; &amp; &quot;quotes&quot;"));
    assert!(page.contains("Nothing &lt;b&gt;bold&lt;/b&gt; was found"));
    let text = read(&written.text);
    assert!(text.contains("Nothing &lt;b&gt;bold&lt;/b&gt; was found"));
}

#[test]
fn the_page_says_what_failed_and_what_could_not_run() {
    let out = out_dir("failed");
    let written = report::write(&sample::document(), &out).unwrap();
    for words in [
        "the target closed the connection",
        "the loopback interface has none",
        "--target with a volume on another machine",
        "iscsi-tuning/connections/4",
        "10 points measured, 5 of them doubtful; 1 failed; 1 not run yet",
    ] {
        assert!(read(&written.page).contains(words), "{words}");
    }
}

#[test]
fn every_study_is_reported_with_all_its_figures() {
    let document = all_studies();
    let out = out_dir("all");
    let written = report::write(&document, &out).unwrap();
    let page = read(&written.page);
    check_well_formed(&page);
    check_self_contained(&page);
    check_anchors(&page);
    let exhibits = || document.chapters.iter().flat_map(|chapter| &chapter.exhibits);
    let figures = exhibits().filter(|exhibit| exhibit.figure.is_some()).count();
    assert_eq!(page.matches("class=\"nf-figure\"").count(), figures);
    for link in links(&page) {
        assert!(out.join(link).is_file(), "{link} leads nowhere");
    }
}

/// The text of HTML, with plain spaces.
fn plain(page: &str) -> String {
    let mut text = String::new();
    for part in page.split('<') {
        text += part.split_once('>').map_or(part, |(_, text)| text);
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace('\u{a0}', " ").replace("&amp;", "&")
}

#[test]
fn every_form_of_a_report_has_the_same_findings() {
    for (name, document) in [("findings", sample::document()), ("findings-all", all_studies())] {
        let out = out_dir(name);
        let written = report::write(&document, &out).unwrap();
        let page = plain(&read(&written.page));
        let text = read(&written.text).replace('\\', "");
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let json: Value = serde_json::from_str(&read(&out.join("results.json"))).unwrap();
        assert_eq!(json["schema"], 1);
        let mut count = 0;
        for (chapter, kept) in document.chapters.iter().zip(json["chapters"].as_array().unwrap()) {
            let kept = kept["exhibits"].as_array().unwrap().iter();
            let kept = kept.flat_map(|exhibit| exhibit["findings"].as_array().unwrap());
            for (finding, kept) in chapter.findings().zip(kept) {
                count += 1;
                let (here, verdict) = (finding.here.as_str(), finding.verdict_text());
                let dash = |text: &str| if text.is_empty() { "–" } else { text }.to_owned();
                let cells = [
                    format!("{} ({})", finding.claim, finding.source),
                    dash(&finding.paper),
                    dash(here),
                    verdict.clone(),
                ];
                assert!(text.contains(&cells.join(" | ")), "{cells:?}");
                for cell in &cells {
                    assert!(page.contains(cell), "{cell}");
                }
                assert!(page.matches(&cells[0]).count() >= 2, "with its figure, too: {cells:?}");
                assert_eq!((&kept["claim"], &kept["here"]), (&finding.claim.into(), &here.into()));
                let name = finding.verdict.name().replace("does not hold", "does_not");
                assert_eq!(kept["verdict"], name.replace(' ', "_"));
            }
        }
        assert!(count > 5, "{count} findings");
    }
}

#[test]
fn an_empty_run_is_a_report() {
    let out = out_dir("empty");
    let written = report::write(&Document::default(), &out).unwrap();
    check_well_formed(&read(&written.page));
}

#[test]
fn a_report_is_read_back_and_equals_itself() {
    let out = out_dir("back");
    let document = sample::document();
    report::write(&document, &out).unwrap();
    let kept = report::read(&out).unwrap();
    assert_eq!(kept.about, document.about);
    let points: Vec<_> = document.chapters.iter().flat_map(|chapter| &chapter.points).collect();
    let kept_points: Vec<_> = kept.studies.iter().flat_map(|(_, points)| points).collect();
    assert_eq!(kept_points, points);
    let comparison = compare::directories(&out, &out).unwrap();
    assert_eq!(comparison.count(Verdict::Same), comparison.count(Verdict::Doubtful));
    check_well_formed(&compare::page(&comparison));
    check_self_contained(&compare::page(&comparison));
    check_anchors(&compare::page(&comparison));
}

#[test]
fn a_comparison_says_for_each_study_what_has_changed() {
    let out = [out_dir("before"), out_dir("after")];
    let document = all_studies();
    let mut faster = document.clone();
    for end in faster.chapters.iter_mut().flat_map(|chapter| &mut chapter.points) {
        let Outcome::Measured(measurement) = &mut end.outcome else { continue };
        for run in measurement.tenants.iter_mut().flatten() {
            run.iops *= 2.0;
        }
    }
    report::write(&document, &out[0]).unwrap();
    report::write(&faster, &out[1]).unwrap();
    let comparison = compare::directories(&out[0], &out[1]).unwrap();
    let page = compare::page(&comparison);
    check_well_formed(&page);
    check_anchors(&page);
    for chapter in document.chapters.iter().filter(|chapter| !chapter.points.is_empty()) {
        // Models have no loads, and do not differ between machines.
        let has_loads = |end: &PointEnd| matches!(&end.outcome, Outcome::Measured(measured) if !measured.tenants.is_empty());
        let is_compared = page.contains(&format!("id=\"{}\"", chapter.study));
        assert_eq!(is_compared, chapter.points.iter().any(has_loads), "{}", chapter.study);
    }
    assert!(comparison.count(Verdict::More) > 100 && comparison.count(Verdict::Less) == 0);
    assert!(page.contains("2.00"));
}

#[test]
fn every_number_is_read_back_to_its_last_digit() {
    let out = out_dir("digits");
    let mut document = sample::document();
    let runs = (1..1000).map(|n| {
        let n = f64::from(n);
        sample::run(1e6 / 7.0 * n.sqrt(), 1e4 / n.cbrt(), Comparable::Sound)
    });
    document.chapters[0].points.push(sample::measured("quicksan-bandwidth/digits", runs.collect()));
    report::write(&document, &out).unwrap();
    let kept = report::read(&out).unwrap();
    assert_eq!(kept.studies[0].1.last(), document.chapters[0].points.last());
}

#[test]
fn a_number_that_is_none_spoils_no_other_point() {
    let out = out_dir("nan");
    let mut document = sample::document();
    let runs = vec![sample::run(f64::NAN, 1.0, Comparable::Sound)];
    document.chapters[0].points.push(sample::measured("quicksan-bandwidth/none", runs));
    report::write(&document, &out).unwrap();
    let kept = report::read(&out).unwrap();
    let (_, points) = &kept.studies[0];
    assert!(matches!(points[2].outcome, Outcome::Failed(_)));
    assert_eq!(points[0], document.chapters[0].points[0]);
}

#[test]
fn a_published_report_leads_only_to_what_lies_beside_it() {
    let out = out_dir("published");
    let written = report::publish(&all_studies(), &out).unwrap();
    let page = read(&written.page);
    check_well_formed(&page);
    check_self_contained(&page);
    check_anchors(&page);
    let links = links(&page);
    assert!(links.iter().any(|link| link.ends_with(".csv")));
    for link in links {
        assert!(out.join(link).is_file(), "{link} leads nowhere");
    }
    assert!(page.contains("A published copy"), "whoever misses a file reads why");
    for picture in read(&written.text).split("](").skip(1).filter_map(|rest| rest.split(')').next())
    {
        assert!(out.join(picture).is_file(), "{picture} leads nowhere");
    }
    let mut left = vec![out.clone()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
            let kind = entry.extension().map(|kind| kind.to_string_lossy().into_owned());
            match kind.as_deref() {
                None => left.push(entry),
                Some("html" | "md" | "svg" | "csv") => {}
                Some(_) => panic!("{} is not to be published", entry.display()),
            }
        }
    }
}

#[test]
fn what_cannot_be_compared_is_told_on_one_line_with_what_to_do() {
    let (published, unwritten) = (out_dir("copy"), out_dir("unwritten"));
    report::publish(&sample::document(), &published).unwrap();
    fs::create_dir_all(&unwritten).unwrap();
    fs::write(unwritten.join("points.jsonl"), "").unwrap();
    for (dir, words) in [
        (&published, "is a published report, without results.json: name the directory"),
        (&unwritten, "has no results.json yet: 'nearflash study report "),
    ] {
        let message = compare::directories(dir, dir).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{} {words}", dir.display())), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn results_of_another_schema_are_refused_by_name() {
    let out = out_dir("schema");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("results.json"), r#"{"schema": 2, "novel": []}"#).unwrap();
    let error = report::read(&out).unwrap_err();
    assert!(matches!(error, ReportError::Schema { found: 2, .. }), "{error}");
    fs::write(out.join("results.json"), "{").unwrap();
    assert!(matches!(report::read(&out).unwrap_err(), ReportError::Malformed { .. }));
    fs::remove_file(out.join("results.json")).unwrap();
    assert!(matches!(report::read(&out).unwrap_err(), ReportError::Read { .. }));
}

#[test]
fn a_report_that_cannot_be_written_says_where() {
    let out = out_dir("blocked");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("cost"), "a file where a directory is to be").unwrap();
    let error = report::write(&sample::document(), &out).unwrap_err().to_string();
    assert!(error.contains("cost") && error.contains("--out"), "{error}");
    // The results, from which everything else can be made again, were written first.
    assert!(report::read(&out).is_ok());
}

#[test]
#[ignore = "needs Chromium, which only make test-all installs and runs"]
fn a_browser_shows_the_page_with_its_figures() {
    let out = out_dir("browser");
    let written = report::write(&sample::document(), &out).unwrap();
    browser::check(&written.page, 5, &[1000, 520]);
    browser::check_pixels(&written.page);
    let all = out_dir("browser-all");
    let document = all_studies();
    let figures = document.chapters.iter().flat_map(|chapter| &chapter.exhibits);
    let figures = figures.filter(|exhibit| exhibit.figure.is_some()).count();
    let written = report::write(&document, &all).unwrap();
    browser::check(&written.page, figures, &[520]);
}
