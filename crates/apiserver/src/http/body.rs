//! The body of an answer: bytes that are there, or a stream that goes on.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _};
use http_body::{Frame, SizeHint};

/// What an answer carries.
pub struct Body(Content);

enum Content {
    Whole(Option<Bytes>),
    Stream(BoxStream<'static, Bytes>),
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Content::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    pub(crate) fn stream(stream: BoxStream<'static, Bytes>) -> Self {
        Self(Content::Stream(stream))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.0 {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Stream(stream) => {
                stream.poll_next_unpin(context).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Content::Whole(bytes) => write!(out, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Content::Stream(_) => out.write_str("Body(stream)"),
        }
    }
}
