//! Contents, however they are written.

use std::io::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};

use super::{check, read, version};
use crate::policy::{Content, MAX_CONTENT};

fn gzip(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("packed");
    STANDARD.encode(encoder.finish().expect("packed"))
}

/// The problem of a version whose only file has this content.
fn problem(content: &str) -> String {
    let file = format!("    - path: /etc/a\n      content: {content}\n");
    let (_, problems) = read(&version(&file));
    let first = problems.sorted();
    let first = first.first();
    first.map_or_else(String::new, |first| first.one_line().to_string())
}

#[test]
fn every_way_to_write_a_content() {
    let files = "    - {path: /a, content: {base64: YQ==}}\n    - {path: /b, content: {base64: 1234}}\n    - {path: /c, content: {dataUrl: \"data:,a\"}}\n    - {path: /d, content: {digest: \"blake3:17762fddd969a453925d65717ac3eea21320b66b54342fde15128d6caf21215f\"}}\n    - path: /e\n      content:\n        gzip: |\n          PACKED\n";
    let files = files.replace("PACKED", &gzip(b"a"));
    let text = version(&files) + "---\n" + &super::policy("");
    let (lineages, problems) = read(&text);
    assert!(problems.is_empty(), "{problems}");
    let lineages = lineages.expect("no problems");
    let bytes: Vec<Option<Vec<u8>>> = lineages[0]
        .active()
        .files
        .iter()
        .map(|file| match &file.content.value {
            Content::Packed(packed) => packed.unpack(MAX_CONTENT).ok(),
            Content::Blob(digest) => (*digest == blake3::hash(b"a")).then(Vec::new),
            Content::Inline(_) | Content::File(_) | Content::Kept(_) => None,
        })
        .collect();
    let some = |bytes: &[u8]| Some(bytes.to_vec());
    assert_eq!(
        bytes,
        [
            some(b"a"),
            some(b"\xd7\x6d\xf8"),
            some(b"a"),
            some(b""),
            some(b"a")
        ]
    );
}

#[test]
fn contents_that_cannot_be_unpacked_do_not_show_themselves() {
    check(
        &version(
            r#"    - path: /etc/a
      content: {base64: "S3cr3t!"}
    - path: /etc/b
      content: {dataUrl: S3cr3t}
    - path: /etc/c
      content: {gzip: UzNjcjN0}
    - path: /etc/d
      content: {digest: "sha256:12"}
"#,
        ),
        r#"error: this is not base64
  --> p.yaml:9:25
   |
 9 |       content: {base64: "S3cr3t!"}
   |                         ^^^^^^^^^
   = write what `base64 FILE` prints

error: this is not a data URL: it does not begin with `data:`
   --> p.yaml:11:26
    |
 11 |       content: {dataUrl: S3cr3t}
    |                          ^^^^^^
    = write it as in `data:,a%20text` or `data:;base64,YQ==`

error: this is the base64 of something that is not gzip (unexpected end of file)
   --> p.yaml:13:23
    |
 13 |       content: {gzip: UzNjcjN0}
    |                       ^^^^^^^^
    = write what `gzip -c FILE | base64` prints

error: this is not a digest
   --> p.yaml:15:25
    |
 15 |       content: {digest: "sha256:12"}
    |                         ^^^^^^^^^^^
    = write `blake3:` and the 64 hexadecimal digits that `b3sum` prints"#,
    );
}

#[test]
fn what_is_packed_is_bounded_for_each_content_and_for_a_file() {
    let most = usize::try_from(MAX_CONTENT).expect("a size");
    let fits = gzip(&vec![0; most]);
    assert!(fits.len() < 40_000);
    // That there is no policy is all there is to say.
    assert_eq!(
        problem(&format!("{{gzip: {fits}}}")),
        problem("{inline: a}")
    );
    let bomb = gzip(&vec![0; most + 1]);
    let larger = problem(&format!("{{gzip: {bomb}}}"));
    assert!(larger.contains("larger than the 16 MiB"), "{larger}");
    // An alias costs what it stands for, each time.
    let files: String = (0..5)
        .map(|index| {
            let content = if index == 0 {
                format!("&x {fits}")
            } else {
                "*x".to_owned()
            };
            format!("    - path: /etc/{index}\n      content: {{gzip: {content} }}\n")
        })
        .collect();
    let (_, problems) = read(&version(&files));
    assert_eq!(problems.len(), 1, "{problems}");
    let larger = problems.to_string();
    assert!(
        larger.contains("larger than the 0 MiB that are left"),
        "{larger}"
    );
}
