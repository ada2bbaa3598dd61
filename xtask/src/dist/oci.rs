//! OCI images: the binary, trusted certificate authorities and time zones, and no operating system.
//!
//! The archive has the image layout of the OCI: `skopeo`, `podman load` and `docker load` read it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Release;
use super::archive::{TarCompression, write_tar};
use super::command::{empty_directory, run, sha256, stdout_of};
use super::package_kind::PackageKind;
use super::stage::{DOC_DIRECTORY, StagedPackage};

/// Files of this machine that the image contains, and the Debian package that has them.
const MACHINE_FILES: [(&str, &str); 2] =
    [("etc/ssl/certs/ca-certificates.crt", "ca-certificates"), ("usr/share/zoneinfo", "tzdata")];

/// User and group that the image runs as: any except root.
const IMAGE_USER: &str = "65532:65532";

/// Makes the image.
pub(crate) fn make_image(release: &Release, staged: &StagedPackage) -> Result<()> {
    let work = release.directory.join("oci").join(staged.arch.name());
    empty_directory(&work)?;
    let layer = stage_layer(&work, staged)?;
    let image = work.join("image");
    let blobs = image.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let plain = work.join("layer.tar");
    write_tar(&layer, &plain, release.epoch, TarCompression::None)?;
    let plain_digest = sha256(&plain)?;
    run(Command::new("gzip").args(["-n", "-9"]).arg(&plain))?;
    let packed = fs::read(work.join("layer.tar.gz"))?;
    let created = timestamp(release.epoch)?;
    let layer = add_blob(&blobs, &packed, "application/vnd.oci.image.layer.v1.tar+gzip")?;
    let config = json!({
        "architecture": staged.arch.debian_name(), "os": "linux", "created": created,
        "config": {
            "User": IMAGE_USER, "Entrypoint": ["/usr/bin/bintide"], "WorkingDir": "/",
            "Env": ["PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
            "Labels": { "org.opencontainers.image.title": "bintide", "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0" },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{plain_digest}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    });
    let config = add_blob(&blobs, &serde_json::to_vec(&config)?, "application/vnd.oci.image.config.v1+json")?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [layer],
    });
    let mut manifest =
        add_blob(&blobs, &serde_json::to_vec(&manifest)?, "application/vnd.oci.image.manifest.v1+json")?;
    manifest["platform"] = json!({ "architecture": staged.arch.debian_name(), "os": "linux" });
    manifest["annotations"] =
        json!({ "org.opencontainers.image.ref.name": format!("bintide:{}", release.version) });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest],
    });
    fs::write(image.join("index.json"), serde_json::to_vec(&index)?)?;
    fs::write(image.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let file = PackageKind::Image.file(release, staged.arch);
    write_tar(&image, &file, release.epoch, TarCompression::None)
}

/// Stages the files of the image's only layer.
fn stage_layer(work: &Path, staged: &StagedPackage) -> Result<PathBuf> {
    let root = work.join("layer");
    let layer = StagedPackage::at(staged.arch, root.clone());
    layer.add("usr/bin/bintide", &fs::read(staged.root().join("usr/bin/bintide"))?, 0o755)?;
    let licences = format!("{DOC_DIRECTORY}/LICENSES-THIRD-PARTY.gz");
    layer.add(&licences, &fs::read(staged.root().join(&licences))?, 0o644)?;
    for (path, package) in MACHINE_FILES {
        let from = Path::new("/").join(path);
        let missing = || format!("{} does not exist: install {package}", from.display());
        fs::metadata(&from).with_context(missing)?;
        let to = root.join(path);
        fs::create_dir_all(to.parent().context("a file without a directory")?)?;
        run(Command::new("cp").args(["--recursive", "--dereference"]).arg(&from).arg(&to))?;
    }
    let zones = root.join("usr/share/zoneinfo");
    // Other forms of the same zones, which bintide does not read.
    for form in ["posix", "right"] {
        testkit::remove_dir(&zones.join(form))?;
    }
    // The zone of this machine.
    let local = zones.join("localtime");
    if local.exists() {
        fs::remove_file(local)?;
    }
    layer.normalize_modes()?;
    fs::create_dir(root.join("tmp"))?;
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    Ok(root)
}

/// Writes a blob, and returns its descriptor.
fn add_blob(blobs: &Path, content: &[u8], media_type: &str) -> Result<Value> {
    let work = blobs.join("new");
    fs::write(&work, content)?;
    let digest = sha256(&work)?;
    fs::rename(&work, blobs.join(&digest))?;
    Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len() }))
}

/// Returns a time as RFC 3339 writes it.
fn timestamp(epoch: u64) -> Result<String> {
    let date = format!("@{epoch}");
    let text = stdout_of(Command::new("date").args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date", &date]))?;
    Ok(text.trim().to_owned())
}
