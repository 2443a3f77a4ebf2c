//! The judgement of answers, the same for all doors: what each command was about, and whether it can
//! have been answered so.

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
