//! Forms of the local server: which fields are arguments, what comes back of a run, and what is said of it.

use crate::home::Home;
use crate::scripts::fence;
use crate::server::{Answer, Server};

/// A command that keeps its arguments, each between bars, and fails where one of them says so.
const KEEP: &str = "#!/bin/sh\ncase \"$*\" in *fail*) echo 'usage: x' >&2; exit 2;; *idle*) exit 0;; esac\nprintf '{\"name\":\"a.b\",\"payload\":\"'\nfor one; do printf '[%s]' \"$one\" | tr '\\n' '~'; done\nprintf '\"}\\n'\n";

/// A page with a form of its own for the command `x`.
const PAGE: &str = "#!/bin/sh\ncat >/dev/null\necho '<h1>Own</h1><form action=\"/run/x\" method=\"post\"><input name=\"a\"><input name=\"b\"><button>Go</button></form>'\n";

/// A home with the command `x` of these parameters, and a page `own`.
fn with_params(params: &str) -> Home {
    let home = Home::new();
    let command = format!(r#"{{"name":"command.declared","payload":{{"name":"x","params":{params},"event":{{"name":"a.b"}}}}}}"#);
    let page = r#"{"name":"projector.declared","payload":{"name":"own","consumes":["a.b"]}}"#;
    home.hear(&format!("{command}\n{page}\n{}{}", fence("command/x", KEEP), fence("projector/own", PAGE)));
    assert_eq!(home.count("script.compiled"), 2, "{:?}", home.reasons());
    home
}

/// Sends a form as a browser does, from a page of the server.
#[track_caller]
fn submit(server: &Server, from: &str, body: &str) -> Answer {
    let referer = format!("http://{}{from}", server.host());
    let headers = [("Accept", "text/html"), ("Referer", &*referer), ("Content-Type", "application/x-www-form-urlencoded")];
    server.send("POST", "/run/x", &headers, body)
}

#[test]
fn an_optional_field_left_empty_is_no_argument_unless_something_stands_behind_it() {
    let home = with_params(r#"{"a":"string","b":"string, optional","c":"integer, optional"}"#);
    let server = home.serve();
    for (body, expect) in [
        ("a=1&b=&c=", r#""[1]""#),
        ("a=1&b=2&c=", r#""[1][2]""#),
        ("a=1&b=&c=3", r#""[1][][3]""#),
        ("a=&b=&c=", r#""[]""#),
        ("other=1&names=", r#""[1]""#),
        ("a=1&b=&c=&d=", r#""[1][][][]""#),
    ] {
        assert_eq!(submit(&server, "/own", body).status, 303, "{body}");
        assert_eq!(home.payloads("a.b").last().unwrap(), expect, "{body}");
    }
}

#[test]
fn a_form_of_the_kernel_has_an_input_for_each_type_in_the_order_of_the_arguments() {
    let home = with_params(
        r#"{"z":"string","n":"integer","yes":"boolean","day":"date, optional","at":"time, optional","when":"moment, optional","how":"good|bad, optional","story":"text, optional"}"#,
    );
    let page = home.serve().get("/").text();
    let form = &page[page.find("<form action=\"/run/x\" method=\"post\">").unwrap()..];
    let form = &form[..form.find("</form>").unwrap()];
    let inputs: Vec<_> =
        form.split('<').filter(|tag| ["input", "select", "textarea"].iter().any(|word| tag.starts_with(word))).collect();
    assert_eq!(
        inputs,
        [
            r#"input id="command-0-0" name="z" type="text" required>"#,
            r#"input id="command-0-1" name="n" type="number" required>"#,
            r#"select id="command-0-2" name="yes" required>"#,
            r#"input id="command-0-3" name="day" type="date">"#,
            r#"input id="command-0-4" name="at" type="time" step="1">"#,
            r#"input id="command-0-5" name="when" type="text">"#,
            r#"select id="command-0-6" name="how">"#,
            "textarea id=\"command-0-7\" name=\"story\" rows=\"3\">\n",
        ]
    );
    assert_eq!(form.matches("<label for=").count(), 8);
}

#[test]
fn a_run_that_fails_keeps_what_was_typed_into_every_kind_of_input() {
    let home = with_params(r#"{"n":"integer","yes":"boolean","story":"text","how":"good|bad","last":"string"}"#);
    let server = home.serve();
    let answer = submit(&server, "/own?done=1", "n=soon&yes=false&story=fail%0D%0A%3Cb%3E&how=ugly");
    assert_eq!(answer.status, 500);
    let page = answer.text();
    for part in [
        r#"<div class="msg danger" id="fault" role="alert" tabindex="-1">"#,
        "usage: x",
        r#"<form action="/run/x?from=/own" method="post">"#,
        r#"name="n" type="text" value="soon" required aria-invalid="true" aria-describedby="fault" autofocus>"#,
        r#"<option value="false" selected>"#,
        "\nfail\n&lt;b&gt;</textarea>",
        r#"name="how" type="text" value="ugly" required aria-invalid="true""#,
        r#"name="last" type="text" value="" required aria-invalid="true""#,
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert_eq!(page.matches(" autofocus").count(), 1, "{page}");
    let page = submit(&server, "/own", "n=1&yes=true&story=fail&how=good&last=x").text();
    assert!(page.contains(r#"role="alert" tabindex="-1" autofocus>"#), "no field is sure to be amiss: {page}");
    assert!(!page.contains("aria-invalid"), "{page}");
}

#[test]
fn what_a_run_recorded_is_told_where_it_leads_back_to() {
    let home = with_params(r#"{"a":"string"}"#);
    let server = home.serve();
    let seq = home.records().len() + 1;
    for from in ["/own", "/", "/-/today"] {
        let answer = submit(&server, from, "a=1");
        let seq = home.records().len();
        assert_eq!(answer.header("location"), Some(&*format!("{from}?done={seq}")));
        let page = server.get(answer.header("location").unwrap()).text();
        let told = format!(
            "<p class=\"done\" role=\"status\">Recorded <code>a.b</code> as <a href=\"/-/event/{seq}\">event {seq}</a><span class=\"muted\">, "
        );
        assert!(page.contains(&told), "{told} in {page}");
        assert!(!server.get(from).text().contains("class=\"done\""));
    }
    for forged in ["1", "999999", "0", "-1", "x", "%3Cscript%3E", "", &format!("{seq}x")] {
        let page = server.get(&format!("/own?done={forged}"));
        assert!(page.status == 200 && !page.text().contains("class=\"done\""), "{forged}");
    }
    let answer = submit(&server, "/own", "a=idle");
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("No event of it was recorded.") && answer.text().contains("<a href=\"/own\">Back</a>"));
}
