//! Behaviour of a network that is cut, silent or slow.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testkit::{CutMode, Proxy, SeededRandom, seed_from_env};

/// Timeout for expected data.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Delay of slow data, and time to wait for data that must not arrive.
const DELAY: Duration = Duration::from_millis(100);

/// Starts an echo server with a proxy in front of it.
fn echo() -> Result<Proxy> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let proxy = Proxy::to(listener.local_addr()?.port())?;
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || std::io::copy(&mut &client, &mut &client));
        }
    });
    Ok(proxy)
}

fn connect(proxy: &Proxy) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port()))?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    Ok(stream)
}

/// Sends bytes, and returns the same number of bytes from the echo.
fn echoed(stream: &mut TcpStream, bytes: &[u8]) -> Result<Vec<u8>> {
    stream.write_all(bytes)?;
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back)?;
    Ok(back)
}

/// Returns true if the connection is closed or reset.
fn ends(mut stream: TcpStream) -> bool {
    let _ = stream.write(b"x");
    match stream.read(&mut [0]) {
        Ok(size) => size == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn traffic_passes_in_both_directions_and_is_counted() -> Result<()> {
    let proxy = echo()?;
    let (mut one, mut two) = (connect(&proxy)?, connect(&proxy)?);
    let large = vec![7; 300_000];
    ensure!(echoed(&mut one, &large)? == large && echoed(&mut two, b"ping")? == b"ping");
    ensure!(proxy.passed() == 600_008 && !proxy.is_cut(), "{}", proxy.passed());
    // The client closes its side, and sees the end of the other.
    one.shutdown(std::net::Shutdown::Write)?;
    ensure!(one.read(&mut [0])? == 0);
    Ok(())
}

#[test]
fn planned_cuts_happen_at_their_byte() -> Result<()> {
    let first = seed_from_env("BINTIDE_SEED");
    println!("seed {first}");
    let mut random = SeededRandom::new(first);
    for _ in 0..20 {
        let proxy = echo()?;
        let mut stream = connect(&proxy)?;
        ensure!(echoed(&mut stream, b"before")? == b"before");
        // The cut falls into the 1000 bytes to the server or the 1000 bytes back.
        let at = random.below(2000) as u64;
        proxy.cut_after(at, CutMode::Close);
        let _ = stream.write_all(&[1; 1000]);
        let mut back = Vec::new();
        let _ = stream.read_to_end(&mut back);
        ensure!(proxy.is_cut() && proxy.passed() == 12 + at, "{at}: {}", proxy.passed());
        ensure!(back.len() <= 1000 && back.iter().all(|byte| *byte == 1), "{at}: {}", back.len());
    }
    Ok(())
}

#[test]
fn cut_connections_stay_cut_and_new_ones_pass_after_mend() -> Result<()> {
    for how in [CutMode::Close, CutMode::Reset] {
        let proxy = echo()?;
        let mut stream = connect(&proxy)?;
        ensure!(echoed(&mut stream, b"1")? == b"1");
        proxy.cut(how);
        ensure!(ends(stream), "{how:?}");
        ensure!(ends(connect(&proxy)?), "{how:?}: a new connection while cut");
        proxy.mend();
        ensure!(echoed(&mut connect(&proxy)?, b"2")? == b"2", "{how:?}");
    }
    Ok(())
}

#[test]
fn reset_connections_report_a_reset() -> Result<()> {
    let proxy = echo()?;
    let mut stream = connect(&proxy)?;
    ensure!(echoed(&mut stream, b"1")? == b"1");
    proxy.cut(CutMode::Reset);
    let read = stream.read(&mut [0]);
    ensure!(read.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset), "{read:?}");
    Ok(())
}

#[test]
fn silenced_connections_stay_open() -> Result<()> {
    let proxy = echo()?;
    let mut stream = connect(&proxy)?;
    ensure!(echoed(&mut stream, b"1")? == b"1");
    proxy.cut(CutMode::Silence);
    let late = connect(&proxy)?;
    for mut silent in [stream, late] {
        silent.write_all(b"2")?;
        silent.set_read_timeout(Some(DELAY))?;
        let read = silent.read(&mut [0]);
        let waits =
            |error: &std::io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        ensure!(read.as_ref().is_err_and(waits), "{read:?}");
    }
    proxy.mend();
    ensure!(echoed(&mut connect(&proxy)?, b"3")? == b"3");
    Ok(())
}

#[test]
fn delayed_traffic_arrives_late() -> Result<()> {
    let proxy = echo()?;
    let mut stream = connect(&proxy)?;
    proxy.delay(DELAY);
    let begin = Instant::now();
    ensure!(echoed(&mut stream, b"slow")? == b"slow");
    ensure!(begin.elapsed() >= DELAY * 2, "{:?}", begin.elapsed());
    Ok(())
}
