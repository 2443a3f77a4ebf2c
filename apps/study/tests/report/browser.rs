//! A page in headless Chromium: its pixels, and the positions of its figures.

use std::fs;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

/// Program names under which Chromium may be installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A script added to a copy of the page, which reports its layout.
const QUESTION: &str = r#"<script>
const figures = [...document.querySelectorAll("figure svg")].map(svg => svg.getBoundingClientRect());
const shown = figures.filter(box => box.width > 300 && box.height > 150 && box.left >= 0);
const texts = [...document.querySelectorAll("figure svg text")].filter(text => {
  const box = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
  return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
});
document.title = `figures=${shown.length} outside=${texts.length} ` +
  `wide=${document.documentElement.scrollWidth > document.documentElement.clientWidth}` +
  ` ${texts.slice(0, 3).map(text => text.textContent).join("|")}`;
</script>"#;

fn browser() -> &'static str {
    let found = BROWSERS.into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    found.expect("Chromium is not installed: 'scripts/deps test-all' installs it")
}

/// Opens a page in the browser; returns the browser's output.
fn run(browser: &str, page: &Path, arguments: &[String]) -> String {
    let profile = page.with_file_name("profile");
    let output = Command::new("timeout")
        .args(["600", browser, "--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("timeout is part of every Debian");
    let _ = fs::remove_dir_all(&profile);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks that a page shows this number of figures at each of these widths, and that none is empty.
pub(crate) fn check(page: &Path, figures: usize, widths: &[u32]) {
    let browser = browser();
    let text = fs::read_to_string(page).expect("the page was written");
    let asking = page.with_file_name("asking.html");
    fs::write(&asking, text.replace("</body>", &format!("{QUESTION}</body>")))
        .expect("its directory is there");
    for width in widths {
        let arguments = [format!("--window-size={width},900"), "--dump-dom".to_owned()];
        let dom = run(browser, &asking, &arguments);
        let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
        let wanted = format!("figures={figures} outside=0 wide=false");
        assert_eq!(title.map(str::trim), Some(wanted.as_str()), "at {width} pixels");
    }
}

/// Checks that the screen is not blank and has the colours of series.
pub(crate) fn check_pixels(page: &Path) {
    let browser = browser();
    let picture = page.with_file_name("screen.png");
    let arguments =
        ["--window-size=1000,6000".to_owned(), format!("--screenshot={}", picture.display())];
    run(browser, page, &arguments);
    let file = BufReader::new(fs::File::open(&picture).expect("the browser wrote a screen"));
    let mut decoder = png::Decoder::new(file);
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let mut reader = decoder.read_info().expect("the screen is a PNG file");
    let (color, _) = reader.output_color_type();
    let mut bytes = vec![0; reader.output_buffer_size().expect("a screen fits in memory")];
    reader.next_frame(&mut bytes).expect("the screen is a PNG file");
    let count = |wanted: [u8; 3]| {
        let is_near = |(have, want): (&u8, u8)| have.abs_diff(want) < 12;
        let all = bytes.chunks_exact(color.samples());
        all.filter(|pixel| pixel.iter().zip(wanted).all(is_near)).count()
    };
    assert!(count([0x1f, 0x23, 0x28]) > 5_000, "there is no text");
    let series = [[0x00, 0x72, 0xb2], [0xc8, 0x50, 0x0a], [0x00, 0x82, 0x5d], [0xa8, 0x44, 0x7f]];
    let coloured: usize = series.into_iter().map(count).sum();
    assert!(coloured > 1_000, "only {coloured} pixels have the colour of a series");
}
