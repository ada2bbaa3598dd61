//! The libraries that are compiled into the command: their licences, and the bill of materials.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::command::stdout_of;
use super::platform::PackageArch;
use super::static_binary::FeatureSet;

/// Libraries in C that crates contain: the crate, and the directory of the library with its licence.
const BUNDLED_LIBRARIES: [(&str, &str); 4] = [
    ("libz-sys", "src/zlib"),
    ("openssl-src", "openssl"),
    ("rdkafka-sys", "librdkafka"),
    ("zstd-sys", "zstd"),
];
/// Crate that is only a dependency of a build, but whose library is linked.
const LINKED_BUILD_DEPENDENCY: &str = "openssl-src";

/// Libraries of the command, by name and version.
pub(crate) struct DependencyList {
    libraries: BTreeMap<(String, String), Library>,
}

/// A library that is compiled into the command.
struct Library {
    /// Licence expression, such as `MIT OR Apache-2.0`.
    licence: String,
    /// Directory of its sources.
    directory: PathBuf,
    /// SHA-256 of its package; `None` for the crates of the workspace.
    checksum: Option<String>,
}

impl DependencyList {
    /// Reads the libraries of the workspace in `source`, of all platforms that packages are made for.
    pub(crate) fn read(source: &Path) -> Result<Self> {
        let mut used = BTreeSet::new();
        for arch in PackageArch::ALL {
            let mut tree = testkit::cargo_command(source);
            tree.args(["tree", "--locked", "--package=bintide", "--edges=normal", "--prefix=none"]);
            tree.args(["--format={p}", FeatureSet::Packaged.argument(), "--target", &arch.rust_target()]);
            for line in stdout_of(&mut tree)?.lines() {
                let mut words = line.split_whitespace();
                let (name, version) = (words.next(), words.next());
                let version = version.and_then(|version| version.strip_prefix('v'));
                used.extend(name.zip(version).map(|(name, version)| (name.to_owned(), version.to_owned())));
            }
        }
        let mut metadata = testkit::cargo_command(source);
        metadata.args(["metadata", "--locked", "--all-features", "--format-version=1"]);
        let metadata: Value = serde_json::from_str(&stdout_of(&mut metadata)?)?;
        let checksums = read_checksums(source)?;
        let mut libraries = BTreeMap::new();
        for package in metadata["packages"].as_array().context("cargo metadata lists no packages")? {
            let field = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
            let key = (field("name"), field("version"));
            if key.0 == LINKED_BUILD_DEPENDENCY {
                used.insert(key.clone());
            }
            if !used.contains(&key) {
                continue;
            }
            let licence = field("license");
            ensure!(!licence.is_empty(), "{} {} has no licence expression", key.0, key.1);
            let manifest = PathBuf::from(field("manifest_path"));
            let directory = manifest.parent().context("a manifest without a directory")?.to_path_buf();
            let checksum = checksums.get(&key).cloned();
            libraries.insert(key, Library { licence, directory, checksum });
        }
        ensure!(libraries.len() == used.len(), "cargo metadata does not list all libraries of cargo tree");
        Ok(Self { libraries })
    }

    /// Returns the libraries that are not of the workspace.
    fn third_party(&self) -> impl Iterator<Item = (&(String, String), &Library)> {
        self.libraries.iter().filter(|(_, library)| library.checksum.is_some())
    }

    /// Returns the bill of materials: a CycloneDX document in JSON.
    pub(crate) fn sbom(&self, version: &str) -> Result<String> {
        let components: Vec<Value> = self
            .third_party()
            .map(|((name, version), library)| {
                let purl = format!("pkg:cargo/{name}@{version}");
                json!({
                    "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
                    "licenses": [{ "expression": library.licence.replace('/', " OR ") }],
                    "hashes": [{ "alg": "SHA-256", "content": library.checksum }],
                })
            })
            .collect();
        let document = json!({
            "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": { "component": {
                "type": "application", "bom-ref": "bintide", "name": "bintide", "version": version,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            }},
            "components": components,
            "dependencies": [{
                "ref": "bintide",
                "dependsOn": self.third_party().map(|((name, version), _)| format!("pkg:cargo/{name}@{version}")).collect::<Vec<_>>(),
            }],
        });
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }

    /// Returns the licences of all libraries, with their texts. Each text occurs once.
    ///
    /// For a library without a licence file, the text is that of the same licence in `source`, the workspace.
    pub(crate) fn licence_texts(&self, source: &Path) -> Result<String> {
        let mut out = String::from(
            "bintide contains these libraries. The texts of their licences follow the list.\n\n",
        );
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ((name, version), library) in self.third_party() {
            out.push_str(&format!("{name} {version}: {}\n", library.licence));
            let mut found = licence_files(&library.directory)?;
            if found.is_empty() {
                let text = standard_text(source, name, &library.licence)?;
                let text = text.with_context(|| format!("{name} {version} has no licence text"))?;
                found.push(text);
            }
            for (_, bundled) in BUNDLED_LIBRARIES.iter().filter(|(owner, _)| owner == name) {
                let texts = licence_files(&library.directory.join(bundled))?;
                ensure!(!texts.is_empty(), "{name} {version} has no licence in {bundled}");
                found.extend(texts);
            }
            for text in found {
                texts.entry(text).or_default().push(format!("{name} {version}"));
            }
        }
        for (text, users) in texts {
            out.push_str(&format!("\n{}\n{}\n\n{}\n", "-".repeat(78), users.join(", "), text.trim_end()));
        }
        Ok(out)
    }
}

/// Returns the texts of the licence and notice files.
fn licence_files(directory: &Path) -> Result<Vec<String>> {
    const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT"];
    let mut paths = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && NAMES.iter().any(|start| name.starts_with(start))
    });
    paths.sort();
    paths.iter().map(|path| Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())).collect()
}

/// Returns the text of a library's licence, for a library without files about it.
fn standard_text(source: &Path, name: &str, licence: &str) -> Result<Option<String>> {
    let choices: Vec<&str> = licence.split([' ', '/', '(', ')']).collect();
    let file = match () {
        () if choices.contains(&"MIT") => "LICENSE-MIT",
        () if choices.contains(&"Apache-2.0") => "LICENSE-APACHE",
        () => return Ok(None),
    };
    let text = fs::read_to_string(source.join(file))?;
    let line = |line: &str| match line.starts_with("Copyright (c)") {
        true => format!("Copyright (c) The authors of {name}"),
        false => line.to_owned(),
    };
    Ok(Some(text.lines().map(line).collect::<Vec<_>>().join("\n")))
}

/// Returns the SHA-256 of each package in Cargo.lock.
fn read_checksums(source: &Path) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = fs::read_to_string(source.join("Cargo.lock"))?.parse()?;
    let packages = lock["package"].as_array().context("Cargo.lock lists no packages")?;
    let field = |package: &toml::Value, name: &str| {
        package.get(name).and_then(toml::Value::as_str).map(str::to_owned)
    };
    Ok(packages
        .iter()
        .filter_map(|package| {
            Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?))
        })
        .collect())
}
