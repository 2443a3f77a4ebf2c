//! Many asynchronous tasks share a volume.
//!
//!     cargo run --example tasks --features tokio direct://127.0.0.1:4421/data
use nearflash::direct::Buffer;
use nearflash::{Client, Credentials, Error, QueueOptions};

pub(crate) async fn run(url: String) -> Result<(), Error> {
    // Connecting blocks, so it has a thread of its own.
    let connect = move || Client::connect(&url, Credentials::NONE);
    let client = tokio::task::spawn_blocking(connect).await.expect("it does not panic")?;
    let name = client.volume_name().ok_or(Error::NoVolume)?;
    let volume = client.open_async(name, QueueOptions::default()).await?;

    let tasks: Vec<_> = (0..100u64)
        .map(|task| {
            let volume = volume.clone();
            tokio::spawn(async move {
                let buffer = volume.write_at(task.to_le_bytes().to_vec(), task * 4096).await?;
                let read = volume.read_at(Buffer::new(8), task * 4096).await?;
                assert_eq!(*read, *buffer);
                Ok::<(), Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("it does not panic")?;
    }
    volume.flush().await?;
    println!("100 tasks have written and read");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run(std::env::args().nth(1).expect("usage: tasks URL")).await
}
