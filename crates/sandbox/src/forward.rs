//! Carries connections from a port of the machine's loopback address into a network namespace of the sandbox.

use crate::error::{Error, Result};
use causeway_host::{in_namespace, named_namespace};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

/// Carries connections until the process ends.
pub(crate) fn forward(listen: SocketAddr, namespace: &str, target: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen).map_err(Error::file(listen.to_string()))?;
    for client in listener.incoming() {
        let Ok(client) = client else {
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let namespace = namespace.to_owned();
        thread::spawn(move || {
            // The client sees a closed connection and tries again.
            let _closed = carry(client, &namespace, target);
        });
    }
    Ok(())
}

fn carry(client: TcpStream, namespace: &str, target: SocketAddr) -> Result<()> {
    let lost = move || Error::file(target.to_string());
    // A socket stays in the namespace where it was made.
    let server =
        in_namespace(&named_namespace(namespace), || Ok(TcpStream::connect(target))).map_err(Error::Host)?;
    let server = server.map_err(lost())?;
    for stream in [&client, &server] {
        stream.set_nodelay(true).map_err(lost())?;
    }
    join(client, server).map_err(lost())
}

/// A connection, whatever it runs on.
pub(crate) trait Connection: Read + Write + Send + Sized + 'static {
    /// The same connection once more.
    fn again(&self) -> io::Result<Self>;
    /// Ends one direction, or both.
    fn end(&self, how: Shutdown) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn again(&self) -> io::Result<TcpStream> {
        self.try_clone()
    }

    fn end(&self, how: Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }
}

impl Connection for UnixStream {
    fn again(&self) -> io::Result<UnixStream> {
        self.try_clone()
    }

    fn end(&self, how: Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }
}

/// Carries what either side says to the other, until both have ended.
pub(crate) fn join<A: Connection, B: Connection>(one: A, other: B) -> io::Result<()> {
    let (from, to) = (one.again()?, other.again()?);
    let there = thread::spawn(move || pump(from, to));
    pump(other, one);
    let _done = there.join();
    Ok(())
}

/// One direction, to its end; the other one may go on, unless this one broke.
fn pump<A: Connection, B: Connection>(mut from: A, mut to: B) {
    let how = if io::copy(&mut from, &mut to).is_ok() { Shutdown::Write } else { Shutdown::Both };
    let _already_closed = to.end(how);
    if how == Shutdown::Both {
        let _already_closed = from.end(how);
    }
}
