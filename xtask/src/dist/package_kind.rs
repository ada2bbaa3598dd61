//! Kinds of packages, and the names of their files.

use std::path::PathBuf;

use super::Release;
use super::platform::PackageArch;

/// Kind of package.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PackageKind {
    Archive,
    Debian,
    Rpm,
    Image,
}

impl PackageKind {
    pub(crate) const ALL: [Self; 4] = [Self::Archive, Self::Debian, Self::Rpm, Self::Image];

    /// Returns the path of a package.
    pub(crate) fn file(self, release: &Release, arch: PackageArch) -> PathBuf {
        let (version, name) = (&release.version, arch.name());
        release.packages().join(match self {
            Self::Archive => format!("bintide-{version}-{name}-linux.tar.gz"),
            Self::Debian => format!("bintide_{version}-1_{}.deb", arch.debian_name()),
            Self::Rpm => format!("bintide-{version}-1.{name}.rpm"),
            Self::Image => format!("bintide-{version}-{name}-oci.tar"),
        })
    }
}
