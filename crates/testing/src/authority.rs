//! A private certification authority, as ovs-pki makes one.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::{OvsdbServer, loopback};

/// A private CA in a folder, with files for whoever needs some.
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// What one side of a TLS connection needs, as PEM files.
#[derive(Clone, Debug)]
pub struct PemFiles {
    /// The CA of both sides.
    pub ca: PathBuf,
    /// The certificate of this side.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Authority {
    /// A CA of its own.
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no name is a good name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).expect("a certificate can be made").pem();
        let folder = tempfile::tempdir().expect("a folder can be made");
        write(&folder.path().join("ca.pem"), &certificate);
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    /// A file of the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate without any name that TLS would check, as ovs-pki makes them.
    pub fn files(&self, name: &str) -> PemFiles {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no name is a good name");
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate can be made").pem();
        let files = PemFiles {
            ca: self.path("ca.pem"),
            certificate: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
        };
        write(&files.certificate, &certificate);
        write(&files.key, &key.serialize_pem());
        files
    }
}

impl OvsdbServer {
    /// A server that also listens with TLS, and the remote to reach it by; it may take a moment.
    pub fn start_tls(schema: &Path, files: &PemFiles) -> (OvsdbServer, String) {
        let address = loopback();
        let argument = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let arguments = [
            format!("--remote=pssl:6642:{address}"),
            argument("private-key", &files.key),
            argument("certificate", &files.certificate),
            argument("ca-cert", &files.ca),
        ];
        let server = OvsdbServer::start_with(schema, &arguments.each_ref().map(String::as_str));
        (server, format!("ssl:{address}:6642"))
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file can be written");
}
