//! The cluster's own authority, and a certificate for each that talks in it.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::control;

/// Names and addresses of the API server.
const SERVER: [&str; 7] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "localhost",
    "127.0.0.1",
    control::ADDRESS,
    control::SERVICE,
];

/// Writes them all into `folder`, with a kubeconfig for each that calls the API server.
pub(super) fn write(folder: &Path, nodes: &[String]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let key = KeyPair::generate().context("making a key")?;
    let mut parameters = CertificateParams::new(Vec::new()).context("an authority")?;
    parameters.distinguished_name = name(None, "drift-kube");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let certificate = parameters
        .self_signed(&key)
        .context("signing the authority")?;
    put(folder, "ca.crt", &certificate.pem())?;
    put(folder, "ca.key", &key.serialize_pem())?;
    let authority = Authority {
        folder,
        issuer: Issuer::new(parameters, key),
    };
    // Service accounts' tokens are signed with this one.
    let accounts = KeyPair::generate().context("making a key")?;
    put(folder, "sa.key", &accounts.serialize_pem())?;
    put(folder, "sa.pub", &accounts.public_key_pem())?;

    authority.sign("apiserver", name(None, "kube-apiserver"), true)?;
    authority.sign(
        "apiserver-kubelet",
        name(
            Some(control::KUBELET_CALLERS),
            "kube-apiserver-kubelet-client",
        ),
        false,
    )?;
    authority.caller("admin", name(Some("system:masters"), "admin"))?;
    for component in ["kube-controller-manager", "kube-scheduler"] {
        authority.caller(component, name(None, &format!("system:{component}")))?;
    }
    for node in nodes {
        authority.caller(
            node,
            name(Some("system:nodes"), &format!("system:node:{node}")),
        )?;
    }
    Ok(())
}

fn name(organisation: Option<&str>, common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name.push(DnType::CommonName, common);
    name
}

fn put(folder: &Path, file: &str, text: &str) -> Result<()> {
    let path = folder.join(file);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

struct Authority<'f> {
    folder: &'f Path,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority<'_> {
    fn sign(&self, file: &str, name: DistinguishedName, server: bool) -> Result<()> {
        let key = KeyPair::generate().context("making a key")?;
        let names: Vec<String> = if server {
            SERVER.map(str::to_owned).to_vec()
        } else {
            vec![]
        };
        let mut parameters = CertificateParams::new(names).context("a certificate")?;
        parameters.distinguished_name = name;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![if server {
            ExtendedKeyUsagePurpose::ServerAuth
        } else {
            ExtendedKeyUsagePurpose::ClientAuth
        }];
        let certificate = parameters
            .signed_by(&key, &self.issuer)
            .with_context(|| format!("signing {file}"))?;
        put(self.folder, &format!("{file}.crt"), &certificate.pem())?;
        put(self.folder, &format!("{file}.key"), &key.serialize_pem())
    }

    /// A certificate, and a kubeconfig with it.
    fn caller(&self, file: &str, name: DistinguishedName) -> Result<()> {
        self.sign(file, name, false)?;
        let at = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "drift", "cluster": {
                "server": format!("https://{}:443", control::ADDRESS),
                "certificate-authority": at("ca.crt"),
            }}],
            "users": [{"name": file, "user": {
                "client-certificate": at(&format!("{file}.crt")),
                "client-key": at(&format!("{file}.key")),
            }}],
            "contexts": [{"name": "drift", "context": {"cluster": "drift", "user": file}}],
            "current-context": "drift",
        });
        put(
            self.folder,
            &format!("{file}.kubeconfig"),
            &format!("{config:#}\n"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_who_calls_the_api_server_has_a_config_with_files_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &["node-a".to_owned()]).unwrap();
        for caller in [
            "admin",
            "kube-controller-manager",
            "kube-scheduler",
            "node-a",
        ] {
            let path = folder.path().join(format!("{caller}.kubeconfig"));
            let config: serde_json::Value =
                serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            let user = &config["users"][0]["user"];
            for file in [
                &user["client-certificate"],
                &user["client-key"],
                &config["clusters"][0]["cluster"]["certificate-authority"],
            ] {
                let text = fs::read_to_string(file.as_str().unwrap()).unwrap();
                assert!(text.starts_with("-----BEGIN "), "{text}");
            }
        }
        for file in ["apiserver.crt", "apiserver-kubelet.key", "sa.key", "sa.pub"] {
            assert!(folder.path().join(file).exists(), "{file}");
        }
    }
}
