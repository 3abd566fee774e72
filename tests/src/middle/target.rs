//! The API server that is meant, as the admin.

use std::{
    io::{self, BufReader, Write as _},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::Value;

use super::http::Head;

/// A connection to it.
pub(super) type Line = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// How it is called.
#[derive(Clone, Debug)]
pub struct Target {
    port: u16,
    config: Arc<ClientConfig>,
}

impl Target {
    /// The one on this port of loopback, with the admin's certificate in `pki`.
    ///
    /// # Errors
    /// The keys cannot be read.
    pub fn new(port: u16, pki: &Path) -> Result<Self> {
        let certificates = |name: &str| -> Result<Vec<CertificateDer<'static>>> {
            let path = pki.join(name);
            CertificateDer::pem_file_iter(&path)
                .and_then(Iterator::collect)
                .with_context(|| path.display().to_string())
        };
        let mut roots = RootCertStore::empty();
        for authority in certificates("ca.crt")? {
            roots.add(authority)?;
        }
        let key = PrivateKeyDer::from_pem_file(pki.join("admin.key")).context("admin.key")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(certificates("admin.crt")?, key)?;
        Ok(Self {
            port,
            config: Arc::new(config),
        })
    }

    /// A connection, and what ends it.
    pub(super) fn connect(&self) -> io::Result<(Line, TcpStream)> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_nodelay(true)?;
        let end = stream.try_clone()?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let tls =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        Ok((BufReader::new(StreamOwned::new(tls, stream)), end))
    }

    /// A connection for several questions.
    ///
    /// # Errors
    /// There is none.
    pub fn session(&self) -> Result<Session> {
        let (line, end) = self.connect()?;
        end.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Session { line })
    }

    /// Asks it something, and gives its answer. `body`: its type, and itself.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn ask(&self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Value> {
        self.session()?.ask(method, path, body)
    }
}

/// A connection on which one question follows the other.
#[derive(Debug)]
pub struct Session {
    line: Line,
}

impl Session {
    /// As [`Target::ask`].
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn ask(&mut self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Value> {
        let (kind, text) = body.map_or(("application/json", String::new()), |(kind, body)| {
            (kind, body.to_string())
        });
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let head = Head {
            first: format!("{method} {path} HTTP/1.1"),
            fields: vec![
                field("host", "localhost"),
                field("content-type", kind),
                field("content-length", &text.len().to_string()),
            ],
        };
        let to = self.line.get_mut();
        head.write(to)?;
        to.write_all(text.as_bytes())?;
        to.flush()?;
        let answer = Head::read(&mut self.line)?.context("no answer")?;
        let said = answer.body(&mut self.line)?;
        ensure!(
            answer.second().starts_with('2'),
            "{method} {path}: {}",
            String::from_utf8_lossy(&said)
        );
        // `/readyz` says `ok`.
        Ok(serde_json::from_slice(&said).unwrap_or(Value::Null))
    }
}
