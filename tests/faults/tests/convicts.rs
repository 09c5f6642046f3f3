//! The original is convicted of what it is known for, or the campaign convicts nobody.

use berth_faults::Failed;
use berth_faults::campaign::{Campaign, Count, Tally, rows};
use berth_faults::scheduler::Program;
use berth_stand::StandError;

#[test]
fn kube_scheduler_gives_a_place_and_a_device_twice_when_the_answer_is_lost() {
    if let Err(StandError::NoGo) = berth_stand::Binaries::locate() {
        eprintln!("skipped: {}", StandError::NoGo);
        return;
    }
    let tally = play("F14");
    assert_eq!(tally, Tally { passed: 0, failed: 1 });
    assert_eq!(play("F14d"), Tally { passed: 0, failed: 1 });
    // The same campaign has nothing to say against it where it is right.
    assert_eq!(play("F16"), Tally { passed: 1, failed: 0 });
}

fn play(row: &str) -> Tally {
    let rows = rows(&[row.to_owned()]).expect("the row");
    let campaign =
        Campaign { rows, program: Program::KubeScheduler, count: Count::Injections(1), out: None };
    let played: Result<Tally, Failed> = campaign.run();
    played.expect("a campaign")
}
