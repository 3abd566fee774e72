//! As much of HTTP/1.1 as the agent and an API server speak with each other.

use std::io::{self, BufRead, Read as _, Write};

/// A line longer than this is none.
const LONGEST_LINE: u64 = 64 << 10;

/// What stands before a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The request or status line.
    pub first: String,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(LONGEST_LINE).read_until(b'\n', &mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| invalid("a line that is no text"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

impl Head {
    /// The next one; `None`: nothing more comes.
    ///
    /// # Errors
    /// The stream's, or it is no head.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Head>> {
        let first = line(from)?;
        if first.is_empty() {
            return Ok(None);
        }
        let mut head = Head {
            first,
            fields: Vec::new(),
        };
        loop {
            let line = line(from)?;
            if line.is_empty() {
                return Ok(Some(head));
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| invalid("a field without a name"))?;
            let field = (name.to_ascii_lowercase(), value.trim().to_owned());
            head.fields.push(field);
        }
    }

    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }

    #[must_use]
    pub fn is_chunked(&self) -> bool {
        self.field("transfer-encoding") == Some("chunked")
    }

    /// The second word: a request's target, an answer's status.
    #[must_use]
    pub fn second(&self) -> &str {
        self.first.split(' ').nth(1).unwrap_or_default()
    }

    /// # Errors
    /// The stream's.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut text = format!("{}\r\n", self.first);
        for (name, value) in &self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        to.write_all(text.as_bytes())
    }

    /// All of the body, however it is sent.
    ///
    /// # Errors
    /// The stream's, or it is cut off.
    pub fn body(&self, from: &mut impl BufRead) -> io::Result<Vec<u8>> {
        if self.is_chunked() {
            let mut body = Vec::new();
            while let Some(chunk) = chunk(from)? {
                body.extend(chunk);
            }
            return Ok(body);
        }
        let length = self.field("content-length").unwrap_or("0");
        let length: usize = length
            .parse()
            .map_err(|_| invalid("a length that is no number"))?;
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        Ok(body)
    }
}

/// The next chunk; `None`: that was the last.
///
/// # Errors
/// The stream's, or it is cut off.
pub fn chunk(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let size = line(from)?;
    let size = size.split(';').next().unwrap_or_default();
    let size = usize::from_str_radix(size, 16).map_err(|_| invalid("a chunk without a size"))?;
    let mut chunk = vec![0; size];
    from.read_exact(&mut chunk)?;
    line(from)?;
    Ok((size > 0).then_some(chunk))
}

/// Sends one; an empty one is the end.
///
/// # Errors
/// The stream's.
pub fn send_chunk(to: &mut impl Write, chunk: &[u8]) -> io::Result<()> {
    let mut bytes = format!("{:x}\r\n", chunk.len()).into_bytes();
    bytes.extend_from_slice(chunk);
    bytes.extend_from_slice(b"\r\n");
    to.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_in_chunks_or_by_its_length_is_read_as_it_was() {
        let mut sent = Vec::new();
        let head = Head {
            first: "HTTP/1.1 200 OK".to_owned(),
            fields: vec![("transfer-encoding".to_owned(), "chunked".to_owned())],
        };
        head.write(&mut sent).unwrap();
        for part in ["ab", "cde", ""] {
            send_chunk(&mut sent, part.as_bytes()).unwrap();
        }
        sent.extend_from_slice(b"PUT /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyz");
        let mut from = &sent[..];
        assert_eq!(Head::read(&mut from).unwrap(), Some(head.clone()));
        assert_eq!(head.body(&mut from).unwrap(), b"abcde");
        let next = Head::read(&mut from).unwrap().unwrap();
        assert_eq!(next.second(), "/x");
        assert_eq!(next.body(&mut from).unwrap(), b"xyz");
        assert_eq!(Head::read(&mut from).unwrap(), None);
        let cut = &b"5\r\nab"[..];
        assert!(chunk(&mut &*cut).is_err());
    }
}
