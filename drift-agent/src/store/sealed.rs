//! Small files of the store that are believed only when they are whole: a line with the format and the digest of the rest, then JSON.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The bytes of the file. `format`: one word.
pub(super) fn seal(format: &str, value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let body = serde_json::to_vec(value)?;
    let mut bytes = format!("{format} {}\n", blake3::hash(&body)).into_bytes();
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// What was sealed; or why it cannot be believed.
pub(super) fn open<T: DeserializeOwned>(format: &str, bytes: &[u8]) -> Result<T, String> {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let (Some(head), Some(body)) = (parts.next(), parts.next()) else {
        return Err("it is cut off".to_owned());
    };
    if head != format!("{format} {}", blake3::hash(body)).as_bytes() {
        return Err("it is not whole, or it is of another drift-agent".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// A path as text, where it is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathForm {
    Text(String),
    Bytes { base64: String },
}

impl From<&Path> for PathForm {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes {
                base64: STANDARD.encode(path.as_os_str().as_bytes()),
            },
        }
    }
}

impl PathForm {
    /// `None`: it is none.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Text(text) => Some(text.into()),
            Self::Bytes { base64 } => STANDARD
                .decode(base64)
                .map(|bytes| OsString::from_vec(bytes).into())
                .ok(),
        }
    }
}

/// For `serde(with)`: paths of any bytes.
pub(crate) mod path_form {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use super::PathForm;

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        PathForm::from(path).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        let form = PathForm::deserialize(deserializer)?;
        form.path()
            .ok_or_else(|| D::Error::custom("a path is none"))
    }
}
