//! RPM packages, made by rpmbuild.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::Release;
use super::command::{empty_directory, run};
use super::package_kind::PackageKind;
use super::stage::StagedPackage;

/// Makes the RPM package. Its files are those of the staged directory, unchanged.
pub(crate) fn make_rpm(release: &Release, staged: &StagedPackage) -> Result<()> {
    let work = release.directory.join("rpm").join(staged.arch.name());
    empty_directory(&work)?;
    let spec = work.join("bintide.spec");
    fs::write(&spec, spec_text(release))?;
    let root = staged.root().display().to_string();
    let file = PackageKind::Rpm.file(release, staged.arch);
    let name = file.file_name().context("a package without a name")?.to_string_lossy();
    let mut rpmbuild = Command::new("rpmbuild");
    rpmbuild.arg("-bb").arg("--quiet").arg("--target").arg(format!("{}-linux", staged.arch.name()));
    for definition in [
        format!("_topdir {}", work.display()),
        format!("_rpmdir {}", release.packages().display()),
        format!("_rpmfilename {name}"),
        "_buildhost localhost".to_owned(),
        "use_source_date_epoch_as_buildtime 1".to_owned(),
        "clamp_mtime_to_source_date_epoch 1".to_owned(),
        "_build_id_links none".to_owned(),
        "debug_package %{nil}".to_owned(),
        // The binary is stripped already, and pages are compressed.
        "__os_install_post %{nil}".to_owned(),
        "_binary_payload w19.zstdio".to_owned(),
        format!("staged {root}"),
    ] {
        rpmbuild.arg("--define").arg(definition);
    }
    run(rpmbuild.arg(&spec).env("SOURCE_DATE_EPOCH", release.epoch.to_string()))
}

fn spec_text(release: &Release) -> String {
    format!(
        "Name: bintide
Version: {}
Release: 1
Summary: Tool for the binary logs of MySQL and MariaDB
License: MIT OR Apache-2.0
AutoReqProv: no

%description
bintide prints, counts, checks, compresses, copies, archives and applies binary
logs, serves them to replicas, undoes transactions, and writes row changes as
JSON, Avro or Parquet, also to Kafka. It reads compressed transactions and
encrypted logs. Its memory use does not grow with the size of a log.

%install
mkdir -p %{{buildroot}}
cp -a %{{staged}}/. %{{buildroot}}/
mkdir -p %{{buildroot}}/usr/share/zsh/site-functions
mv %{{buildroot}}/usr/share/zsh/vendor-completions/_bintide %{{buildroot}}/usr/share/zsh/site-functions/
rmdir %{{buildroot}}/usr/share/zsh/vendor-completions
find %{{buildroot}} -exec touch --no-dereference --date=@{epoch} {{}} +

%post
if command -v systemd-sysusers >/dev/null; then systemd-sysusers bintide.conf; fi
if command -v systemd-tmpfiles >/dev/null; then systemd-tmpfiles --create bintide.conf || :; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi

%postun
if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi

%files
%defattr(-,root,root,-)
/usr/bin/bintide
/usr/lib/systemd/system/bintide-*.service
/usr/lib/sysusers.d/bintide.conf
/usr/lib/tmpfiles.d/bintide.conf
/usr/share/bash-completion/completions/bintide
/usr/share/fish/vendor_completions.d/bintide.fish
/usr/share/zsh/site-functions/_bintide
/usr/share/man/man1/bintide*.1.gz
/usr/share/doc/bintide
",
        release.version,
        epoch = release.epoch
    )
}
