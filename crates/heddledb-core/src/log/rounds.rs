//! A generation's frames, round by round over all its files.

use super::frame::Header;
use super::manifest::Generation;
use super::survey::Survey;
use super::{FILES_MAX, Frames, LogError};
use crate::storage::Storage;

/// The whole rounds of a generation, one after the other.
pub struct Rounds(Vec<Stream>);

/// A file of the generation, at one of its frames.
struct Stream {
    frames: Frames,
    header: Option<Header>,
    words: Vec<u64>,
}

/// A frame of a round.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// In which file of the generation it is.
    pub file: usize,
    /// Its header.
    pub header: Header,
    /// Its payload.
    pub words: &'a [u64],
    /// Where it was read from, for errors.
    pub frames: &'a Frames,
}

impl Rounds {
    /// Those that a survey has found.
    ///
    /// # Errors
    /// As [`Frames::next_frame`].
    pub fn new(
        storage: &dyn Storage,
        directory: u64,
        generation: &Generation,
        survey: &Survey,
    ) -> Result<Self, LogError> {
        let open = |file| {
            let mut frames = Frames::of_log(storage, directory, generation, survey, file)?;
            let mut words = Vec::new();
            let has_any = survey.files.get(usize::from(file)).is_some_and(|file| file.frames > 0);
            let header = if has_any { frames.next_frame(&mut words)? } else { None };
            Ok(Stream { frames, header, words })
        };
        (0..generation.files.min(FILES_MAX)).map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Shows the frames of the next round, file by file. Returns the header of the last; `None` after the last round.
    ///
    /// # Errors
    /// Those of `see`; as [`Frames::next_frame`].
    pub fn next_round(
        &mut self,
        mut see: impl FnMut(Frame<'_>) -> Result<(), LogError>,
    ) -> Result<Option<Header>, LogError> {
        let round_of = |header: Header| header.label.round;
        let round = self.0.iter().filter_map(|stream| stream.header.map(round_of)).min();
        let mut last = None;
        for (file, stream) in self.0.iter_mut().enumerate() {
            while let Some(header) = stream.header.filter(|header| Some(round_of(*header)) == round) {
                see(Frame { file, header, words: &stream.words, frames: &stream.frames })?;
                stream.header = stream.frames.next_frame(&mut stream.words)?;
                last = Some(header);
            }
        }
        Ok(last)
    }
}
