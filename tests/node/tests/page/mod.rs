//! The page of a node in a real browser: it shows what the HTTP interface says, and its actions work.
//! Needs Chromium, so the tests are ignored by default.
#![allow(clippy::unwrap_used)] // a failed test says where

mod browser;

use nearflash_node_tests::{Node, Place};

use browser::Browser;

const RAM: [&str; 4] = ["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"];

/// A node whose page is on the network, with a token of the scope `admin`.
fn served(place: &Place) -> (Node<'_>, String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(place.path("http.crt"), made.cert.pem()).unwrap();
    std::fs::write(place.path("http.key"), made.signing_key.serialize_pem()).unwrap();
    let (cert, key) = (place.text("http.crt"), place.text("http.key"));
    let door = ["--http", "127.0.0.1:0", "--http-cert", &cert, "--http-key", &key];
    let node = Node::start(place, &[&RAM[..], &door].concat());
    let url = format!("https://{}/", node.ready().http.unwrap());
    let made = node.command(&["token", "create", "page", "--scope", "admin", "--for", "1h"]);
    let token = made["secret"].as_str().unwrap().to_owned();
    (node, url, token)
}

fn open<'b>(browser: &'b mut Browser, url: &str, token: &str) -> &'b mut Browser {
    browser.open(url);
    browser.await_true("!document.getElementById('login').hidden");
    browser.run(&format!(
        "document.querySelector('#login input').value = '{token}';
         document.querySelector('#login form').requestSubmit()"
    ));
    browser.await_true("!document.getElementById('node').hidden");
    browser
}

/// Whether a table has a row that begins with this text.
fn row(table: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll('#{table} tr')].some(it => it.innerText.startsWith('{text}'))"
    )
}

#[test]
#[ignore = "needs Chromium, which only make test-all installs and runs"]
fn the_page_shows_the_node_live_at_every_width_in_the_light_and_in_the_dark() {
    let place = Place::new();
    let (node, url, token) = served(&place);
    let mut browser = Browser::start(&place);
    let page = open(&mut browser, &url, &token);
    page.await_true("document.getElementById('verdict').textContent === 'ok'");
    page.await_true(&row("volumes", "data\\t8 MiB\\tr"));
    page.await_true(&row("devices", "r\\tram\\t64 MiB"));
    page.await_true(&row("addresses", "HTTP\\t127.0.0.1:"));
    page.await_true("document.querySelectorAll('.chart').length === 4");
    for (width, is_dark) in [(360, false), (360, true), (1200, false), (1200, true)] {
        page.resize(width, is_dark);
        let is_wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
        assert_eq!(page.run(is_wide), false, "at {width}");
        let ground = page.run("getComputedStyle(document.body).backgroundColor");
        assert_eq!(ground == "rgb(17, 22, 29)", is_dark, "{ground}");
    }
    // Another operator changes the node: the page tells it.
    node.command(&["volume", "create", "web=4MiB@r"]);
    page.await_true(&row("volumes", "web\\t4 MiB"));
    page.await_true(
        "document.getElementById('events').innerText.includes(\"volume-create 'web' by \")",
    );
    // The token ends: the page asks for another one, and shows nothing.
    node.command(&["token", "remove", "page"]);
    page.await_true("!document.getElementById('login').hidden");
    page.await_true("document.getElementById('node').hidden");
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium, which only make test-all installs and runs"]
fn the_actions_of_the_page_change_the_node() {
    let place = Place::new();
    let (node, url, token) = served(&place);
    let mut browser = Browser::start(&place);
    let page = open(&mut browser, &url, &token);
    let create = |size: &str| {
        format!(
            "(form => {{ form.elements.name.value = 'web'; form.elements.size.value = '{size}';
             form.requestSubmit(); }})(document.getElementById('create'))"
        )
    };
    let failure = "document.querySelector('#create .failure').textContent";
    page.await_true("document.querySelector('#create select').value === 'r'");
    page.run(&create("much"));
    page.await_true(&format!("{failure}.includes('a number with a unit')"));
    page.run(&create("1TiB"));
    page.await_true(&format!("{failure}.includes('free')"));
    page.run(&create("4MiB"));
    page.await_true(&row("volumes", "web\\t4 MiB"));
    assert_eq!(node.command(&["volume", "show", "web"])["volume"]["bytes"], 4 << 20);

    page.run(
        "[...document.querySelectorAll('#volumes tr')].find(it => it.innerText.startsWith('web'))
         .querySelector('button').click()",
    );
    let button = "document.querySelector('#question button.danger')";
    assert_eq!(page.run(&format!("{button}.disabled")), true, "the name is not typed yet");
    page.run(
        "(input => { input.value = 'web'; input.dispatchEvent(new Event('input')); })
         (document.querySelector('#question input'))",
    );
    page.run(&format!("{button}.click()"));
    page.await_true(&format!("!{}", row("volumes", "web")));
    let volumes = node.command(&["volume", "list"]);
    assert_eq!(volumes["volumes"].as_array().unwrap().len(), 1, "{volumes}");
    assert!(place.log().contains("who=\"token page\" call=\"volume-remove\" subject=\"web\""));
    // The refusal of a size is a response that the browser reports.
    let refused = |fault: &String| fault.contains("status of 507");
    let faults: Vec<String> = page.faults().into_iter().filter(|it| !refused(it)).collect();
    assert_eq!(faults, Vec::<String>::new());
}
