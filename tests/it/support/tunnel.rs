//! A proxy that does as CONNECT asks, and remembers who asked.

use std::io::{Read, Write, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::spawn;

pub(crate) struct Tunnels {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Tunnels {
    /// Its threads end with the connections; the listener with the test's process.
    pub(crate) fn start() -> Tunnels {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("its address");
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&asked);
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let noted = Arc::clone(&noted);
                // A client that goes away has no tunnel.
                spawn(move || drop(tunnel(stream, &noted)));
            }
        });
        Tunnels { address, asked }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the heads of all requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("the heads").clone()
    }
}

fn tunnel(mut client: TcpStream, noted: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let to = head.split(' ').nth(1).unwrap_or_default().to_owned();
    noted.lock().expect("the heads").push(head);
    let mut server = TcpStream::connect(to)?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    spawn(move || {
        let _ = copy(&mut from_client, &mut to_server);
        to_server.shutdown(Shutdown::Write)
    });
    copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Write)
}
