//! What the Dockerfile says. `make image-binary` runs the script that it calls.

use super::{read, root};

/// Instructions with continued lines joined, without comments.
fn instructions() -> Vec<String> {
    let text = read(&root().join("Dockerfile")).replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_image_is_one_binary_that_nobody_runs_as_root() {
    let all = instructions();
    let last_stage = all.iter().rposition(|line| line.starts_with("FROM ")).expect("a stage");
    let (build, image) = all.split_at(last_stage);
    assert_eq!(image[0], "FROM scratch");
    let copied: Vec<_> = image.iter().filter(|line| line.starts_with("COPY ")).collect();
    assert_eq!(copied, ["COPY --from=build /out/berth /usr/local/bin/berth"]);
    assert!(image.contains(&"USER 65532:65532".to_owned()), "{image:?}");
    assert!(image.contains(&"ENTRYPOINT [\"/usr/local/bin/berth\"]".to_owned()), "{image:?}");
    assert!(!image.iter().any(|line| line.starts_with("RUN ") || line.starts_with("ADD ")));
    assert!(build.contains(&"RUN BERTH_MUSL=required image/build.sh /out".to_owned()), "{build:?}");
}

#[test]
fn it_is_built_with_the_oldest_rust_that_will_do() {
    let manifest = read(&root().join("Cargo.toml"));
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.expect("a rust-version").trim_matches('"');
    assert_eq!(instructions()[0], format!("FROM rust:{version} AS build"));
}
