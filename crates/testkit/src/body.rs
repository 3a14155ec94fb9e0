//! Answers that may break off.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _, unfold};
use http_body::{Body, Frame};

use crate::cluster::BoxError;
use crate::faults::Faults;

/// The body of an answer on its way through the faults.
pub(crate) struct FaultyBody(Content);

enum Content {
    Whole(Option<Bytes>),
    Stream(BoxStream<'static, io::Result<Bytes>>),
}

impl FaultyBody {
    pub(crate) fn whole(text: String) -> Self {
        Self(Content::Whole(Some(text.into())))
    }

    /// Passes `body` through; the faults in `watch`, if any, happen to it piece by piece.
    pub(crate) fn new<B>(body: B, watch: Option<Faults>) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let body = Box::pin(body);
        let Some(faults) = watch else { return Self(Content::Stream(pieces(body).boxed())) };
        let born = faults.times_silenced();
        let state = Watched { pieces: pieces(body).boxed(), faults, born, over: false };
        Self(Content::Stream(unfold(state, Watched::next).boxed()))
    }
}

fn pieces<B>(body: Pin<Box<B>>) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    unfold(body, |mut body| async move {
        loop {
            let frame = std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await?;
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => return Some((Ok(data), body)),
                Ok(Err(_trailers)) => {}
                Err(error) => return Some((Err(io::Error::other(error)), body)),
            }
        }
    })
}

/// A watch that may be cut, broken or silenced.
struct Watched {
    pieces: BoxStream<'static, io::Result<Bytes>>,
    faults: Faults,
    /// How often watches had been silenced when it began.
    born: u64,
    over: bool,
}

impl Watched {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if self.over {
            return None;
        }
        let piece = tokio::select! {
            biased;
            () = self.faults.refused() => {
                Some(Err(io::Error::new(io::ErrorKind::ConnectionReset, "partitioned")))
            }
            () = self.faults.silenced_beyond(self.born) => std::future::pending().await,
            piece = self.pieces.next() => piece,
        };
        let piece = piece?;
        self.faults.lag().await;
        // What was sent into silence arrives when it is over, or never.
        let piece = match self.faults.reach().await {
            Ok(()) => piece,
            Err(error) => Err(error),
        };
        self.over = piece.is_err();
        if !self.over && self.faults.happens(|plan| plan.cut_watch) {
            self.over = true;
            if self.faults.coin() {
                return Some((
                    Err(io::Error::new(io::ErrorKind::ConnectionReset, "the watch was cut")),
                    self,
                ));
            }
        }
        Some((piece, self))
    }
}

impl Body for FaultyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let next = match &mut self.0 {
            Content::Whole(bytes) => bytes.take().map(Ok),
            Content::Stream(stream) => ready!(stream.poll_next_unpin(context)),
        };
        Poll::Ready(next.map(|piece| piece.map(Frame::data)))
    }
}
