//! The lists over every sample log.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use dump::list::{Form, ListError, ListSettings, Source, list};

fn samples() -> Vec<PathBuf> {
    let mut samples = below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples"));
    samples.retain(|path| fs::read(path).unwrap().starts_with(&[0xfe, b'b', b'i', b'n']));
    assert!(samples.len() > 60);
    samples
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|found| found.unwrap().path()).collect();
    paths.sort();
    let below = |path: PathBuf| if path.is_dir() { below(&path) } else { vec![path] };
    paths.into_iter().flat_map(below).collect()
}

fn settings(form: Form, path: &Path, jobs: usize) -> ListSettings {
    let mut settings = ListSettings::new(form, vec![Source::File(path.to_owned())]);
    settings.jobs = NonZeroUsize::new(jobs).unwrap();
    settings
}

fn text(settings: &ListSettings) -> Result<String, ListError> {
    let mut out = Vec::new();
    list(settings, &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[test]
fn more_threads_make_no_difference() {
    for path in samples() {
        let one = text(&settings(Form::Events, &path, 1)).unwrap();
        let many = text(&settings(Form::Events, &path, 5)).unwrap();
        assert!(one.lines().count() > 2, "{}", path.display());
        assert!(one == many, "{}", path.display());
    }
}
