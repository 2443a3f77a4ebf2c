//! Modes, resets, and the end of tasks.

use super::*;

const PROTECTED: Modes = Modes { write_protected: true, descriptor_sense: false };

#[test]
fn a_protected_volume_is_written_by_nobody_until_it_is_reset() {
    let mut it = Reservations::default();
    let (result, told) = it.ask(A, ChangeKind::SetModes(PROTECTED));
    assert_eq!(result, ChangeResult::Done);
    let to = Addressees::AllBut(A);
    let expected = Raised { volume: Some(VOLUME), to, attention: Attention::ModeChanged };
    assert_eq!(told, [expected]);
    let refusal = it.restriction().unwrap().refusal(A, Access::Write);
    assert_eq!(refusal, Some(Outcome::WriteProtected));
    assert!(it.allows(B, Access::Read) && it.allows(B, Access::Manage));
    assert_eq!(it.done(A, ChangeKind::SetModes(PROTECTED)), [], "the same is no news");
    it.ask(A, ChangeKind::Reset(ResetScope::Target));
    assert_eq!((it.modes(), it.restriction()), (Modes::default(), None));
}

#[test]
fn modes_are_changed_by_those_alone_who_may_write_and_may_always_be_taken_back() {
    let mut it = reserved(ReservationType::WriteExclusive);
    it.conflicts(B, ChangeKind::SetModes(PROTECTED));
    it.ask(A, ChangeKind::SetModes(PROTECTED));
    let refusal = it.restriction().unwrap().refusal(B, Access::Write);
    assert_eq!(refusal, Some(Outcome::ReservationConflict), "the conflict comes first");
    it.conflicts(B, ChangeKind::SetModes(Modes::default()));
    it.ask(A, ChangeKind::SetModes(Modes::default()));
    assert!(it.allows(A, Access::Write));
}

#[test]
fn reservations_outlast_a_reset() {
    for scope in [ResetScope::LogicalUnit, ResetScope::Target, ResetScope::TargetAndSessions] {
        let mut it = reserved(ReservationType::ExclusiveAccess);
        let before = it.clone();
        it.ask(B, ChangeKind::Reset(scope));
        assert_eq!(it, before);
    }
}

#[test]
fn the_end_of_tasks_and_of_sessions_is_told_to_everybody_else() {
    let ended = ChangeKind::EndTasks(TaskSet::All);
    let anew = ChangeKind::Reset(ResetScope::TargetAndSessions);
    for (kind, attention) in [(ended, Attention::TasksCleared), (anew, Attention::ColdReset)] {
        let mut it = reserved(ReservationType::ExclusiveAccess);
        let before = it.clone();
        let to = Addressees::AllBut(B);
        let told = vec![Raised { volume: Some(VOLUME), to, attention }];
        assert_eq!(it.ask(B, kind), (ChangeResult::Done, told));
        assert_eq!(it, before, "no reservation forbids it, and none is touched");
    }
    let mut it = Reservations::default();
    assert_eq!(it.done(A, ChangeKind::EndTasks(TaskSet::Own)), [], "nobody else has a part");
}
