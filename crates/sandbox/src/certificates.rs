//! Certificates of a sandbox: one authority, and an identity for everybody who speaks to the API server.
//!
//! What is there stays: only what is missing is made.

use crate::error::{Error, Result};
use crate::folder::{private_folder, write_file};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use std::fs;
use std::path::Path;

/// Somebody with a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The files are `<name>.crt` and `<name>.key`.
    pub name: String,
    /// The user, or the server.
    pub user: String,
    /// The user's group.
    pub group: Option<String>,
    /// The names and addresses of a server; none for a client.
    pub serves: Vec<String>,
}

impl Identity {
    pub fn client(name: impl Into<String>, user: impl Into<String>, group: Option<&str>) -> Identity {
        let group = group.map(str::to_owned);
        Identity { name: name.into(), user: user.into(), group, serves: Vec::new() }
    }

    pub fn server(name: impl Into<String>, serves: Vec<String>) -> Identity {
        let name = name.into();
        Identity { user: name.clone(), name, group: None, serves }
    }
}

/// Makes what is missing in a folder: the authority `ca`, the key pair `sa` of service accounts, the identities.
pub(crate) fn ensure(folder: &Path, identities: &[Identity]) -> Result<()> {
    private_folder(folder)?;
    let authority = authority(folder)?;
    service_accounts(folder)?;
    for identity in identities {
        if !folder.join(format!("{}.crt", identity.name)).exists() {
            issue(folder, &authority, identity)?;
        }
    }
    Ok(())
}

fn failed(subject: &str) -> impl Fn(rcgen::Error) -> Error {
    let subject = subject.to_owned();
    move |source| Error::Certificate { subject: subject.clone(), source }
}

/// The same parameters give the same authority again, with the key from disk.
fn authority(folder: &Path) -> Result<Issuer<'static, KeyPair>> {
    let failed = failed("the authority");
    let mut params = CertificateParams::new(Vec::new()).map_err(&failed)?;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, "causeway-sandbox");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let (key_path, path) = (folder.join("ca.key"), folder.join("ca.crt"));
    if let (Ok(pem), true) = (fs::read_to_string(&key_path), path.exists()) {
        return Ok(Issuer::new(params, KeyPair::from_pem(&pem).map_err(&failed)?));
    }
    let key = new_key(&failed)?;
    let certificate = params.self_signed(&key).map_err(&failed)?;
    write_file(&key_path, key.serialize_pem().as_bytes(), 0o600)?;
    write_file(&path, certificate.pem().as_bytes(), 0o600)?;
    Ok(Issuer::new(params, key))
}

fn new_key(failed: &impl Fn(rcgen::Error) -> Error) -> Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)
}

fn service_accounts(folder: &Path) -> Result<()> {
    if folder.join("sa.pub").exists() {
        return Ok(());
    }
    let key = new_key(&failed("service accounts"))?;
    write_file(&folder.join("sa.key"), key.serialize_pem().as_bytes(), 0o600)?;
    write_file(&folder.join("sa.pub"), key.public_key_pem().as_bytes(), 0o600)
}

/// The certificate is written last, so a pair is either whole or made again.
fn issue(folder: &Path, authority: &Issuer<'_, KeyPair>, identity: &Identity) -> Result<()> {
    let failed = failed(&identity.name);
    let mut params = CertificateParams::new(identity.serves.clone()).map_err(&failed)?;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, identity.user.as_str());
    if let Some(group) = &identity.group {
        params.distinguished_name.push(DnType::OrganizationName, group.as_str());
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params.extended_key_usages = vec![if identity.serves.is_empty() {
        ExtendedKeyUsagePurpose::ClientAuth
    } else {
        ExtendedKeyUsagePurpose::ServerAuth
    }];
    let key = new_key(&failed)?;
    let certificate = params.signed_by(&key, authority).map_err(&failed)?;
    write_file(&folder.join(format!("{}.key", identity.name)), key.serialize_pem().as_bytes(), 0o600)?;
    write_file(&folder.join(format!("{}.crt", identity.name)), certificate.pem().as_bytes(), 0o600)
}

/// A kubeconfig that carries its certificates, so that it can be copied.
pub(crate) fn kubeconfig(folder: &Path, server: &str, identity: &str, context: &str) -> Result<String> {
    let data = |file: String| -> Result<String> {
        let path = folder.join(file);
        fs::read(&path).map(|bytes| BASE64_STANDARD.encode(bytes)).map_err(Error::file(path))
    };
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": context, "cluster": {
            "server": server,
            "certificate-authority-data": data("ca.crt".into())?,
        }}],
        "users": [{"name": context, "user": {
            "client-certificate-data": data(format!("{identity}.crt"))?,
            "client-key-data": data(format!("{identity}.key"))?,
        }}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
    });
    Ok(format!("{config:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_and_what_is_missing_is_made() {
        let place = tempfile::tempdir().unwrap();
        let admin = Identity::client("admin", "admin", Some("system:masters"));
        ensure(place.path(), std::slice::from_ref(&admin)).unwrap();
        let before = fs::read(place.path().join("admin.crt")).unwrap();
        ensure(place.path(), &[admin, Identity::server("api", vec!["127.0.0.1".into()])]).unwrap();
        assert_eq!(fs::read(place.path().join("admin.crt")).unwrap(), before);
        assert!(place.path().join("api.crt").exists());
    }
}
