//! Certificates for the way to the collector: `OTEL_EXPORTER_OTLP_CERTIFICATE`, `_CLIENT_CERTIFICATE` and `_CLIENT_KEY`.

use std::{fmt, fs, path::PathBuf, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::OtlpError;

/// What was found in the files. `Debug` shows no key.
#[derive(Clone, Default)]
pub(super) struct Tls {
    /// The only authorities to trust; `None`: the system's.
    authorities: Option<Pem>,
    /// The agent's certificate and key.
    identity: Option<(Pem, Pem)>,
}

#[derive(Clone)]
struct Pem {
    variable: &'static str,
    path: PathBuf,
    bytes: Vec<u8>,
}

type Named = Option<(&'static str, PathBuf)>;

impl Tls {
    pub(super) fn read(
        authorities: Named,
        certificate: Named,
        key: Named,
    ) -> Result<Tls, OtlpError> {
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((Pem::read(certificate)?, Pem::read(key)?)),
            (None, None) => None,
            (Some((variable, _)), None) => {
                return Err(OtlpError::HalfIdentity {
                    variable,
                    missing: "OTEL_EXPORTER_OTLP_CLIENT_KEY",
                });
            }
            (None, Some((variable, _))) => {
                return Err(OtlpError::HalfIdentity {
                    variable,
                    missing: "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
                });
            }
        };
        let authorities = authorities.map(Pem::read).transpose()?;
        Ok(Tls {
            authorities,
            identity,
        })
    }

    /// For an endpoint without TLS: asks no file and no system store.
    pub(super) fn unused() -> Result<ClientConfig, OtlpError> {
        config(RootCertStore::empty(), None)
    }

    /// For HTTP. Also what says whether the files are what they should be.
    pub(super) fn rustls(&self) -> Result<ClientConfig, OtlpError> {
        let identity = match &self.identity {
            None => None,
            Some((certificate, key)) => Some((certificate.certificates()?, key)),
        };
        config(self.roots()?, identity)
    }

    /// For gRPC.
    pub(super) fn tonic(&self) -> Result<ClientTlsConfig, OtlpError> {
        self.rustls()?;
        let mut config = ClientTlsConfig::new();
        match &self.authorities {
            Some(authorities) => {
                config = config.ca_certificate(Certificate::from_pem(&authorities.bytes));
            }
            None => config = config.trust_anchors(self.roots()?.roots),
        }
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(&certificate.bytes, &key.bytes));
        }
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, OtlpError> {
        let mut store = RootCertStore::empty();
        match &self.authorities {
            Some(authorities) => {
                for certificate in authorities.certificates()? {
                    store
                        .add(certificate)
                        .map_err(|error| authorities.wrong(&error))?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                let (added, _) = store.add_parsable_certificates(found.certs);
                if added == 0 {
                    return Err(OtlpError::NoAuthorities);
                }
            }
        }
        Ok(store)
    }
}

fn config(
    roots: RootCertStore,
    identity: Option<(Vec<CertificateDer<'static>>, &Pem)>,
) -> Result<ClientConfig, OtlpError> {
    // The provider is named, not installed: what else runs in this process may have its own.
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| OtlpError::Client(error.to_string()))?
        .with_root_certificates(roots);
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key.key()?)
            .map_err(|error| key.wrong(&error)),
    }
}

impl Pem {
    fn read((variable, path): (&'static str, PathBuf)) -> Result<Pem, OtlpError> {
        match fs::read(&path) {
            Ok(bytes) => Ok(Pem {
                variable,
                path,
                bytes,
            }),
            Err(source) => Err(OtlpError::Unreadable {
                variable,
                path,
                source,
            }),
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, OtlpError> {
        let certificates = CertificateDer::pem_slice_iter(&self.bytes)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| self.wrong(&error))?;
        if certificates.is_empty() {
            return Err(self.wrong(&"there is no certificate in it"));
        }
        Ok(certificates)
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, OtlpError> {
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|error| self.wrong(&error))
    }

    fn wrong(&self, problem: &dyn fmt::Display) -> OtlpError {
        OtlpError::Pem {
            variable: self.variable,
            path: self.path.clone(),
            problem: problem.to_string(),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |pem: &Pem| pem.path.clone();
        f.debug_struct("Tls")
            .field("authorities", &self.authorities.as_ref().map(path))
            .field("key", &self.identity.as_ref().map(|(_, key)| path(key)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::{Named, Tls};

    const CA: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
    const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
    const KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";

    fn named(variable: &'static str, path: &str) -> Named {
        Some((variable, PathBuf::from(path)))
    }

    #[test]
    fn a_file_that_is_not_there_is_named_with_its_variable() {
        let error = Tls::read(named(CA, "/nowhere/ca.pem"), None, None).expect_err("no file");
        assert_eq!(
            error.to_string(),
            format!("{CA}: cannot read /nowhere/ca.pem")
        );
        assert_eq!(error.reason(), "unreadable");
    }

    #[test]
    fn a_certificate_and_its_key_go_together() {
        let halves = [
            (named(CERTIFICATE, "/c"), None, CERTIFICATE, KEY),
            (None, named(KEY, "/k"), KEY, CERTIFICATE),
        ];
        for (certificate, key, set, missing) in halves {
            let error = Tls::read(None, certificate, key).expect_err("half of it");
            assert_eq!(
                error.to_string(),
                format!("{set} is set and {missing} is not: a certificate and its key go together")
            );
        }
    }

    #[test]
    fn a_file_that_is_something_else_is_refused_and_not_quoted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file.pem");
        fs::write(&path, "s3cret").expect("a file");
        let path = path.to_str().expect("a path of this test");
        let tls = Tls::read(named(CA, path), None, None).expect("it can be read");
        let error = tls.rustls().expect_err("no certificate").to_string();
        assert_eq!(
            error,
            format!("{CA}: {path} is not what it should be: there is no certificate in it")
        );
        let tls = Tls::read(None, named(CERTIFICATE, path), named(KEY, path)).expect("readable");
        assert!(!format!("{tls:?}").contains("s3cret"));
    }
}
