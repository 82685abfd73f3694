//! Carries connections from a port of the machine's loopback address into a network namespace of the sandbox.

use crate::error::{Error, Result};
use causeway_host::{in_namespace, named_namespace};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
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
    let (from, to) = (client.try_clone().map_err(lost())?, server.try_clone().map_err(lost())?);
    let there = thread::spawn(move || pump(from, to));
    pump(server, client);
    let _done = there.join();
    Ok(())
}

/// One direction, to its end; the other one may go on.
fn pump(mut from: TcpStream, mut to: TcpStream) {
    let _broken = io::copy(&mut from, &mut to);
    let _already_closed = to.shutdown(Shutdown::Write);
}
