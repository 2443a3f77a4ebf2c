//! The checks of answers, the same for all protocols: the subject of each command, and whether its
//! answer is possible.

mod answer;
mod checks;
mod endings;
mod io;
mod step;

pub(crate) use answer::Answer;
pub(crate) use checks::Checks;
pub(crate) use endings::EndingId;
pub(crate) use io::{Asker, Io, Seen, What};
pub(crate) use step::{StepId, StepState};
