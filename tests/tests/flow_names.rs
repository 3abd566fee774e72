//! Names are bytes: what cannot be shown is seen, told and healed as any other.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use drift_tests::{
    agent::{Agent, has_probes, tool},
    scene::{HEAL_AT_ONCE, Scene},
};

/// Names that have broken others' agents.
const NAMES: [&[u8]; 8] = [
    b"caf\xe9.conf",
    b"two\nlines",
    b"\x1b[31mred",
    b"\xe2\x80\xaetxt.exe",
    b" blank ",
    b"-rf",
    b"'\"\\$(id)",
    b"\xff\xfe",
];

fn all(tree: &Path) -> Vec<PathBuf> {
    let longest = [b'n'; 255];
    let names = NAMES.into_iter().chain([&longest[..]]);
    names
        .map(|name| tree.join(OsStr::from_bytes(name)))
        .collect()
}

#[test]
fn a_file_with_any_name_is_watched_told_and_healed() -> Result<()> {
    if !has_probes("a_file_with_any_name_is_watched_told_and_healed") {
        return Ok(());
    }
    // B069.
    let scene = Scene::new()?;
    let paths = all(&scene.tree());
    let mut spec = String::from("files:\n");
    for path in &paths {
        fs::write(path, "declared\n")?;
        let bytes = BASE64_STANDARD.encode(path.as_os_str().as_bytes());
        spec.push_str(&format!(
            "    - {{pathBytes: {bytes}, content: {{inline: \"declared\\n\"}}}}\n"
        ));
    }
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, &spec)?;
    let agent = Agent::start(&scene, &["--sensor", "tracepoint"])?;
    for path in &paths {
        let mark = agent.mark();
        let script = "import sys; open(sys.argv[1], 'a').write('more')";
        let arguments = [OsStr::new("-c"), OsStr::new(script), path.as_os_str()];
        let pid = tool("python3", &arguments)?;
        let bytes = BASE64_STANDARD.encode(path.as_os_str().as_bytes());
        let is_utf8 = path.to_str().is_some();
        let detected = agent.wait(mark, &format!("{path:?}"), |records| {
            let it = records
                .iter()
                .find(|record| record["event"] == "config.drift.detected");
            it.cloned()
        })?;
        ensure!(detected["actor"]["pid"] == pid, "not by {pid}: {detected}");
        // Nothing that a terminal would act on; the bytes where the text is not all there is.
        let shown = detected["path"].as_str().unwrap_or_default();
        ensure!(
            !shown.chars().any(char::is_control) && !shown.contains('\u{202e}'),
            "{detected}"
        );
        ensure!(
            is_utf8 || detected["path_bytes"] == bytes,
            "{bytes}: {detected}"
        );
        agent.wait(mark, &format!("{path:?} healed"), |records| {
            let it = records
                .iter()
                .find(|record| record["event"] == "config.drift.healed" && record["path"] == shown);
            it.map(drop)
        })?;
        ensure!(fs::read(path)? == b"declared\n", "{path:?}");
    }
    ensure!(fs::read_dir(scene.tree())?.count() == paths.len());
    ensure!(agent.stop()?.success());
    Ok(())
}
