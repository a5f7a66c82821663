//! Populations: the drawn values follow the requested distribution, and do not change between
//! versions.

use paceline_scenario::{Scenario, Vocabulary};

static VOCABULARY: Vocabulary = Vocabulary {
    queues: paceline_path::QUEUES,
    early_signals: paceline_path::EARLY_SIGNALS,
};

const HEAD: &str = "schema = 1\n[run]\nduration = \"5 s\"\n[path]\nrate = \"10 Mbit/s\"\nrtt = \"20 ms\"\n\
    queue = { kind = \"droptail\", size = \"1 bdp\" }\n[[flows]]\ncc = \"bbr3\"\n[sweep]\n";

/// The drawn values of each point, or the first error.
fn drawn(sweep: &str, file: &str) -> Result<Vec<Vec<String>>, String> {
    let text = format!("{HEAD}{sweep}");
    let mut scenario = Scenario::parse(&text, "x.toml", &[], &VOCABULARY)
        .map_err(|problems| format!("{} {:?}", problems[0].message, problems[0].hint))?;
    scenario
        .populate(|_| Ok(file.to_owned()))
        .map_err(|problems| format!("{} {:?}", problems[0].message, problems[0].hint))?;
    let axes = scenario.sweep.map_or_else(Vec::new, |sweep| sweep.axes);
    let axis = axes.last().ok_or("no axis")?;
    Ok(axis
        .points
        .iter()
        .map(|point| point.values.clone())
        .collect())
}

fn numbers(law: &str, count: usize) -> Vec<f64> {
    let sweep = format!("draws = {count}\n[sweep.over]\npath.rate = {{ draw = {law} }}\n");
    let points = drawn(&sweep, "").unwrap();
    let number = |point: &Vec<String>| point[0].split(' ').next().unwrap().parse().unwrap();
    points.iter().map(number).collect()
}

fn quantile(numbers: &[f64], share: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[(share * (sorted.len() - 1) as f64) as usize]
}

#[test]
fn laws_have_the_quantiles_of_their_definitions() {
    // With 4000 draws a quantile in the middle half is within about 4 % of a deviation.
    let close = |value: f64, wanted: f64, by: f64| {
        assert!((value - wanted).abs() < by, "{value} is not {wanted}");
    };
    let values = numbers("\"lognormal\", median = \"50 Mbit/s\", sigma = 1.0", 4000);
    close(quantile(&values, 0.5).ln(), 50_f64.ln(), 0.06);
    // One sigma above: the 84th percentile.
    close(quantile(&values, 0.841).ln(), 50_f64.ln() + 1.0, 0.09);
    let values = numbers(
        "\"normal\", mean = \"100 Mbit/s\", deviation = \"10 Mbit/s\"",
        4000,
    );
    close(quantile(&values, 0.5), 100.0, 0.6);
    close(quantile(&values, 0.841), 110.0, 0.9);
    let values = numbers(
        "\"uniform\", from = \"10 Mbit/s\", to = \"20 Mbit/s\"",
        4000,
    );
    close(quantile(&values, 0.25), 12.5, 0.3);
    assert!(values.iter().all(|rate| (10.0..=20.0).contains(rate)));
    let values = numbers(
        "\"loguniform\", from = \"1 Mbit/s\", to = \"100 Mbit/s\"",
        4000,
    );
    close(quantile(&values, 0.5), 10.0, 0.8);
    let values = numbers(
        "\"normal\", mean = \"1 Mbit/s\", deviation = \"9 Mbit/s\", min = \"2 Mbit/s\"",
        200,
    );
    assert!(values.iter().all(|rate| *rate >= 2.0));
}

#[test]
fn a_choice_goes_by_its_weights() {
    let sweep = "draws = 4000\n[sweep.over]\nflows.0.cc = { draw = \"choice\", of = [\"bbr3\", \"cubic\"], weights = [3, 1] }\n";
    let points = drawn(sweep, "").unwrap();
    let share = points.iter().filter(|point| point[0] == "bbr3").count() as f64 / 4000.0;
    assert!((share - 0.75).abs() < 0.03, "{share}");
}

#[test]
fn each_key_has_a_stream_of_its_own() {
    let rate = "path.rate = { draw = \"uniform\", from = \"1 Mbit/s\", to = \"9 Mbit/s\" }\n";
    let alone = drawn(&format!("draws = 20\n[sweep.over]\n{rate}"), "").unwrap();
    let rtt = "path.rtt = { draw = \"uniform\", from = \"1 ms\", to = \"9 ms\" }\n";
    let both = drawn(&format!("draws = 20\n[sweep.over]\n{rtt}{rate}"), "").unwrap();
    let rates: Vec<_> = both.iter().map(|point| point[1].clone()).collect();
    let expected: Vec<_> = alone.iter().map(|point| point[0].clone()).collect();
    assert_eq!(rates, expected);
    let other = drawn(
        &format!("draws = 20\ndraw_seed = 2\n[sweep.over]\n{rate}"),
        "",
    )
    .unwrap();
    assert_ne!(other, alone);
}

#[test]
fn rows_of_a_file_are_kept_together() {
    let file = "name, mbps,\"rtt, ms\"\n# a comment\na,10,20\nb,30.5,40\n\nc,7,9\n";
    let over = "[sweep.over]\npath.rate = { draw = \"column\", file = \"p.csv\", column = \"mbps\", unit = \"Mbit/s\" }\n\
        path.rtt = { draw = \"column\", file = \"p.csv\", column = \"rtt, ms\", unit = \"ms\" }\n";
    let every = drawn(over, file).unwrap();
    let row = |rate: &str, rtt: &str| vec![rate.to_owned(), rtt.to_owned()];
    let rows = [
        row("10 Mbit/s", "20 ms"),
        row("30.5 Mbit/s", "40 ms"),
        row("7 Mbit/s", "9 ms"),
    ];
    assert_eq!(every, rows);
    let some = drawn(&format!("draws = 50\n{over}"), file).unwrap();
    assert_eq!(some.len(), 50);
    assert!(some.iter().all(|point| rows.contains(point)));
    assert!(rows.iter().all(|row| some.contains(row)));
}

#[test]
fn keys_may_share_a_column_and_others_may_be_empty() {
    let over = "[sweep.over]\npath.rtt = { draw = \"column\", file = \"p.csv\", column = \"ms\", unit = \"ms\" }\n\
        flows.0.rtt = { draw = \"column\", file = \"p.csv\", column = \"ms\", unit = \"ms\" }\n";
    let points = drawn(over, "ms,x,x\n10,,\n20,1,2\n").unwrap();
    assert_eq!(points, [["10 ms", "10 ms"], ["20 ms", "20 ms"]]);
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let column = "path.rate = { draw = \"column\", file = \"p.csv\", column = \"rat\" }\n";
    for (sweep, file, message) in [
        (
            "[sweep.over]\npath.rate = { draw = \"uniform\", from = \"1 Mbit/s\", to = \"2 Mbit/s\" }\n",
            "",
            "draws = 100",
        ),
        (
            "draws = 3\n[sweep.over]\npath.rate = { draw = \"uniform\", from = \"1 Mbit/s\", to = \"2 Gbit/s\" }\n",
            "",
            "several units",
        ),
        (
            "draws = 3\n[sweep.over]\npath.rate = { draw = \"uniform\", from = \"3 Mbit/s\", to = \"2 Mbit/s\" }\n",
            "",
            "not above",
        ),
        (
            "draws = 3\n[sweep.over]\npath.rate = { draw = \"lognormal\", median = \"3 Mbit/s\", sigma = 1.0, max = \"0 Mbit/s\" }\n",
            "",
            "has no value",
        ),
        (
            "draws = 3\n[sweep.over]\npath.rate = { draw = \"uniforn\", from = 1, to = 2 }\n",
            "",
            "did you mean",
        ),
        (
            &format!("[sweep.over]\n{column}"),
            "rate,rtt\n1,2\n",
            "its columns: rate, rtt",
        ),
        (
            &format!("[sweep.over]\n{column}"),
            "rat,rtt\n1\n",
            "line 2 has 1 values",
        ),
        (&format!("[sweep.over]\n{column}"), "", "it is empty"),
        (
            &format!("[sweep.over]\n{column}"),
            "rat,x,rat\n1,2,3\n",
            "two columns have the name \"rat\"",
        ),
        (
            &format!("[sweep.over]\n{column}"),
            "x,rat\n1,2\n\n3,\n",
            "line 4 has no value in the column \"rat\"",
        ),
        (
            &format!("[sweep.over]\n{column}"),
            "rat\n\"2\n",
            "line 2 has a quotation mark without its pair",
        ),
        (
            &format!("[sweep.over]\n{column}"),
            &format!("rat{}\n", ",x".repeat(10_000)),
            "line 1 has more than 10000 values",
        ),
        (
            &format!("[sweep.over]\n{column}"),
            &format!("rat\n{}", "1\n".repeat(1_000_001)),
            "it has more than 1000000 rows",
        ),
    ] {
        let error = drawn(sweep, file).unwrap_err();
        assert!(error.contains(message), "{sweep}: {error}");
    }
}
