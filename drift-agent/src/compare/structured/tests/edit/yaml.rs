//! YAML: blocks, brackets, anchors.

use super::{super::Format::Yaml, check, edited};

#[test]
fn yaml_keeps_what_is_not_managed() {
    let observed =
        "# head\na:   1  # one\n\nb: {x: 1,  y: 2}\nlist:\n- p: 1\n  q: 2   # q\n# tail\n";
    check(
        Yaml,
        &["/a"],
        "a: 2\n",
        observed,
        &observed.replace("a:   1", "a:   2"),
    );
    check(
        Yaml,
        &["/b/y"],
        "b: {y: z}\n",
        observed,
        &observed.replace("y: 2}", "y: z}"),
    );
    check(
        Yaml,
        &["/b/z"],
        "b: {z: [1]}\n",
        observed,
        &observed.replace("y: 2}", "y: 2, z: [1]}"),
    );
    check(
        Yaml,
        &["/b/x"],
        "b: {}\n",
        observed,
        &observed.replace("x: 1,  y", "y"),
    );
    check(
        Yaml,
        &["/b/y"],
        "{}\n",
        observed,
        &observed.replace("{x: 1,  y: 2}", "{x: 1}"),
    );
    check(
        Yaml,
        &["/list/*/q"],
        "list: [{q: 3}]\n",
        observed,
        &observed.replace("q: 2", "q: 3"),
    );
    check(
        Yaml,
        &["/list/0/p"],
        "list: [{}]\n",
        observed,
        &observed.replace("- p: 1\n  q", "- q"),
    );
    check(
        Yaml,
        &["/a"],
        "{}\n",
        observed,
        &observed.replace("a:   1  # one\n", ""),
    );
    check(
        Yaml,
        &["/new"],
        "new: {k: [1, x]}\n",
        observed,
        &observed.replace("# q\n", "# q\nnew:\n  k:\n    - 1\n    - x\n"),
    );
    check(
        Yaml,
        &["/list"],
        "list: [{p: 1, q: 3}]\n",
        observed,
        &observed.replace("q: 2", "q: 3"),
    );
    check(
        Yaml,
        &["/list"],
        "list: [1, 2]\n",
        observed,
        &observed
            .replace("- p: 1\n  q: 2 ", "\n  - 1\n  - 2 ")
            .replace("list:\n\n", "list:\n"),
    );
    check(
        Yaml,
        &["/c/d"],
        "c: {d: 'no'}\n",
        "c:\n",
        "c:\n  d: \"no\"\n",
    );
    check(Yaml, &["/a"], "a: x\n", "", "a: x\n");
    check(Yaml, &["/a"], "a: x\n", "# only\n", "# only\na: x\n");
    check(Yaml, &["/a"], "a: x\n", "b: 1", "b: 1\na: x");
    check(
        Yaml,
        &["/a"],
        "a: \"l1\\nl2\\n\"\n",
        "a: x\nb: 1\n",
        "a: |\n  l1\n  l2\nb: 1\n",
    );
    check(
        Yaml,
        &["/a"],
        "a: new\n",
        "a: |\n  l1\n  l2\nb: 1\n",
        "a: new\nb: 1\n",
    );
    check(
        Yaml,
        &["/a"],
        "a: it\n",
        "a: 'x'\nb: \"y\"\n",
        "a: 'it'\nb: \"y\"\n",
    );
    check(
        Yaml,
        &["/a"],
        "a: 1\n",
        "a: 0\r\nb: 1\r\n",
        "a: 1\r\nb: 1\r\n",
    );
    check(
        Yaml,
        &["/c"],
        "c: 1\n",
        "a: 0\r\nb: 1\r\n",
        "a: 0\r\nb: 1\r\nc: 1\r\n",
    );
    check(
        Yaml,
        &["#1/a"],
        "{}\n---\na: 2\n",
        "a: 1\n---\na: 1\n",
        "a: 1\n---\na: 2\n",
    );
    check(
        Yaml,
        &["/a"],
        "a: 2\n",
        "größe: ä  # ö\na: 1 # ü\n",
        "größe: ä  # ö\na: 2 # ü\n",
    );
    check(Yaml, &["/a"], "a: 2\n", "\u{feff}a: 1\n", "\u{feff}a: 2\n");
}

#[test]
fn a_map_of_which_nothing_stays_is_written_anew() {
    let observed = "l:\n- # one\n  a: 1\n- b: 1\n";
    check(
        Yaml,
        &["/l"],
        "l: [{c: 1}, {b: 1}]\n",
        observed,
        &observed.replace("a: 1", "c: 1"),
    );
}

#[test]
fn yaml_anchors_elsewhere_stay() {
    let observed = "x: &x {k: 1}\na: *x\nb:\n  <<: *x\n  c: 1\n";
    check(
        Yaml,
        &["/b/c"],
        "b: {c: 2}\n",
        observed,
        &observed.replace("c: 1", "c: 2"),
    );
    check(
        Yaml,
        &["/a"],
        "a: {k: 2}\n",
        observed,
        &observed.replace("a: *x", "a: {k: 2}"),
    );
    check(
        Yaml,
        &["/b/k"],
        "b: {k: 2}\n",
        observed,
        &format!("{observed}  k: 2\n"),
    );
    // Changing what others refer to would change them too.
    assert_eq!(
        edited(Yaml, &["/x/k"], "x: {k: 2}\n", observed).map_err(|error| error.reason()),
        Err("unsound-edit")
    );
    assert_eq!(
        edited(Yaml, &["/a/k"], "a: {k: 2}\n", observed).map_err(|error| error.reason()),
        Err("unsupported-edit")
    );
}
