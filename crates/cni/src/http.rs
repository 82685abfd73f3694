//! As much HTTP/1.1 as one request and one answer over a unix socket need: heads with `Content-Length`, no reuse of
//! connections. Both sides use it; neither talks to anybody else.

use std::io::{self, ErrorKind, Read};

/// The longest head that is read.
pub const MAX_HEAD: usize = 8 << 10;
/// The longest body that is read: GC lists every pod of the node.
pub const MAX_BODY: usize = 4 << 20;

/// What a head says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Head {
    /// The request line or the status line.
    pub line: String,
    /// Where the body begins.
    pub length: usize,
    /// How long the body is.
    pub body: usize,
}

impl Head {
    /// The status of an answer.
    pub fn status(&self) -> Option<u16> {
        self.line.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()
    }
}

/// Reads a head at the beginning of some bytes; `None` if it is not complete yet.
///
/// # Errors
/// If it is not a head, or too long.
pub fn parse_head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let bad = |what: &str| Err(io::Error::new(ErrorKind::InvalidData, what.to_owned()));
    let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
        return if bytes.len() > MAX_HEAD { bad("the head is too long") } else { Ok(None) };
    };
    let Ok(text) = std::str::from_utf8(&bytes[..end]) else { return bad("the head is not text") };
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let mut body = 0;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            let Ok(length) = value.trim().parse::<usize>() else { return bad("Content-Length is no number") };
            body = length;
        }
    }
    if body > MAX_BODY { bad("the body is too long") } else { Ok(Some(Head { line, length: end + 4, body })) }
}

/// A request, ready to be sent.
pub(crate) fn request(body: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: causeway\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// An answer, ready to be sent.
pub fn response(status: u16, body: &str) -> String {
    let word = if status == 200 { "OK" } else { "Error" };
    format!(
        "HTTP/1.1 {status} {word}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n\
         {body}",
        body.len()
    )
}

/// Reads one message.
///
/// # Errors
/// If reading fails, or what comes is not a message.
pub fn read_message(reader: &mut impl Read) -> io::Result<(Head, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8 << 10];
    loop {
        if let Some(head) = parse_head(&bytes)?
            && bytes.len() >= head.length + head.body
        {
            let body = bytes[head.length..head.length + head.body].to_vec();
            return Ok((head, body));
        }
        match reader.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let (head, body) = read_message(&mut response(400, "{\"a\":1}").as_bytes()).unwrap();
        assert_eq!((head.status(), body.as_slice()), (Some(400), b"{\"a\":1}".as_slice()));
        let (head, body) = read_message(&mut request("{}").as_bytes()).unwrap();
        assert_eq!((head.line.as_str(), body.as_slice()), ("POST / HTTP/1.1", b"{}".as_slice()));
    }

    #[test]
    fn what_is_cut_off_or_too_large_is_refused() {
        let cut = &response(200, "{}")[..40];
        assert_eq!(read_message(&mut cut.as_bytes()).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let large = "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n";
        assert_eq!(read_message(&mut large.as_bytes()).unwrap_err().kind(), ErrorKind::InvalidData);
        let endless = vec![b'x'; MAX_HEAD + 5];
        assert_eq!(read_message(&mut endless.as_slice()).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
