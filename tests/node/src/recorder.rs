//! A party on the path between a client and a node, which records all bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// An address whose connections continue to another one.
#[derive(Debug)]
pub struct Recorder {
    address: SocketAddr,
    recorded: Recorded,
}

/// The bytes of each direction of each connection.
type Recorded = Arc<Mutex<Vec<Arc<Mutex<Vec<u8>>>>>>;

impl Recorder {
    /// Records the connections to `node`.
    ///
    /// # Panics
    /// If the system has no port left.
    pub fn start(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
        let address = listener.local_addr().expect("it is bound");
        let recorded = Recorded::default();
        let all = Arc::clone(&recorded);
        // The threads end with the test's process.
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(node) else { continue };
                for socket in [&near, &far] {
                    socket.set_nodelay(true).expect("it is a TCP connection");
                }
                let copy = |socket: &TcpStream| socket.try_clone().expect("there are descriptors");
                let (other_near, other_far) = (copy(&near), copy(&far));
                for (from, to) in [(near, far), (other_far, other_near)] {
                    let bytes = Arc::default();
                    all.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&bytes));
                    thread::spawn(move || carry(from, to, &bytes));
                }
            }
        });
        Self { address, recorded }
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of recorded bytes.
    pub fn len(&self) -> usize {
        self.sum(<[u8]>::len)
    }

    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often these bytes occur.
    pub fn count(&self, wanted: &[u8]) -> usize {
        self.sum(|bytes| bytes.windows(wanted.len()).filter(|part| *part == wanted).count())
    }

    fn sum(&self, of: impl Fn(&[u8]) -> usize) -> usize {
        let all = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|bytes| of(&bytes.lock().unwrap_or_else(PoisonError::into_inner))).sum()
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, recorded: &Mutex<Vec<u8>>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        recorded.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..len]);
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
